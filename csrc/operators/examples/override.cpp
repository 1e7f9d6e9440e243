// Scenario 6: our own kernel in the place of one that works everywhere.
//
// When: PyTorch composes the operator of others and the chip can do it in one. The composite kernel stays for
// the dtypes and layouts that ours does not take: it is a function in at::native, and can be called.
//
// isfinite is composed of a comparison, an absolute value, another comparison and a product: four passes over
// memory and four launches. It is asked of every gradient by whoever looks for overflow. Ours is one pass.
//
// A composite operator gets its derivative from its parts. One that has a kernel for the device does not: for
// an operator with a derivative, register a kernel for AutogradPrivateUse1 as well, as scenario 4 does. Here
// there is none, and autograd is told so by a fallthrough.
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

// All exponent bits are set in infinities and in NaN, and in nothing else: comparing is enough for both.
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
