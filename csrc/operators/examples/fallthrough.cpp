// Scenario 5, the third way: a key that has nothing to say about an operator.
//
// When: one of the dispatcher's keys above the device would do something to the arguments that this operator
// does not want. A fallthrough is not a kernel: the key is left out of the operator's table, at no cost.
//
// The operator here asks whether two tensors lie in one storage. A conjugate view does; but the Conjugate key
// replaces it by a copy before a kernel sees it, unless the operator says that it takes such views as they
// are. The same holds for negative views. There is nothing to differentiate either.
// operators/required/copy.cpp has another case: copying would otherwise resolve the view by a copy, without
// end.
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
