// Operators that are one element-wise function; see Note [Library operators].
#include "operators/library/launch.h"
#include "operators/library/library_op.h"

#include <ATen/ops/abs_ops.h>
#include <ATen/ops/add_meta.h>
#include <ATen/ops/add_ops.h>
#include <ATen/ops/addcdiv_meta.h>
#include <ATen/ops/addcdiv_ops.h>
#include <ATen/ops/addcmul_meta.h>
#include <ATen/ops/addcmul_ops.h>
#include <ATen/ops/ceil_meta.h>
#include <ATen/ops/ceil_ops.h>
#include <ATen/ops/cos_meta.h>
#include <ATen/ops/cos_ops.h>
#include <ATen/ops/div_meta.h>
#include <ATen/ops/div_ops.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/erf_meta.h>
#include <ATen/ops/erf_ops.h>
#include <ATen/ops/exp_meta.h>
#include <ATen/ops/exp_ops.h>
#include <ATen/ops/floor_meta.h>
#include <ATen/ops/floor_ops.h>
#include <ATen/ops/lerp_meta.h>
#include <ATen/ops/lerp_ops.h>
#include <ATen/ops/log_meta.h>
#include <ATen/ops/log_ops.h>
#include <ATen/ops/maximum_meta.h>
#include <ATen/ops/maximum_ops.h>
#include <ATen/ops/minimum_meta.h>
#include <ATen/ops/minimum_ops.h>
#include <ATen/ops/mul_meta.h>
#include <ATen/ops/mul_ops.h>
#include <ATen/ops/neg_meta.h>
#include <ATen/ops/neg_ops.h>
#include <ATen/ops/pow_meta.h>
#include <ATen/ops/pow_ops.h>
#include <ATen/ops/reciprocal_meta.h>
#include <ATen/ops/reciprocal_ops.h>
#include <ATen/ops/relu_ops.h>
#include <ATen/ops/rsqrt_meta.h>
#include <ATen/ops/rsqrt_ops.h>
#include <ATen/ops/sigmoid_backward_meta.h>
#include <ATen/ops/sigmoid_backward_ops.h>
#include <ATen/ops/sigmoid_meta.h>
#include <ATen/ops/sigmoid_ops.h>
#include <ATen/ops/sin_meta.h>
#include <ATen/ops/sin_ops.h>
#include <ATen/ops/sqrt_meta.h>
#include <ATen/ops/sqrt_ops.h>
#include <ATen/ops/sub_meta.h>
#include <ATen/ops/sub_ops.h>
#include <ATen/ops/tanh_backward_meta.h>
#include <ATen/ops/tanh_backward_ops.h>
#include <ATen/ops/tanh_meta.h>
#include <ATen/ops/tanh_ops.h>
#include <ATen/ops/threshold_backward_meta.h>
#include <ATen/ops/threshold_backward_ops.h>

#include <cmath>

namespace openreg {
namespace {

using at::Tensor;
using F = LibraryFunction;
using Iterator = at::TensorIteratorBase;
namespace meta = at::meta;
namespace ops = at::_ops;

template <F Function>
constexpr auto kElementwise = [](Iterator& iter, const auto&...) { return launch(Function, iter); };

// The last argument is the scalar of the function.
template <F Function>
constexpr auto kScaled = [](Iterator& iter, const auto&... args) {
  return launch(Function, iter, std::get<sizeof...(args) - 1>(std::tie(args...)));
};

// The gradient of relu; other thresholds have no function. The iterator has the input before the gradient.
bool threshold_backward(Iterator& iter, const Tensor&, const Tensor&, const at::Scalar& threshold) {
  return threshold.toDouble() == 0 && launch(F::relu_backward, iter, 1, Order::Swapped);
}

// From the nearer end, so that the weight 1 gives exactly `end`.
bool lerp(Iterator& iter, const Tensor&, const Tensor&, const at::Scalar& weight) {
  if (weight.isComplex()) {
    return false;
  }
  return std::abs(weight.toDouble()) < 0.5 ? launch(F::lerp, iter, weight)
                                           : launch(F::lerp, iter, 1 - weight.toDouble(), Order::Swapped);
}

// relu and abs are not structured.
bool relu_out(const Tensor& self, Tensor& out) {
  auto iter = at::TensorIterator::unary_op(out, self);
  return launch(F::relu, iter);
}

std::optional<Tensor> relu(const Tensor& self) {
  Tensor out =
      self.is_contiguous() ? allocate_output(self.sizes(), {}, self.options()) : at::empty_like(self);
  return self.scalar_type() != at::kBool && relu_out(self, out) ? std::optional(out) : std::nullopt;
}

bool relu_in_place(Tensor& self) {
  return self.scalar_type() != at::kBool && relu_out(self, self);
}

bool abs_out(const Tensor& self, Tensor& out) {
  if (self.is_complex()) {
    return false;
  }
  auto iter = at::TensorIterator::unary_op(out, self);
  return launch(F::abs, iter);
}

template <typename Meta, F Function, typename... Forms>
void unary_op(torch::Library& m) {
  structured_op<Meta, kElementwise<Function>, Forms...>(m, {Function});
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  unary_op<meta::structured_ceil, F::ceil, ops::ceil, ops::ceil_, ops::ceil_out>(m);
  unary_op<meta::structured_cos, F::cos, ops::cos, ops::cos_, ops::cos_out>(m);
  unary_op<meta::structured_erf, F::erf, ops::erf, ops::erf_, ops::erf_out>(m);
  unary_op<meta::structured_exp, F::exp, ops::exp, ops::exp_, ops::exp_out>(m);
  unary_op<meta::structured_floor, F::floor, ops::floor, ops::floor_, ops::floor_out>(m);
  unary_op<meta::structured_log, F::log, ops::log, ops::log_, ops::log_out>(m);
  unary_op<meta::structured_neg, F::neg, ops::neg, ops::neg_, ops::neg_out>(m);
  unary_op<meta::structured_reciprocal, F::reciprocal, ops::reciprocal, ops::reciprocal_,
           ops::reciprocal_out>(m);
  unary_op<meta::structured_rsqrt, F::rsqrt, ops::rsqrt, ops::rsqrt_, ops::rsqrt_out>(m);
  unary_op<meta::structured_sigmoid, F::sigmoid, ops::sigmoid, ops::sigmoid_, ops::sigmoid_out>(m);
  unary_op<meta::structured_sin, F::sin, ops::sin, ops::sin_, ops::sin_out>(m);
  unary_op<meta::structured_sqrt, F::sqrt, ops::sqrt, ops::sqrt_, ops::sqrt_out>(m);
  unary_op<meta::structured_tanh, F::tanh, ops::tanh, ops::tanh_, ops::tanh_out>(m);
  plain_op<ops::relu, &relu>(m, {F::relu});
  plain_op<ops::relu_, &relu_in_place>(m, {F::relu});
  plain_op<ops::abs_out, &abs_out>(m, {F::abs});

  structured_op<meta::structured_add_Tensor, kScaled<F::add>, ops::add_Tensor, ops::add__Tensor,
                ops::add_out>(m, {F::add});
  structured_op<meta::structured_sub_Tensor, kScaled<F::sub>, ops::sub_Tensor, ops::sub__Tensor,
                ops::sub_out>(m, {F::sub});
  structured_op<meta::structured_mul_Tensor, kElementwise<F::mul>, ops::mul_Tensor, ops::mul__Tensor,
                ops::mul_out>(m, {F::mul});
  structured_op<meta::structured_div_Tensor, kElementwise<F::div>, ops::div_Tensor, ops::div__Tensor,
                ops::div_out>(m, {F::div});
  structured_op<meta::structured_maximum, kElementwise<F::maximum>, ops::maximum, ops::maximum_out>(
      m, {F::maximum});
  structured_op<meta::structured_minimum, kElementwise<F::minimum>, ops::minimum, ops::minimum_out>(
      m, {F::minimum});
  structured_op<meta::structured_pow_Tensor_Tensor, kElementwise<F::pow>, ops::pow_Tensor_Tensor,
                ops::pow__Tensor, ops::pow_Tensor_Tensor_out>(m, {F::pow});
  structured_op<meta::structured_threshold_backward, &threshold_backward, ops::threshold_backward,
                ops::threshold_backward_grad_input>(m, {F::relu_backward});
  structured_op<meta::structured_sigmoid_backward, kElementwise<F::sigmoid_backward>, ops::sigmoid_backward,
                ops::sigmoid_backward_grad_input>(m, {F::sigmoid_backward});
  structured_op<meta::structured_tanh_backward, kElementwise<F::tanh_backward>, ops::tanh_backward,
                ops::tanh_backward_grad_input>(m, {F::tanh_backward});

  structured_op<meta::structured_lerp_Scalar, &lerp, ops::lerp_Scalar, ops::lerp__Scalar,
                ops::lerp_Scalar_out>(m, {F::lerp});
  structured_op<meta::structured_addcmul, kScaled<F::addcmul>, ops::addcmul, ops::addcmul_, ops::addcmul_out>(
      m, {F::addcmul});
  structured_op<meta::structured_addcdiv, kScaled<F::addcdiv>, ops::addcdiv, ops::addcdiv_, ops::addcdiv_out>(
      m, {F::addcdiv});
}

}  // namespace
}  // namespace openreg
