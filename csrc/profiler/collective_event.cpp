#include "profiler/collective_event.h"

#include "common/version.h"

#include <torch/csrc/distributed/c10d/ParamCommsUtils.hpp>

namespace openreg {
namespace {

int64_t elements(const std::vector<at::Tensor>& tensors) {
  int64_t sum = 0;
  for (const at::Tensor& tensor : tensors) sum += tensor.numel();
  return sum;
}

int first_rank(const CollectiveArgs& args) {
  return args.global_ranks.empty() ? 0 : static_cast<int>(args.global_ranks[0]);
}

// The distance between the global ranks of the group; 0: it varies.
int stride(const CollectiveArgs& args) {
  const auto& ranks = args.global_ranks;
  if (ranks.size() < 2) return 1;
  for (size_t i = 2; i < ranks.size(); ++i) {
    if (ranks[i] - ranks[i - 1] != ranks[1] - ranks[0]) return 0;
  }
  return static_cast<int>(ranks[1] - ranks[0]);
}

std::shared_ptr<torch::ParamCommsDebugInfo> debug_info(const CollectiveArgs& args) {
  auto info = std::make_shared<torch::ParamCommsDebugInfo>(
      args.group, args.rank, std::string(args.name), elements(args.inputs), elements(args.outputs),
      args.dtype, std::vector<int64_t>(), std::vector<int64_t>(), first_rank(args), stride(args), args.size);
#if OR_COMMS_INFO_HAS_SEQUENCE
  info->setSequenceInfo(static_cast<int64_t>(args.sequence), args.is_p2p);
#endif
  return info;
}

}  // namespace

CollectiveEvent::CollectiveEvent(const CollectiveArgs& args)
    : info_(c10::DebugInfoKind::PARAM_COMMS_INFO, debug_info(args)) {
  if (!record_.isActive()) return;
  const std::vector<int64_t> splits;
  const std::tuple<int64_t, bool> sequence{static_cast<int64_t>(args.sequence), args.is_p2p};
  values_ = {args.inputs, sequence,         args.group,   args.rank, args.name, splits,
             splits,      first_rank(args), stride(args), args.size, true};
  record_.before(at::kParamCommsCallName, &values_);
  if (record_.needsOutputs()) record_.setOutputs(std::vector<c10::IValue>{args.outputs});
}

}  // namespace openreg
