// How a launched kernel ends: with a code and words, never with an exception, and without a message from its
// thread.
#pragma once

#include "memory/kernel_allocator.h"
#include "operators/below.h"
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
  BelowEverything below_;
  Unrecorded unrecorded_;
  OfferScope host_memory_;
};

/// Calls `body` in a KernelGuard. An exception becomes orErrorKernelFailed, with its text in `why`.
orError_t run_quietly(const std::function<void()>& body, char* why, size_t why_size) noexcept;

}  // namespace openreg
