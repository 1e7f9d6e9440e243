// Shallow-copy compatibility of tensors: model.to(device) keeps the Parameter objects.
//
// PyTorch calls this before `parameter.data = moved`. Its default kernel lists the built-in dense backends.
// Without this kernel, a moved module would get new parameters: tied weights would be separated, and an
// existing optimizer would keep updating the old parameters. On CUDA neither happens. Sparse tensors keep
// PyTorch's behavior, because their shallow copy checks the built-in list again.
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
