#include "kernel/kernel_guard.h"

#include <cstring>

namespace openreg {
namespace {

// See Note [Warnings].
struct Silence final : c10::WarningHandler {
  void process(const c10::Warning& warning) override {
    if (thread_state.kernel_warnings != nullptr) {
      thread_state.kernel_warnings->process(warning);
    }
  }
};

Silence* silence() {
  static thread_local Silence handler;
  return &handler;
}

void say(char* why, size_t size, const char* words) {
  std::strncpy(why, words, size - 1);
  why[size - 1] = '\0';
}

}  // namespace

KernelGuard::KernelGuard() : silent_(silence()), host_memory_({}) {}

orError_t run_kernel_body(const std::function<void()>& body, char* why, size_t why_size) noexcept {
  try {
    const KernelGuard guard;
    body();
    return orSuccess;
  } catch (const c10::Error& error) {
    say(why, why_size, error.what_without_backtrace());
  } catch (const std::exception& error) {
    say(why, why_size, error.what());
  } catch (...) {
    say(why, why_size, "an exception of an unknown type");
  }
  return orErrorKernelFailed;
}

}  // namespace openreg
