// How a launched kernel ends: with a code and words, never with an exception, and without a message from its
// thread.
#pragma once

#include <openreg/openreg.h>

#include <functional>

namespace openreg {

/// Calls `body` below autograd and autocast, with CPU allocations from the host and warnings dropped. An
/// exception becomes orErrorKernelFailed, with its words in `why`.
orError_t run_quietly(const std::function<void()>& body, char* why, size_t why_size) noexcept;

}  // namespace openreg
