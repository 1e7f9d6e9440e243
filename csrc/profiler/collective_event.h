// The operator "record_param_comms", by which profilers and execution traces know a collective: the same as
// that of ProcessGroupNCCL, with the same arguments.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace openreg {

/// The arguments of a collective or point-to-point operation.
struct CollectiveArgs {
  std::tuple<std::string, std::string> group;  // name and description
  const char* name;                            // "all_reduce"
  uint64_t sequence;
  bool is_p2p;
  int rank;
  int size;                            // of the group
  std::vector<uint64_t> global_ranks;  // of the group; empty: all
  const std::vector<at::Tensor>& inputs;
  const std::vector<at::Tensor>& outputs;
  at::ScalarType dtype;
};

/// Records the operator for as long as it exists. Create it only if at::hasCallbacks().
class CollectiveEvent {
 public:
  explicit CollectiveEvent(const CollectiveArgs& args);

 private:
  c10::DebugInfoGuard info_;
  std::vector<c10::IValue> values_;  // read until the record ends
  at::RecordFunction record_{at::RecordScope::FUNCTION};
};

}  // namespace openreg
