// addr_. It calls addr.out with `self` as the output, and the CPU's kernel notices that only if both are the
// same C++ object, which a launch does not keep: it would resize `self`.
#include <ATen/core/Tensor.h>
#include <ATen/ops/addr.h>
#include <torch/library.h>

namespace openreg {
namespace {

at::Tensor& addr_(at::Tensor& self, const at::Tensor& vec1, const at::Tensor& vec2, const at::Scalar& beta,
                  const at::Scalar& alpha) {
  if (vec1.dim() == 1 && vec2.dim() == 1) {  // else addr_out throws
    TORCH_CHECK(self.dim() == 2, "2D tensor expected, got ", self.dim(), "D tensor for input");
    TORCH_CHECK(self.size(0) == vec1.size(0) && self.size(1) == vec2.size(0),
                "size mismatch, input: ", self.sizes(), ", v1: ", vec1.sizes(), ", v2: ", vec2.sizes());
  }
  return at::addr_out(self, self, vec1, vec2, beta, alpha);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("addr_", addr_);
}

}  // namespace
}  // namespace openreg
