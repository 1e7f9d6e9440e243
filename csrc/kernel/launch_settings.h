// Settings of the launching thread that a launched kernel runs with.
#pragma once

namespace openreg {

struct LaunchSettings {
  int threads = 0;          // at::get_num_threads()
  unsigned float_mode = 0;  // see float_mode.h
  bool grad_mode = true;    // some kernels return outputs for backward only in grad mode

  /// The settings of the calling thread.
  static LaunchSettings now();
};

/// RAII scope that runs a kernel with the settings of its launch. A worker thread keeps the number of threads
/// and the grad mode, since the next kernel often has the same. A host thread that runs kernels while it
/// waits restores its settings.
class LaunchSettingsGuard {
 public:
  explicit LaunchSettingsGuard(const LaunchSettings& settings);
  ~LaunchSettingsGuard();
  LaunchSettingsGuard(const LaunchSettingsGuard&) = delete;
  LaunchSettingsGuard& operator=(const LaunchSettingsGuard&) = delete;

 private:
  int threads_before_ = 0;
  unsigned mode_before_;
  bool grad_mode_before_;
};

}  // namespace openreg
