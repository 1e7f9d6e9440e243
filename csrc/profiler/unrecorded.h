// Inside a kernel the profiler records no operators: what a CPU kernel calls is the device's affair,
// whichever thread runs it. The launch and the kernel are in the trace. Nor while shapes are inferred: that
// is ours.
#pragma once

#include <ATen/record_function.h>

#include <optional>

namespace openreg {

class Unrecorded {
 public:
  Unrecorded() {
    if (C10_UNLIKELY(at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION).has_value())) {
      disabled_.emplace();
    }
  }

 private:
  std::optional<at::DisableRecordFunctionGuard> disabled_;
};

}  // namespace openreg
