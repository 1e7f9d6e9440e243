// Runs a kernel body; exceptions become error codes.
#pragma once

#include "kernel/dispatch_key_guard.h"
#include "kernel/thread_state.h"
#include "profiler/unrecorded.h"

#include <c10/util/Exception.h>
#include <openreg/openreg.h>

#include <functional>

namespace openreg {

/// RAII scope for a kernel body: below autograd and autocast, with CPU allocations from the host and warnings
/// dropped.
class KernelGuard {
 public:
  KernelGuard();

 private:
  c10::WarningUtils::WarningHandlerGuard silent_;
  DispatchKeyGuard below_;
  Unrecorded unrecorded_;
  OutputBufferScope host_memory_;
};

/// Calls `body` in a KernelGuard. An exception becomes orErrorKernelFailed, with its text in `why`.
orError_t run_kernel_body(const std::function<void()>& body, char* why, size_t why_size) noexcept;

}  // namespace openreg
