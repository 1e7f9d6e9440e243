// softmax, log_softmax and layer norm, composed of library operators; see Note [Library operators].
//
// float16 and bfloat16 are computed in float32 and rounded once, as the CPU kernels do.
#include "operators/library/launch.h"
#include "operators/library/library_op.h"

#include <ATen/native/layer_norm.h>
#include <ATen/ops/_log_softmax_backward_data_meta.h>
#include <ATen/ops/_log_softmax_backward_data_ops.h>
#include <ATen/ops/_log_softmax_meta.h>
#include <ATen/ops/_log_softmax_ops.h>
#include <ATen/ops/_softmax_backward_data_meta.h>
#include <ATen/ops/_softmax_backward_data_ops.h>
#include <ATen/ops/_softmax_meta.h>
#include <ATen/ops/_softmax_ops.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/native_layer_norm_backward_ops.h>
#include <ATen/ops/native_layer_norm_ops.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

namespace openreg {
namespace {

using at::Tensor;
using F = LibraryFunction;
namespace meta = at::meta;
namespace ops = at::_ops;

constexpr Functions kSoftmax = {F::max, F::sub, F::exp, F::sum, F::div};
constexpr Functions kLogSoftmax = {F::max, F::sub, F::exp, F::sum, F::log};
constexpr Functions kBackward = {F::exp, F::mul, F::sum, F::addcmul};
constexpr Functions kNorm = {F::sum, F::sub, F::add, F::mul, F::rsqrt, F::addcmul};

bool offered_for(Functions functions, const Tensor& tensor) {
  return offered(functions, compute_dtype(tensor.scalar_type()), tensor.device().index());
}

// Writes the last step of a composite: directly, or with a conversion.
template <typename Step>
void write_output(const Tensor& out, at::ScalarType dtype, Step step) {
  if (out.scalar_type() == dtype) {
    Tensor given = out;
    step(given);
  } else {
    Tensor made = at::empty({0}, out.options().dtype(dtype));
    step(made);
    out.copy_(made);
  }
}

void check_half_to_float(bool half_to_float, const Tensor& self) {
  TORCH_CHECK(!half_to_float || self.scalar_type() == at::kHalf,
              "conversion is supported for Half type only");
}

// The largest element of each row is subtracted, so that exp does not overflow.
bool softmax(const Tensor& self, int64_t dim, bool half_to_float, const Tensor& out) {
  check_half_to_float(half_to_float, self);
  if (!offered_for(kSoftmax, self)) {
    return false;
  }
  if (out.numel() == 0) {
    return true;
  }
  const Tensor x = widened(self);
  const Tensor powers = at::sub(x, at::amax(x, dim, true)).exp_();
  write_output(out, x.scalar_type(),
               [&](Tensor& to) { at::div_out(to, powers, at::sum(powers, dim, true)); });
  return true;
}

bool log_softmax(const Tensor& self, int64_t dim, bool half_to_float, const Tensor& out) {
  check_half_to_float(half_to_float, self);
  if (!offered_for(kLogSoftmax, self)) {
    return false;
  }
  if (out.numel() == 0) {
    return true;
  }
  const Tensor x = widened(self);
  const Tensor shifted = at::sub(x, at::amax(x, dim, true));
  const Tensor logarithm = at::sum(at::exp(shifted), dim, true).log_();
  write_output(out, x.scalar_type(), [&](Tensor& to) { at::sub_out(to, shifted, logarithm); });
  return true;
}

// y * (g - sum(g * y))
bool softmax_backward(const Tensor& grad, const Tensor& output, int64_t dim, at::ScalarType,
                      const Tensor& grad_input) {
  if (!offered_for(kBackward, grad)) {
    return false;
  }
  if (grad_input.numel() == 0) {
    return true;
  }
  const Tensor y = widened(output), product = at::mul(widened(grad), y);
  const Tensor sums = at::sum(product, dim, true);
  write_output(grad_input, y.scalar_type(), [&](Tensor& to) { at::addcmul_out(to, product, y, sums, -1); });
  return true;
}

// g - exp(y) * sum(g)
bool log_softmax_backward(const Tensor& grad, const Tensor& output, int64_t dim, at::ScalarType,
                          const Tensor& grad_input) {
  if (!offered_for(kBackward, grad)) {
    return false;
  }
  if (grad_input.numel() == 0) {
    return true;
  }
  const Tensor g = widened(grad);
  const Tensor sums = at::sum(g, dim, true), powers = at::exp(widened(output));
  write_output(grad_input, g.scalar_type(), [&](Tensor& to) { at::addcmul_out(to, g, powers, sums, -1); });
  return true;
}

Tensor widened_or_undefined(const std::optional<Tensor>& tensor) {
  return tensor.has_value() && tensor->defined() ? widened(*tensor) : Tensor();
}

using ThreeTensors = std::tuple<Tensor, Tensor, Tensor>;

// As on CUDA, mean and rstd of low precision inputs are float32.
std::optional<ThreeTensors> layer_norm(const Tensor& input, at::IntArrayRef shape,
                                       const std::optional<Tensor>& weight, const std::optional<Tensor>& bias,
                                       double eps) {
  const auto [rows, columns] =
      at::native::_check_layer_norm_inputs(input, shape, weight.value_or(Tensor()), bias.value_or(Tensor()));
  if (!offered_for(kNorm, input)) {
    return std::nullopt;
  }
  auto stat_sizes = input.sizes().vec();
  std::fill(stat_sizes.end() - static_cast<int64_t>(shape.size()), stat_sizes.end(), 1);
  const Tensor x = widened(input).reshape({rows, columns});
  if (input.numel() == 0) {
    return ThreeTensors(at::empty(input.sizes(), input.options()), at::empty(stat_sizes, x.options()),
                        at::empty(stat_sizes, x.options()));
  }
  const Tensor mean = x.mean(1, true);
  const Tensor centered = at::sub(x, mean);
  const Tensor rstd = at::mul(centered, centered).mean(1, true).add_(eps).rsqrt_();
  Tensor y = at::mul(centered, rstd).view(input.sizes());
  const Tensor factor = widened_or_undefined(weight), offset = widened_or_undefined(bias);
  if (factor.defined() && offset.defined()) {
    y = at::addcmul(offset, y, factor);
  } else if (factor.defined()) {
    y = y.mul_(factor);
  } else if (offset.defined()) {
    y = y.add_(offset);
  }
  return ThreeTensors(y.to(input.scalar_type()), mean.view(stat_sizes), rstd.view(stat_sizes));
}

// With z = (x - mean) * rstd and g = grad * weight: rstd * (g - mean(g) - z * mean(g * z)).
std::optional<ThreeTensors> layer_norm_backward(const Tensor& grad_out, const Tensor& input,
                                                at::IntArrayRef shape, const Tensor& mean, const Tensor& rstd,
                                                const std::optional<Tensor>& weight,
                                                const std::optional<Tensor>& bias,
                                                std::array<bool, 3> needed) {
  const auto [rows, columns] =
      at::native::_check_layer_norm_inputs(input, shape, weight.value_or(Tensor()), bias.value_or(Tensor()));
  if (!offered_for(kNorm, input)) {
    return std::nullopt;
  }
  const Tensor factor = widened_or_undefined(weight);
  Tensor grad_input, grad_weight, grad_bias;
  if (input.numel() == 0) {
    if (needed[0]) grad_input = at::zeros(input.sizes(), input.options());
    if (needed[1] && factor.defined()) grad_weight = at::zeros(shape, weight->options());
    if (needed[2]) grad_bias = at::zeros(shape, bias.value_or(input).options());
    return ThreeTensors(grad_input, grad_weight, grad_bias);
  }
  const Tensor x = widened(input).reshape({rows, columns}), grad = widened(grad_out).reshape({rows, columns});
  const Tensor scale = widened(rstd).reshape({rows, 1});
  const Tensor z = at::sub(x, widened(mean).reshape({rows, 1})).mul_(scale);
  if (needed[0]) {
    const Tensor g = factor.defined() ? at::mul(grad, factor.reshape({1, columns})) : grad;
    Tensor centered = at::sub(g, g.mean(1, true));
    centered.addcmul_(z, at::mul(g, z).mean(1, true), -1).mul_(scale);
    grad_input = centered.view(input.sizes()).to(input.scalar_type());
  }
  if (needed[1] && factor.defined()) {
    grad_weight = at::mul(grad, z).sum(0).view(shape).to(weight->scalar_type());
  }
  if (needed[2]) {
    const bool given = bias.has_value() && bias->defined();
    grad_bias = grad.sum(0).view(shape).to(given ? bias->scalar_type() : input.scalar_type());
  }
  return ThreeTensors(grad_input, grad_weight, grad_bias);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  structured_op<meta::structured__softmax, &softmax, ops::_softmax, ops::_softmax_out>(m, kSoftmax);
  structured_op<meta::structured__log_softmax, &log_softmax, ops::_log_softmax, ops::_log_softmax_out>(
      m, kLogSoftmax);
  structured_op<meta::structured__softmax_backward_data, &softmax_backward, ops::_softmax_backward_data,
                ops::_softmax_backward_data_out>(m, kBackward);
  structured_op<meta::structured__log_softmax_backward_data, &log_softmax_backward,
                ops::_log_softmax_backward_data, ops::_log_softmax_backward_data_out>(m, kBackward);
  plain_op<ops::native_layer_norm, &layer_norm>(m, kNorm);
  plain_op<ops::native_layer_norm_backward, &layer_norm_backward>(m, kNorm);
}

}  // namespace
}  // namespace openreg
