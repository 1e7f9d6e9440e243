// What one rank called, and the message with it that two ranks exchange before the data of an operation.
//
// Gloo ends the process if the sizes of two ranks differ, and moves wrong data if their order differs. So
// every operation begins with messages of a fixed size. They describe the call, and carry the data if it is
// small. All ranks have the same byte order, as Gloo requires.
#pragma once

#include "distributed/transport/peer_memory.h"

#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <chrono>
#include <cstdint>
#include <string>

namespace openreg::distributed {

using Milliseconds = std::chrono::milliseconds;

/// Compared between the ranks, except for `tensors`, `bytes` and `site`, which are only for messages and
/// traces.
struct Call {
  const char* name = "";  // "all_reduce"; a literal
  uint64_t sequence = 0;  // of the collectives of the group, or of the operations with one peer
  int64_t dtype = -1;     // c10::ScalarType; -1: without a tensor
  int64_t reduce_op = -1;
  int64_t root = -1;
  int64_t tensor_count = 0;
  int64_t count = -1;   // of elements, if it must be the same on all ranks
  std::string tensors;  // "float32[4, 4]"
  uint64_t bytes = 0;   // of these tensors
  std::string site;     // "train.py:12 in step"
  Milliseconds timeout{0};
};

/// "all_reduce #12 of float32[4, 4] at train.py:12 in step".
std::string to_string(const Call& call);

struct Message {
  static constexpr size_t kInlineBytes = 560;
  static constexpr uint32_t kMagic = 0x4f434333;

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
  PeerMemory::Address memory;        // of the sender
  uint64_t location = 0;             // of the bytes to the receiver, in the memory of the sender
  uint64_t own_location = 0;         // of the sender's bytes to itself
  uint64_t reads_receiver = 0;       // 1: the sender can read the memory of the receiver
  int64_t inbox = -1;                // of the sender: a file descriptor; Note [Mailboxes]
  uint64_t uses_inbox = 0;           // 1: all that follows is in the inbox of the receiver
  char tensors[96] = {};
  char site[192] = {};
  unsigned char data[kInlineBytes] = {};  // the bytes to the receiver, if they fit

  Message() = default;
  Message(const Call& call, uint64_t to_receiver, uint64_t from_receiver);
};
static_assert(sizeof(Message) == 1024);

/// Throws DistBackendError if the calls of this rank and of a peer do not match.
void check_match(int rank, const Message& mine, int peer, const Message& theirs);

/// As check_match, for a receive of `bytes` bytes from `source`.
void check_received(const Call& call, int rank, size_t bytes, int source, const Message& theirs);

}  // namespace openreg::distributed
