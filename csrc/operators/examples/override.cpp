// Scenario 6: a device kernel instead of PyTorch's composite kernel.
//
// When: PyTorch implements the operator with several others and the chip can do it in one kernel. The
// composite kernel is a function in at::native, so it can still be called for unsupported dtypes and layouts.
//
// The composite isfinite is a comparison, an absolute value, another comparison and a product: four passes
// over memory and four launches. Gradient overflow checks call it for every gradient. This kernel is one
// pass.
//
// A composite operator gets its derivative from the operators that it calls. A device kernel removes that:
// for a differentiable operator, also register a kernel for AutogradPrivateUse1, as in scenario 4. isfinite
// is not differentiable, so the key is a fallthrough.
#include "kernel/kernel.h"
#include "operators/examples/loop.h"

#include <ATen/Dispatch.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/isfinite_native.h>
#include <torch/library.h>

#include <cmath>
#include <limits>

namespace openreg {
namespace {

// The comparison is false for infinities and for NaN.
template <typename T>
bool is_finite(T value) {
  if constexpr (c10::is_complex<T>::value) {
    return is_finite(value.real()) && is_finite(value.imag());
  } else {
    return std::abs(value) <= std::numeric_limits<T>::max();
  }
}

bool has_kernel_for(const at::Tensor& self) {
  const at::ScalarType dtype = self.scalar_type();
  return self.layout() == c10::kStrided &&
         (dtype == at::kFloat || dtype == at::kDouble || dtype == at::kHalf || dtype == at::kBFloat16 ||
          dtype == at::kComplexFloat || dtype == at::kComplexDouble);
}

at::Tensor isfinite(const at::Tensor& self) {
  if (!has_kernel_for(self)) {
    return at::native::isfinite(self);
  }
  at::Tensor out = at::empty_like(self, self.options().dtype(at::kBool));
  const at::TensorIterator iter =
      at::TensorIteratorConfig().check_all_same_dtype(false).add_output(out).add_const_input(self).build();
  if (iter.numel() == 0) {
    return out;
  }
  AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND2(at::kHalf, at::kBFloat16, self.scalar_type(), "isfinite", [&] {
    launch_kernel("isfinite", self.device().index(), [loop = Loop(iter)] {
      loop.map<bool, scalar_t>([](scalar_t value) { return is_finite(value); });
    });
  });
  return out;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("isfinite", isfinite);
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("isfinite", torch::CppFunction::makeFallthrough());
}

}  // namespace
}  // namespace openreg
