// Host code as a kernel of the device: in stream order, traced, below autograd and autocast.
//
// run_kernel waits for it; launch_kernel does not. What a kernel reads and writes it finds through aliases
// (kernel/arg_alias.h) or kernel-view addresses (memory/kernel_view.h), made before the launch; an alias
// keeps no device memory alive, and must not, since stream order does.
#pragma once

#include "common/check.h"
#include "common/gil_release.h"
#include "diagnostics/op_stats.h"
#include "kernel/dispatch_key_guard.h"
#include "kernel/kernel_guard.h"
#include "kernel/thread_state.h"
#include "profiler/unrecorded.h"
#include "stream/capture.h"
#include "stream/schedule.h"
#include "stream/stream.h"

#include <c10/core/Device.h>

#include <exception>
#include <memory>
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
      const DispatchKeyGuard below;
      const Unrecorded unrecorded;
      const KernelScope scope(call->device);
      call->body();
      return orSuccess;
    } catch (...) {
      call->thrown = std::current_exception();
      return orErrorKernelFailed;
    }
  }
};

template <typename Body>
struct LaunchedKernel {
  static orError_t run(void* args, char* why, size_t why_size) {
    return run_kernel_body([&] { (**static_cast<Body**>(args))(); }, why, why_size);
  }
  static void release(void* args) { delete *static_cast<Body**>(args); }
};

}  // namespace detail

/// Runs `body` in the order of the device's current stream and returns when it is done. CPU tensors that it
/// makes are pool-backed. An exception that it throws arrives here as it was thrown and leaves the
/// stream intact.
template <typename Body>
void run_kernel(const char* name, c10::DeviceIndex device, Body&& body) {
  using Call = detail::KernelCall<std::remove_reference_t<Body>>;
  Call call{body, device, nullptr};
  const orKernel kernel{name, &Call::run, nullptr};
  const GilRelease waiting;
  const orError_t result = orRunKernel(current_stream_handle(device), &kernel, &call);
  if (C10_UNLIKELY(call.thrown != nullptr)) {
    std::rethrow_exception(call.thrown);
  }
  OR_CHECK(result);
}

/// Queues `body` on the device's current stream and returns; under the blocking schedule, runs it. `name` is
/// a literal: there is one for each call of this function in the source. CPU tensors that the body makes are
/// scratch memory of the host. An exception that it throws is reported by the next synchronization. On a
/// captured stream the body is kept by the graph and called by each replay, so it must not use itself up.
template <typename Body>
void launch_kernel(const char* name, c10::DeviceIndex device, Body body) {
  const OperatorCall noted(name);
  note_launch();
  if (schedule() == orScheduleBlocking && !capturing(device)) {
    run_kernel(name, device, body);
    return;
  }
  using Launched = detail::LaunchedKernel<Body>;
  static const orKernel kernel{name, &Launched::run, &Launched::release};
  auto owned = std::make_unique<Body>(std::move(body));
  Body* args = owned.get();
  OR_CHECK(orLaunchKernel(current_stream_handle(device), &kernel, &args, sizeof(args)));
  owned.release();
}

}  // namespace openreg
