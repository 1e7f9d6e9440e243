// What torch.autograd.profiler.emit_nvtx is for CUDA: while it is on, every operator of the thread and of its
// backward is a range of the runtime's trace, for whatever listens there.
//
// torch enables it by the profiler state PRIVATEUSE1 and calls what is registered here; see emit_ranges in
// python/torch_openreg/openreg/profiler.py.
#include "profiler/ranges.h"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <openreg/openreg.h>
#include <torch/csrc/profiler/orchestration/observer.h>
#include <torch/csrc/profiler/standalone/privateuse1_observer.h>

#include <sstream>

namespace torch::profiler::impl {
namespace {

// What disableProfiler finds and takes away.
struct EmitState final : ProfilerStateBase {
  using ProfilerStateBase::ProfilerStateBase;
  ActiveProfilerType profilerType() override { return ActiveProfilerType::PRIVATEUSE1; }
  void reportMemoryUsage(void*, int64_t, size_t, size_t, c10::Device) override {}
};

void write_sizes(std::ostream& words, c10::ArrayRef<const c10::IValue> inputs) {
  words << ", sizes = [";
  const char* comma = "";
  for (const c10::IValue& input : inputs) {
    words << comma;
    comma = ", ";
    if (input.isTensor() && input.toTensor().defined()) {
      words << input.toTensor().sizes();
    } else {
      words << "[]";
    }
  }
  words << ']';
}

// That enter has pushed.
struct Entered final : at::ObserverContext {};

std::unique_ptr<at::ObserverContext> enter(const at::RecordFunction& function) {
  if (openreg::telling_profiler()) {
    return nullptr;
  }
  std::ostringstream words;
  words << function.name();
  if (function.seqNr() >= 0) {
    words << ", seq = " << function.seqNr();
  }
  if (function.needsInputs()) {
    write_sizes(words, function.inputs());
  }
  static_cast<void>(orTraceRangePush(words.str().c_str(), nullptr));
  return std::make_unique<Entered>();
}

void leave(const at::RecordFunction&, at::ObserverContext* entered) {
  if (entered != nullptr) {
    static_cast<void>(orTraceRangePop(nullptr));
  }
}

void push_callbacks(const ProfilerConfig& config, const std::unordered_set<at::RecordScope>& scopes) {
  auto state = std::make_shared<EmitState>(config);
  EmitState* kept = state.get();
  ProfilerStateBase::push(std::move(state));
  kept->setCallbackHandle(at::addThreadLocalCallback(
      at::RecordFunctionCallback(&enter, &leave).needsInputs(config.report_input_shapes).scopes(scopes)));
}

REGISTER_PRIVATEUSE1_OBSERVER(&push_callbacks)

}  // namespace
}  // namespace torch::profiler::impl
