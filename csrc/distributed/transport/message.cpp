#include "distributed/transport/message.h"

#include "utf8.h"

#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include <cstring>
#include <string_view>

namespace openreg::distributed {
namespace {

template <size_t N>
void copy_text(char (&to)[N], std::string_view from) {
  to[from.copy(to, length_up_to(from, N - 1))] = '\0';
}

// The message comes from another process: its texts may lack their terminators, or not be UTF-8.
template <size_t N>
std::string text_of(const char (&text)[N]) {
  char copy[N + 1] = {};
  std::memcpy(copy, text, N);
  make_utf8(copy);
  return copy;
}

const char* reduce_op_name(int64_t op) {
  static constexpr const char* kNames[] = {"SUM",  "AVG", "PRODUCT", "MIN",       "MAX",
                                           "BAND", "BOR", "BXOR",    "PREMUL_SUM"};
  return op >= 0 && op < static_cast<int64_t>(std::size(kNames)) ? kNames[op] : "an unknown operation";
}

void check_magic(int peer, const Message& theirs) {
  if (theirs.magic != Message::kMagic) {
    C10_THROW_ERROR(
        DistBackendError,
        c10::str("rank ", peer, " sent a message that is not of occl; all ranks must use the same version"));
  }
}

std::string describe(const Message& message) {
  std::string text = text_of(message.name) + " #" + std::to_string(message.sequence);
  if (message.reduce_op >= 0) text += std::string(" with ") + reduce_op_name(message.reduce_op);
  if (message.tensors[0]) text += " of " + text_of(message.tensors);
  if (message.root >= 0) text += " with root " + std::to_string(message.root);
  if (message.site[0]) text += " at " + text_of(message.site);
  return text;
}

}  // namespace

std::string to_string(const Call& call) {
  std::string text = std::string(call.name) + " #" + std::to_string(call.sequence);
  if (!call.tensors.empty()) text += " of " + call.tensors;
  if (!call.site.empty()) text += " at " + call.site;
  return text;
}

Message::Message(const Call& call, uint64_t to_receiver, uint64_t from_receiver)
    : sequence(call.sequence),
      dtype(call.dtype),
      reduce_op(call.reduce_op),
      root(call.root),
      tensor_count(call.tensor_count),
      count(call.count),
      bytes_to_receiver(to_receiver),
      bytes_from_receiver(from_receiver) {
  copy_text(name, call.name);
  copy_text(tensors, call.tensors);
  copy_text(site, call.site);
}

void check_match(int rank, const Message& mine, int peer, const Message& theirs) {
  check_magic(peer, theirs);
  const bool same_call = std::strncmp(mine.name, theirs.name, sizeof(mine.name)) == 0 &&
                         mine.sequence == theirs.sequence && mine.dtype == theirs.dtype &&
                         mine.reduce_op == theirs.reduce_op && mine.root == theirs.root &&
                         mine.tensor_count == theirs.tensor_count && mine.count == theirs.count;
  const bool same_size = mine.bytes_to_receiver == theirs.bytes_from_receiver &&
                         mine.bytes_from_receiver == theirs.bytes_to_receiver;
  if (same_call && same_size) [[likely]]
    return;
  std::string text = c10::str("the ranks do not match: rank ", rank, " called ", describe(mine),
                              ", and rank ", peer, " called ", describe(theirs));
  if (same_call) {
    text += c10::str("; rank ", rank, " sends ", mine.bytes_to_receiver, " bytes to rank ", peer,
                     ", which expects ", theirs.bytes_from_receiver, "; rank ", peer, " sends ",
                     theirs.bytes_to_receiver, " bytes to rank ", rank, ", which expects ",
                     mine.bytes_from_receiver);
  }
  text += ". All ranks of a group must call the same operations in the same order, with tensors that fit";
  C10_THROW_ERROR(DistBackendError, text);
}

void check_received(const Call& call, int rank, size_t bytes, int source, const Message& theirs) {
  check_magic(source, theirs);
  TORCH_CHECK_WITH(DistBackendError, theirs.bytes_to_receiver == bytes && theirs.dtype == call.dtype, "rank ",
                   rank, " called ", to_string(call), ", which has ", bytes, " bytes, but rank ", source,
                   " sent ", theirs.bytes_to_receiver, " bytes of ", text_of(theirs.tensors), " at ",
                   text_of(theirs.site));
}

}  // namespace openreg::distributed
