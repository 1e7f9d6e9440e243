// Matrix products; see Note [Library operators].
#include "device/on_device.h"
#include "operators/library/launch.h"
#include "operators/library/library_op.h"

#include <ATen/core/op_registration/adaption.h>
#include <ATen/ops/addmm_meta.h>
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/baddbmm_meta.h>
#include <ATen/ops/baddbmm_ops.h>
#include <ATen/ops/bmm_meta.h>
#include <ATen/ops/bmm_ops.h>
#include <ATen/ops/mm_meta.h>
#include <ATen/ops/mm_ops.h>

namespace openreg {
namespace {

using at::Tensor;
using F = LibraryFunction;
namespace meta = at::meta;
namespace ops = at::_ops;

// The Meta functions do not compare devices.
void check_devices(const char* method, const Tensor& out, const Tensor& a, const Tensor& b) {
  std::optional<at::Device> device = out.device();
  c10::impl::check_and_update_common_device(device, a, method, "self");
  c10::impl::check_and_update_common_device(device, b, method, "mat2");
}

bool product(const Tensor& a, const Tensor& b, const Tensor& out) {
  check_devices("matmul", out, a, b);
  return launch_matmul(a, b, out, 1, 0);
}

// out = beta * self + alpha * (a @ b); self is expanded to the sizes of the output.
bool product_and_sum(const Tensor& self, const Tensor& a, const Tensor& b, const at::Scalar& beta,
                     const at::Scalar& alpha, const Tensor& out) {
  check_devices("addmm", out, a, b);
  std::optional<at::Device> device = out.device();
  c10::impl::check_and_update_common_device(device, self, "addmm", "self");
  const at::ScalarType dtype = out.scalar_type();
  if (!offered({F::gemm}, dtype, out.device().index()) || a.scalar_type() != dtype ||
      b.scalar_type() != dtype || beta.isComplex() || alpha.isComplex()) {
    return false;
  }
  if (beta.toDouble() != 0 && !out.is_same(self)) {
    out.copy_(self);
  }
  return launch_matmul(a, b, out, alpha, beta);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  structured_op<meta::structured_mm, &product, ops::mm, ops::mm_out>(m, {F::gemm});
  structured_op<meta::structured_bmm, &product, ops::bmm, ops::bmm_out>(m, {F::gemm});
  structured_op<meta::structured_addmm, &product_and_sum, ops::addmm, ops::addmm_, ops::addmm_out>(m,
                                                                                                   {F::gemm});
  structured_op<meta::structured_baddbmm, &product_and_sum, ops::baddbmm, ops::baddbmm_, ops::baddbmm_out>(
      m, {F::gemm});
}

}  // namespace
}  // namespace openreg
