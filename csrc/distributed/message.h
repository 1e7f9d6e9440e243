// The message that two ranks exchange before the data of an operation.
//
// Gloo ends the process if the sizes of two ranks differ, and moves wrong data if their order differs. So
// every operation begins with messages of a fixed size. They describe the call, and carry the data if it is
// small. All ranks have the same byte order, as Gloo requires.
#pragma once

#include "distributed/call.h"

#include <cstdint>

namespace openreg::distributed {

struct Message {
  static constexpr size_t kInlineBytes = 632;
  static constexpr uint32_t kMagic = 0x4f43434c;

  uint32_t magic = kMagic;
  char name[36] = {};
  uint64_t sequence = 0;
  int64_t dtype = 0;
  int64_t reduce_op = 0;
  int64_t root = 0;
  int64_t tensor_count = 0;
  int64_t count = 0;
  uint64_t bytes_to_receiver = 0;    // that the sender sends to the receiver of this message
  uint64_t bytes_from_receiver = 0;  // that the sender expects from it
  char tensors[96] = {};
  char site[192] = {};
  unsigned char data[kInlineBytes] = {};  // the bytes to the receiver, if they fit

  Message() = default;
  Message(const Call& call, uint64_t to_receiver, uint64_t from_receiver);
};
static_assert(sizeof(Message) == 1024);

/// Throws DistBackendError if the calls of this rank and of a peer do not match.
void check_match(int rank, const Message& mine, int peer, const Message& theirs);

}  // namespace openreg::distributed
