// Activations, powers and bounds, composed of library operators; see Note [Library operators].
#include "operators/library/launch.h"
#include "operators/library/library_op.h"

#include <ATen/ops/add.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/clamp_max_meta.h>
#include <ATen/ops/clamp_max_ops.h>
#include <ATen/ops/clamp_meta.h>
#include <ATen/ops/clamp_min_meta.h>
#include <ATen/ops/clamp_min_ops.h>
#include <ATen/ops/clamp_ops.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/gelu_backward_meta.h>
#include <ATen/ops/gelu_backward_ops.h>
#include <ATen/ops/gelu_meta.h>
#include <ATen/ops/gelu_ops.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/pow_meta.h>
#include <ATen/ops/pow_ops.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu_backward_meta.h>
#include <ATen/ops/silu_backward_ops.h>
#include <ATen/ops/silu_meta.h>
#include <ATen/ops/silu_ops.h>
#include <ATen/ops/tanh.h>

#include <numbers>

namespace openreg {
namespace {

using at::Tensor;
using F = LibraryFunction;
using Iterator = at::TensorIteratorBase;
namespace meta = at::meta;
namespace ops = at::_ops;

constexpr Functions kGelu = {F::erf, F::tanh, F::exp, F::add, F::mul, F::addcmul};
constexpr Functions kSilu = {F::sigmoid, F::sub, F::mul, F::addcmul};

constexpr double kInverseSqrt2 = 1 / std::numbers::sqrt2;
constexpr double kTanhScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // sqrt(2 / pi)
constexpr double kTanhCube = 0.044715;

// The output has the common dtype of the inputs.
bool offered_for(Functions functions, const Iterator& iter) {
  return at::isFloatingType(iter.common_dtype()) &&
         offered(functions, compute_dtype(iter.common_dtype()), iter.device(0).index());
}

Tensor input(const Iterator& iter, const Tensor& tensor) {
  return tensor.to(compute_dtype(iter.common_dtype()));
}

bool write(const Iterator& iter, const Tensor& result) {
  iter.tensor(0).copy_(result);
  return true;
}

// tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))
Tensor tanh_of_cubic(const Tensor& x) {
  return at::addcmul(x, at::mul(x, x), x, kTanhCube).mul_(kTanhScale).tanh_();
}

// x / 2 * (1 + erf(x / sqrt(2))), or with the approximation of erf by tanh
bool gelu(Iterator& iter, const Tensor& self, c10::string_view approximate) {
  if (!offered_for(kGelu, iter)) {
    return false;
  }
  const Tensor x = input(iter, self);
  const Tensor curve = approximate == "tanh" ? tanh_of_cubic(x) : at::mul(x, kInverseSqrt2).erf_();
  return write(iter, curve.add_(1).mul_(x).mul_(0.5));
}

bool gelu_backward(Iterator& iter, const Tensor& grad, const Tensor& self, c10::string_view approximate) {
  if (!offered_for(kGelu, iter)) {
    return false;
  }
  const Tensor x = input(iter, self), square = at::mul(x, x);
  Tensor slope;
  if (approximate == "tanh") {
    const Tensor t = tanh_of_cubic(x);
    // x / 2 * (1 - t^2) * sqrt(2 / pi) * (1 + 3 * 0.044715 * x^2)
    const Tensor inner = at::mul(square, 3 * kTanhCube).add_(1).mul_(x).mul_(kTanhScale / 2);
    const Tensor derivative = at::mul(t, t).neg_().add_(1);
    slope = at::add(t, 1).mul_(0.5).addcmul_(inner, derivative);
  } else {
    const Tensor density = at::mul(square, -0.5).exp_().mul_(kInverseSqrt2 * std::numbers::inv_sqrtpi);
    slope = at::mul(x, kInverseSqrt2).erf_().add_(1).mul_(0.5).addcmul_(x, density);
  }
  return write(iter, slope.mul_(input(iter, grad)));
}

bool silu(Iterator& iter, const Tensor& self) {
  if (!offered_for(kSilu, iter)) {
    return false;
  }
  const Tensor x = input(iter, self);
  return write(iter, at::sigmoid(x).mul_(x));
}

// g * s * (1 + x * (1 - s)), where s = sigmoid(x)
bool silu_backward(Iterator& iter, const Tensor& grad, const Tensor& self) {
  if (!offered_for(kSilu, iter)) {
    return false;
  }
  const Tensor x = input(iter, self), s = at::sigmoid(x);
  const Tensor slope = at::mul(s, -1).add_(1).mul_(x).add_(1).mul_(s);
  return write(iter, slope.mul_(input(iter, grad)));
}

// Common exponents are products or roots; others read the exponent from device memory.
bool pow_number(Iterator& iter, const Tensor& self, const at::Scalar& exponent) {
  const at::ScalarType dtype = iter.common_dtype();
  if (exponent.isComplex() || self.scalar_type() != dtype || iter.dtype(0) != dtype) {
    return false;
  }
  Tensor out = iter.tensor(0);
  const double power = exponent.toDouble();
  const bool floating = at::isFloatingType(dtype);
  if (power == 2 || power == 3) {
    const Tensor square = power == 2 ? self : at::mul(self, self);
    auto product = at::TensorIterator::binary_op(out, square, self);
    return launch(F::mul, product);
  }
  if (floating && (power == 0.5 || power == -0.5 || power == -1)) {
    auto unary = at::TensorIterator::unary_op(out, self);
    return launch(power == 0.5 ? F::sqrt : power == -1 ? F::reciprocal : F::rsqrt, unary);
  }
  if (!floating || !offered({F::pow, F::fill}, dtype, out.device().index())) {
    return false;
  }
  auto general = at::TensorIterator::binary_op(out, self, number_on_device(exponent, dtype, out.device()));
  return launch(F::pow, general);
}

// A bound of NaN makes all elements NaN, as the functions do.
bool clamp_between(Iterator& iter, const Tensor& self, const at::Scalar* least, const at::Scalar* most) {
  const Tensor& out = iter.tensor(0);
  const at::ScalarType dtype = out.scalar_type();
  if (!offered({F::maximum, F::minimum, F::fill}, dtype, out.device().index())) {
    return false;
  }
  Tensor x = self.to(dtype);
  for (const auto& [bound, function] : {std::pair(least, F::maximum), std::pair(most, F::minimum)}) {
    if (bound == nullptr) {
      continue;
    }
    Tensor to = out;
    auto step = at::TensorIterator::binary_op(to, x, number_on_device(*bound, dtype, out.device()));
    if (!launch(function, step)) {
      return false;
    }
    x = out;
  }
  return true;
}

bool clamp(Iterator& iter, const Tensor& self, const std::optional<at::Scalar>& least,
           const std::optional<at::Scalar>& most) {
  return clamp_between(iter, self, least.has_value() ? &*least : nullptr,
                       most.has_value() ? &*most : nullptr);
}

bool clamp_min(Iterator& iter, const Tensor& self, const at::Scalar& least) {
  return clamp_between(iter, self, &least, nullptr);
}

bool clamp_max(Iterator& iter, const Tensor& self, const at::Scalar& most) {
  return clamp_between(iter, self, nullptr, &most);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  structured_op<meta::structured_gelu, &gelu, ops::gelu, ops::gelu_, ops::gelu_out>(m, kGelu);
  structured_op<meta::structured_gelu_backward, &gelu_backward, ops::gelu_backward,
                ops::gelu_backward_grad_input>(m, kGelu);
  structured_op<meta::structured_silu, &silu, ops::silu, ops::silu_, ops::silu_out>(m, kSilu);
  structured_op<meta::structured_silu_backward, &silu_backward, ops::silu_backward,
                ops::silu_backward_grad_input>(m, kSilu);
  structured_op<meta::structured_pow_Tensor_Scalar, &pow_number, ops::pow_Tensor_Scalar, ops::pow__Scalar,
                ops::pow_Tensor_Scalar_out>(m, {F::pow, F::fill});
  structured_op<meta::structured_clamp, &clamp, ops::clamp, ops::clamp_, ops::clamp_out>(
      m, {F::maximum, F::minimum, F::fill});
  structured_op<meta::structured_clamp_min, &clamp_min, ops::clamp_min, ops::clamp_min_, ops::clamp_min_out>(
      m, {F::maximum, F::fill});
  structured_op<meta::structured_clamp_max, &clamp_max, ops::clamp_max, ops::clamp_max_, ops::clamp_max_out>(
      m, {F::minimum, F::fill});
}

}  // namespace
}  // namespace openreg
