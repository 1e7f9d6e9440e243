// Runs host code as a kernel of the device: in stream order, traced, with CPU allocations born on the device.
#pragma once

#include "common/check.h"
#include "memory/kernel_allocator.h"
#include "operators/below.h"
#include "stream/stream.h"

#include <c10/core/Device.h>

#include <exception>
#include <utility>

namespace openreg {

namespace detail {

template <typename Body>
struct KernelCall {
  Body& body;
  c10::DeviceIndex device;
  std::exception_ptr thrown;

  static orError_t run(void* args, char*, size_t) {
    auto* call = static_cast<KernelCall*>(args);
    try {
      const BelowEverything below;
      const KernelScope scope(call->device);
      call->body();
      return orSuccess;
    } catch (...) {
      call->thrown = std::current_exception();
      return orErrorKernelFailed;
    }
  }
};

}  // namespace detail

/// Runs `body` in the order of the device's current stream and returns when it is done. An exception that it
/// throws arrives here as it was thrown and leaves the stream intact.
template <typename Body>
void run_kernel(const char* name, c10::DeviceIndex device, Body&& body) {
  using Call = detail::KernelCall<std::remove_reference_t<Body>>;
  Call call{body, device, nullptr};
  const orKernel kernel{name, &Call::run, nullptr};
  const orError_t result = orRunKernel(current_stream_handle(device), &kernel, &call);
  if (C10_UNLIKELY(call.thrown != nullptr)) {
    std::rethrow_exception(call.thrown);
  }
  OR_CHECK(result);
}

}  // namespace openreg
