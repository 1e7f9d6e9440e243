#include "kernel/launch_settings.h"

#include "common/gil_release.h"
#include "kernel/float_mode.h"
#include "kernel/thread_state.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

namespace openreg {
namespace {

// A thread that never launched and never waited for the device is a worker thread of the runtime.
bool is_worker() {
  return !thread_state.launches && !GilRelease::entered_by_this_thread();
}

}  // namespace

LaunchSettings LaunchSettings::now() {
  return {at::get_num_threads(), float_mode_now(), c10::GradMode::is_enabled()};
}

LaunchSettingsGuard::LaunchSettingsGuard(const LaunchSettings& settings)
    : mode_before_(float_mode_now()), grad_mode_before_(c10::GradMode::is_enabled()) {
  if (C10_UNLIKELY(grad_mode_before_ != settings.grad_mode)) {
    c10::GradMode::set_enabled(settings.grad_mode);
  }
  if (C10_UNLIKELY(mode_before_ != settings.float_mode)) {
    set_float_mode(settings.float_mode);
  }
  // at::set_num_threads also changes settings of MKL, after which its LU of large batches is wrong. So it is
  // called only if the program has changed the number of threads.
  if (C10_UNLIKELY(is_worker() && thread_state.num_threads == 0)) {
    thread_state.num_threads = at::get_num_threads();
  }
  const int now = is_worker() ? thread_state.num_threads : at::get_num_threads();
  if (C10_UNLIKELY(now != settings.threads)) {
    threads_before_ = now;
    at::set_num_threads(settings.threads);
    thread_state.num_threads = settings.threads;
  }
}

LaunchSettingsGuard::~LaunchSettingsGuard() {
  if (!is_worker()) {
    c10::GradMode::set_enabled(grad_mode_before_);
  }
  if (C10_UNLIKELY(threads_before_ > 0) && !is_worker()) {
    at::set_num_threads(threads_before_);
  }
  if (C10_UNLIKELY(float_mode_now() != mode_before_)) {
    set_float_mode(mode_before_);
  }
}

}  // namespace openreg
