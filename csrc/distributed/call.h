// What one rank called: the description of a collective or point-to-point operation.
#pragma once

#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <chrono>
#include <string>

namespace openreg::distributed {

using Milliseconds = std::chrono::milliseconds;

/// Compared between the ranks, except for `tensors` and `site`, which are only for messages.
struct Call {
  const char* name = "";  // "all_reduce"; a literal
  uint64_t sequence = 0;  // of the collectives of the group, or of the operations with one peer
  int64_t dtype = -1;     // c10::ScalarType; -1: without a tensor
  int64_t reduce_op = -1;
  int64_t root = -1;
  int64_t tensor_count = 0;
  int64_t count = -1;   // of elements, if it must be the same on all ranks
  std::string tensors;  // "float32[4, 4]"
  std::string site;     // "train.py:12 in step"
  Milliseconds timeout{0};
};

/// "all_reduce #12 of float32[4, 4] at train.py:12 in step".
std::string to_string(const Call& call);

}  // namespace openreg::distributed
