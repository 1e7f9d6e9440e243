// Scenario 5, exceptions: operators that must not fall back.
//
// When: the fallback would run the CPU kernel and return a result that is wrong for a device, or throw an
// error that does not help the user. host_engine/registration/register_engine.cpp is the general case: a
// fallback for operators without a kernel (m.fallback), and the same boxed function by name for operators
// that would otherwise use an unsuitable kernel (m.impl). The kernels registered here have precedence, since
// a kernel that is registered by name has precedence over a fallback.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <openreg/openreg.h>
#include <torch/library.h>

#include <algorithm>
#include <string>

namespace openreg {
namespace {

struct Refusal {
  const char* name;
  const char* reason;
  const char* remedy;
};

constexpr Refusal kRefused[] = {
    {"aten::from_file",
     "it maps a file into host memory, and a copy on the device would not change with the file",
     "map the file on the CPU and copy what you need with .to()"},
    {"aten::to_mkldnn", "the layout of oneDNN exists in host memory only",
     "move the tensor to the CPU first, or stay with the strided layout"},
};

void refuse(const c10::OperatorHandle& op, torch::jit::Stack*) {
  const std::string name = c10::toString(op.operator_name());
  const auto* refusal = std::ranges::find_if(kRefused, [&](const Refusal& one) { return name == one.name; });
  TORCH_CHECK_NOT_IMPLEMENTED(false, "the operator '", name, "' is not available on ", orGetDeviceName(),
                              ": ", refusal->reason, ". Instead, ", refusal->remedy, ".");
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const Refusal& refusal : kRefused) {
    m.impl(refusal.name, torch::CppFunction::makeFromBoxedFunction<&refuse>());
  }
}

}  // namespace
}  // namespace openreg
