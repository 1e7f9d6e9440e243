// The counterpart of CUDA's torch.autograd.profiler.emit_nvtx: while it is enabled, every operator of the
// thread and of its backward is a range of the runtime's trace.
//
// torch enables it by the profiler state PRIVATEUSE1 and calls the function that is registered here; see
// emit_ranges in python/torch_openreg/openreg/profiler.py.
#include "profiler/ranges.h"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <openreg/openreg.h>
#include <torch/csrc/profiler/orchestration/observer.h>
#include <torch/csrc/profiler/standalone/privateuse1_observer.h>

#include <sstream>

namespace torch::profiler::impl {
namespace {

// The state that disableProfiler removes.
struct EmitState final : ProfilerStateBase {
  using ProfilerStateBase::ProfilerStateBase;
  ActiveProfilerType profilerType() override { return ActiveProfilerType::PRIVATEUSE1; }
  void reportMemoryUsage(void*, int64_t, size_t, size_t, c10::Device) override {}
};

void write_sizes(std::ostream& text, c10::ArrayRef<const c10::IValue> inputs) {
  text << ", sizes = [";
  const char* comma = "";
  for (const c10::IValue& input : inputs) {
    text << comma;
    comma = ", ";
    if (input.isTensor() && input.toTensor().defined()) {
      text << input.toTensor().sizes();
    } else {
      text << "[]";
    }
  }
  text << ']';
}

// Marks that enter() has pushed a range.
struct Entered final : at::ObserverContext {};

std::unique_ptr<at::ObserverContext> enter(const at::RecordFunction& function) {
  if (openreg::reporting_to_profiler()) {
    return nullptr;
  }
  std::ostringstream text;
  text << function.name();
  if (function.seqNr() >= 0) {
    text << ", seq = " << function.seqNr();
  }
  if (function.needsInputs()) {
    write_sizes(text, function.inputs());
  }
  static_cast<void>(orTraceRangePush(text.str().c_str(), nullptr));
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
