#include "kernel/kernel_guard.h"

#include "utf8.h"

#include <cstring>

namespace openreg {
namespace {

// See Note [Warnings] in host_engine/inference/call_warnings.h.
struct KernelWarningHandler final : c10::WarningHandler {
  void process(const c10::Warning& warning) override {
    if (thread_state.kernel_warnings != nullptr) {
      thread_state.kernel_warnings->process(warning);
    }
  }
};

KernelWarningHandler* kernel_warning_handler() {
  static thread_local KernelWarningHandler handler;
  return &handler;
}

void copy_message(char* why, size_t size, const char* message) {
  const size_t length = length_up_to(message, size - 1);
  std::memcpy(why, message, length);
  why[length] = '\0';
}

}  // namespace

KernelGuard::KernelGuard() : warnings_(kernel_warning_handler()), host_memory_({}) {}

orError_t run_kernel_body(const std::function<void()>& body, char* why, size_t why_size) noexcept {
  try {
    const KernelGuard guard;
    body();
    return orSuccess;
  } catch (const c10::Error& error) {
    copy_message(why, why_size, error.what_without_backtrace());
  } catch (const std::exception& error) {
    copy_message(why, why_size, error.what());
  } catch (...) {
    copy_message(why, why_size, "an exception of unknown type");
  }
  return orErrorKernelFailed;
}

}  // namespace openreg
