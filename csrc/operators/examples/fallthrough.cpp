// Scenario 5, third variant: a fallthrough, so that the dispatcher skips a key for an operator.
//
// When: a dispatch key above the device would change the arguments, and this operator must get them
// unchanged. A fallthrough is not a kernel: the dispatcher removes the key for this operator, at no cost per
// call.
//
// The operator here returns whether two tensors share a storage. A conjugate view shares the storage of its
// base, but the Conjugate key would replace it by a copy before the kernel is called. The same holds for
// negative views. There is no derivative either. operators/required/copy.cpp has another case: there,
// resolving the view would call copy again, without end.
#include <ATen/core/Tensor.h>
#include <torch/library.h>

namespace openreg {
namespace {

bool shares_storage(const at::Tensor& self, const at::Tensor& other) {
  return self.is_alias_of(other);
}

TORCH_LIBRARY_FRAGMENT(openreg, m) {
  m.def("shares_storage(Tensor self, Tensor other) -> bool");
}

TORCH_LIBRARY_IMPL(openreg, PrivateUse1, m) {
  m.impl("shares_storage", shares_storage);
}

TORCH_LIBRARY_IMPL(openreg, Conjugate, m) {
  m.impl("shares_storage", torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(openreg, Negative, m) {
  m.impl("shares_storage", torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(openreg, AutogradPrivateUse1, m) {
  m.impl("shares_storage", torch::CppFunction::makeFallthrough());
}

}  // namespace
}  // namespace openreg
