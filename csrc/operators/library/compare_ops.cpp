// Comparisons, and selection by a condition; see Note [Library operators].
#include "device/on_device.h"
#include "operators/library/launch.h"
#include "operators/library/library_op.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eq_meta.h>
#include <ATen/ops/eq_ops.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/ge_meta.h>
#include <ATen/ops/ge_ops.h>
#include <ATen/ops/gt_meta.h>
#include <ATen/ops/gt_ops.h>
#include <ATen/ops/le.h>
#include <ATen/ops/le_meta.h>
#include <ATen/ops/le_ops.h>
#include <ATen/ops/logical_and_ops.h>
#include <ATen/ops/logical_not_ops.h>
#include <ATen/ops/logical_or_ops.h>
#include <ATen/ops/lt_meta.h>
#include <ATen/ops/lt_ops.h>
#include <ATen/ops/masked_fill_ops.h>
#include <ATen/ops/ne_meta.h>
#include <ATen/ops/ne_ops.h>
#include <ATen/ops/result_type_native.h>
#include <ATen/ops/tril_meta.h>
#include <ATen/ops/tril_ops.h>
#include <ATen/ops/triu_meta.h>
#include <ATen/ops/triu_ops.h>
#include <ATen/ops/where_ops.h>

namespace openreg {
namespace {

using at::Tensor;
using F = LibraryFunction;
using Iterator = at::TensorIteratorBase;
namespace meta = at::meta;
namespace ops = at::_ops;

template <F Function>
constexpr auto kCompare = [](Iterator& iter, const auto&...) { return launch(Function, iter); };

// Numbers on the host become operands. All other operands are on one device.
Tensor as_operand(const Tensor& tensor, at::ScalarType dtype, c10::Device device) {
  return on_device(tensor) ? tensor.to(dtype) : number_on_device(tensor.item(), dtype, device);
}

bool is_host_number(const Tensor& tensor) {
  return tensor.is_cpu() && tensor.dim() == 0;
}

// `out` may be undefined; the result is the output of the iterator.
std::optional<Tensor> select(const Tensor& condition, const Tensor& self, const Tensor& other, Tensor out,
                             at::ScalarType dtype) {
  if (!on_device(condition) || condition.scalar_type() != at::kBool) {
    return std::nullopt;
  }
  const c10::Device device = condition.device();
  const auto usable = [&](const Tensor& tensor) {
    return tensor.device() == device || is_host_number(tensor);
  };
  const orFunction_t handle = find_function(F::where, dtype, device.index());
  if (handle == nullptr || !usable(self) || !usable(other) || at::isComplexType(self.scalar_type()) ||
      at::isComplexType(other.scalar_type()) || (out.defined() && out.scalar_type() != dtype)) {
    return std::nullopt;
  }
  if (!out.defined()) {
    out = at::empty({0}, at::TensorOptions(device).dtype(dtype));
  }
  const auto iter = at::TensorIteratorConfig()
                        .check_all_same_dtype(false)
                        .add_output(out)
                        .add_owned_const_input(condition)
                        .add_owned_const_input(as_operand(self, dtype, device))
                        .add_owned_const_input(as_operand(other, dtype, device))
                        .build();
  if (!fits_library(iter)) {
    return std::nullopt;
  }
  if (iter.numel() != 0) {
    launch_elementwise(handle, iter);
  }
  return out;
}

std::optional<Tensor> where(const Tensor& condition, const Tensor& self, const Tensor& other) {
  return select(condition, self, other, Tensor(), at::native::result_type(self, other));
}

bool where_out(const Tensor& condition, const Tensor& self, const Tensor& other, Tensor& out) {
  return select(condition, self, other, out, at::native::result_type(self, other)).has_value();
}

// The shape of `self` does not change. A number that does not fit the dtype, and a self that overlaps itself,
// are errors of the CPU kernel.
bool masked_fill_number(Tensor& self, const Tensor& mask, const at::Scalar& value) {
  if (!on_device(mask) || value.isComplex() || !at::is_expandable_to(mask.sizes(), self.sizes()) ||
      (at::isIntegralType(self.scalar_type(), true) && value.isFloatingPoint()) ||
      at::has_internal_overlap(self) != at::MemOverlap::No ||
      find_function(F::where, self.scalar_type(), self.device().index()) == nullptr) {
    return false;
  }
  const Tensor number = number_on_device(value, self.scalar_type(), self.device());
  return select(mask, number, self, self, self.scalar_type()).has_value();
}

bool masked_fill_tensor(Tensor& self, const Tensor& mask, const Tensor& value) {
  if (is_host_number(value)) {
    return masked_fill_number(self, mask, value.item());
  }
  return on_device(mask) && value.dim() == 0 && value.device() == self.device() &&
         at::canCast(value.scalar_type(), self.scalar_type()) &&
         at::is_expandable_to(mask.sizes(), self.sizes()) &&
         at::has_internal_overlap(self) == at::MemOverlap::No &&
         select(mask, value, self, self, self.scalar_type()).has_value();
}

// tril keeps the columns up to that of the diagonal, triu those from it.
bool triangle(const Tensor& self, int64_t diagonal, const Tensor& out, bool lower) {
  const auto device = self.device();
  if (!offered({F::where, F::fill}, self.scalar_type(), device.index()) ||
      !offered({F::add, F::le, F::ge}, at::kLong, device.index())) {
    return false;
  }
  const auto options = at::TensorOptions(device).dtype(at::kLong);
  const Tensor last = at::arange(diagonal, diagonal + self.size(-2), options).unsqueeze(1);
  const Tensor columns = at::arange(self.size(-1), options);
  const Tensor kept = lower ? at::le(columns, last) : at::ge(columns, last);
  const Tensor zero = number_on_device(0, self.scalar_type(), device);
  return select(kept, self, zero, out, self.scalar_type()).has_value();
}

bool tril(const Tensor& self, int64_t diagonal, const Tensor& out) {
  return triangle(self, diagonal, out, true);
}

bool triu(const Tensor& self, int64_t diagonal, const Tensor& out) {
  return triangle(self, diagonal, out, false);
}

bool logical_not_out(const Tensor& self, Tensor& out) {
  if (out.scalar_type() != at::kBool || self.is_complex()) {
    return false;
  }
  const Tensor zero = number_on_device(0, self.scalar_type(), self.device());
  auto iter = at::TensorIterator::comparison_op(out, self, zero);
  return launch(F::eq, iter);
}

// a ? b : a, and a ? a : b
template <bool And>
bool logical_out(const Tensor& self, const Tensor& other, Tensor& out) {
  if (!on_device(self) || !on_device(other) || out.scalar_type() != at::kBool) {
    return false;
  }
  const Tensor a = self.to(at::kBool), b = other.to(at::kBool);
  return select(a, And ? b : a, And ? a : b, out, at::kBool).has_value();
}

template <F Function, typename TensorMeta, typename ScalarMeta>
struct Comparison {
  template <typename... Forms>
  static void tensor(torch::Library& m) {
    structured_op<TensorMeta, kCompare<Function>, Forms...>(m, {Function});
  }
  template <typename... Forms>
  static void scalar(torch::Library& m) {
    structured_op<ScalarMeta, kCompare<Function>, Forms...>(m, {Function, F::fill});
  }
};

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  using Eq = Comparison<F::eq, meta::structured_eq_Tensor, meta::structured_eq_Scalar>;
  using Ne = Comparison<F::ne, meta::structured_ne_Tensor, meta::structured_ne_Scalar>;
  using Lt = Comparison<F::lt, meta::structured_lt_Tensor, meta::structured_lt_Scalar>;
  using Le = Comparison<F::le, meta::structured_le_Tensor, meta::structured_le_Scalar>;
  using Gt = Comparison<F::gt, meta::structured_gt_Tensor, meta::structured_gt_Scalar>;
  using Ge = Comparison<F::ge, meta::structured_ge_Tensor, meta::structured_ge_Scalar>;
  Eq::tensor<ops::eq_Tensor, ops::eq_Tensor_out>(m);
  Ne::tensor<ops::ne_Tensor, ops::ne_Tensor_out>(m);
  Lt::tensor<ops::lt_Tensor, ops::lt_Tensor_out>(m);
  Le::tensor<ops::le_Tensor, ops::le_Tensor_out>(m);
  Gt::tensor<ops::gt_Tensor, ops::gt_Tensor_out>(m);
  Ge::tensor<ops::ge_Tensor, ops::ge_Tensor_out>(m);
  Eq::scalar<ops::eq_Scalar, ops::eq_Scalar_out>(m);
  Ne::scalar<ops::ne_Scalar, ops::ne_Scalar_out>(m);
  Lt::scalar<ops::lt_Scalar, ops::lt_Scalar_out>(m);
  Le::scalar<ops::le_Scalar, ops::le_Scalar_out>(m);
  Gt::scalar<ops::gt_Scalar, ops::gt_Scalar_out>(m);
  Ge::scalar<ops::ge_Scalar, ops::ge_Scalar_out>(m);
  plain_op<ops::logical_not_out, &logical_not_out>(m, {F::eq, F::fill});
  plain_op<ops::logical_and_out, &logical_out<true>>(m, {F::where});
  plain_op<ops::logical_or_out, &logical_out<false>>(m, {F::where});
  plain_op<ops::where_self, &where>(m, {F::where});
  plain_op<ops::where_self_out, &where_out>(m, {F::where});
  plain_op<ops::masked_fill__Scalar, &masked_fill_number>(m, {F::where, F::fill});
  plain_op<ops::masked_fill__Tensor, &masked_fill_tensor>(m, {F::where});
  structured_op<meta::structured_tril, &tril, ops::tril, ops::tril_, ops::tril_out>(
      m, {F::where, F::fill, F::le});
  structured_op<meta::structured_triu, &triu, ops::triu, ops::triu_, ops::triu_out>(
      m, {F::where, F::fill, F::ge});
}

}  // namespace
}  // namespace openreg
