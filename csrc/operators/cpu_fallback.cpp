// Operators without a kernel, in a build without the host engine: their tensors are copied to the host, the
// CPU kernel runs there, and its results are copied back. Slow and synchronous; it keeps a bring-up going
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
               " and runs on the CPU, between copies. This is slow. Write a kernel for it, or build with the "
               "host engine.");
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
