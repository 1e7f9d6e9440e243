// CPU fallback for operators without a device kernel, in a build without the host engine: copies the
// arguments to the host, runs the CPU kernel and copies the results back. Slow and synchronous; for bring-up,
// while kernels are missing.
#include "operators/cpu_fallback.h"

#include "diagnostics/op_stats.h"

#include <ATen/native/CPUFallback.h>
#include <torch/library.h>

#include <map>
#include <mutex>
#include <string>

namespace openreg {
namespace {

struct Counts {
  std::mutex mutex;  // guards the rest
  std::map<std::string, uint64_t> by_name;
};

Counts& counts() {
  static auto* made = new Counts;
  return *made;
}

void count(const std::string& name) {
  bool first = false;
  {
    std::lock_guard<std::mutex> lock(counts().mutex);
    first = counts().by_name[name]++ == 0;
  }
  if (first) {
    TORCH_WARN("the operator '", name, "' has no kernel for ", OR_DEVICE_NAME,
               " and falls back to the CPU, with copies of its arguments and results. This is slow. Write a "
               "kernel for it, or build with the host engine.");
  }
}

void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  count(c10::toString(op.operator_name()));
  note_wait();
  at::native::cpu_fallback(op, stack);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back>());
}

}  // namespace

std::map<std::string, uint64_t> cpu_fallbacks() {
  std::lock_guard<std::mutex> lock(counts().mutex);
  return counts().by_name;
}

}  // namespace openreg
