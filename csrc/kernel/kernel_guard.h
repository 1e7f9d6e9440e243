// Runs a kernel body; exceptions become error codes.
#pragma once

#include "kernel/dispatch_key_guard.h"
#include "kernel/thread_state.h"
#include "profiler/unrecorded.h"

#include <c10/util/Exception.h>
#include <openreg/openreg.h>

#include <functional>

namespace openreg {

/// RAII scope for a kernel body: autograd and autocast are excluded, CPU allocations come from the host, and
/// warnings are dropped.
class KernelGuard {
 public:
  KernelGuard();

 private:
  c10::WarningUtils::WarningHandlerGuard warnings_;
  DispatchKeyGuard dispatch_keys_;
  DisableRecordFunctionGuard unrecorded_;
  OutputBufferScope host_memory_;
};

/// Calls `body` in a KernelGuard. An exception becomes orErrorKernelFailed, with its message in `why`.
orError_t run_kernel_body(const std::function<void()>& body, char* why, size_t why_size) noexcept;

}  // namespace openreg
