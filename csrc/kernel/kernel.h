// Runs host code as a device kernel: in stream order, traced, with autograd and autocast excluded.
//
// run_kernel synchronizes; launch_kernel does not. A kernel accesses memory through aliases
// (kernel/arg_alias.h) or kernel-view addresses (memory/kernel_view.h), which are created before the launch.
// An alias must not keep device memory alive: stream order does.
#pragma once

#include "common/check.h"
#include "common/gil_release.h"
#include "diagnostics/op_stats.h"
#include "diagnostics/tensor_access.h"
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
      const DisableRecordFunctionGuard unrecorded;
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

/// Runs `body` in the order of the device's current stream and returns when it has completed. CPU tensors
/// that it creates are pool-backed. Exceptions of `body` are rethrown here and do not affect the stream.
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
  OR_CHECK_RESULT(result, orRunKernel);
}

/// Enqueues `body` on the device's current stream and returns; under the blocking schedule, runs it. `name`
/// is a literal, and the same in every call with this Body type. CPU tensors that the body creates are host
/// scratch memory. Exceptions of the body are reported by the next synchronization. On a captured stream the
/// graph owns the body, and every replay calls it, so a call must not consume its state.
template <typename Body>
void launch_kernel(const char* name, c10::DeviceIndex device, Body body) {
  const OperatorCall noted(name);
  note_launch();
  if (C10_UNLIKELY(races::on())) {
    launch_collected(name, current_stream(device));
  }
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
