// Disables the profiler's recording of operators inside a kernel: operators that a CPU kernel calls are
// internal to the device. The trace contains the launch and the kernel. Also used while output shapes are
// inferred.
#pragma once

#include <ATen/record_function.h>

#include <optional>

namespace openreg {

class DisableRecordFunctionGuard {
 public:
  DisableRecordFunctionGuard() {
    if (C10_UNLIKELY(at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION).has_value())) {
      disabled_.emplace();
    }
  }

 private:
  std::optional<at::DisableRecordFunctionGuard> disabled_;
};

}  // namespace openreg
