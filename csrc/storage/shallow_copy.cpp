// Which tensors may take each other's place: model.to(device) keeps its parameters as the objects that they
// are.
//
// PyTorch asks this before `parameter.data = moved`. Its own answer knows the dense backends by name, and
// ours is not among them; without this kernel a moved module would get new parameters, so that tied weights
// come apart and an optimizer that was made before goes on with the old ones. On CUDA neither happens. Sparse
// tensors are left as PyTorch has them: their own copy asks the built-in list again.
#include <ATen/core/Tensor.h>
#include <torch/library.h>

namespace openreg {
namespace {

bool is_dense(const at::Tensor& tensor) {
  return tensor.key_set().has(c10::DispatchKey::Dense) && (tensor.is_cpu() || tensor.is_privateuseone());
}

bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  return self.key_set() == from.key_set() || (is_dense(self) && is_dense(from));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_has_compatible_shallow_copy_type", has_compatible_shallow_copy_type);
}

}  // namespace
}  // namespace openreg
