// The operators of torch.nn.SyncBatchNorm, which have no CPU kernel. Statistics are per channel, the second
// dimension, and have the accumulation type: float for half precision.
#include <ATen/AccumulateType.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/var_mean.h>
#include <c10/util/irange.h>
#include <torch/library.h>

#include <optional>
#include <tuple>
#include <vector>

namespace openreg {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

c10::ScalarType accumulate_type(const at::Tensor& input) {
  return at::toAccumulateType(input.scalar_type(), /*is_cuda=*/true);
}

void check_input(const char* name, const at::Tensor& input) {
  TORCH_CHECK(input.dim() >= 2, name, ": expected an input with at least 2 dimensions, but got ",
              input.dim());
}

// All dimensions but the channel.
std::vector<int64_t> reduced_dims(const at::Tensor& input) {
  std::vector<int64_t> dims{0};
  for (const auto i : c10::irange(int64_t{2}, input.dim())) {
    dims.push_back(i);
  }
  return dims;
}

// A tensor of one value for each channel, in the shape that broadcasts to the input.
at::Tensor per_channel(const at::Tensor& values, const at::Tensor& input) {
  std::vector<int64_t> shape(static_cast<size_t>(input.dim()), 1);
  shape[1] = input.size(1);
  return values.to(accumulate_type(input)).view(shape);
}

bool is_given(const OptionalTensor& tensor) {
  return tensor.has_value() && tensor->defined();
}

// 0 if the variance and eps are 0.
at::Tensor inverse_deviation(const at::Tensor& var, double eps) {
  at::Tensor result = var.add(eps).rsqrt_();
  return eps == 0 ? result.masked_fill_(var.eq(0), 0) : result;
}

std::tuple<at::Tensor, at::Tensor> batch_norm_stats(const at::Tensor& input, double eps) {
  check_input("batch_norm_stats", input);
  const auto [var, mean] =
      at::var_mean(input.to(accumulate_type(input)), reduced_dims(input), /*unbiased=*/false);
  return {mean, inverse_deviation(var, eps)};
}

at::Tensor batch_norm_elemt(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                            const at::Tensor& mean, const at::Tensor& invstd, double /*eps*/) {
  check_input("batch_norm_elemt", input);
  at::Tensor result = input.to(accumulate_type(input)).sub(per_channel(mean, input));
  result.mul_(per_channel(invstd, input));
  if (is_given(weight)) {
    result.mul_(per_channel(*weight, input));
  }
  if (is_given(bias)) {
    result.add_(per_channel(*bias, input));
  }
  return result.to(input.scalar_type());
}

at::Tensor& batch_norm_elemt_out(const at::Tensor& input, const OptionalTensor& weight,
                                 const OptionalTensor& bias, const at::Tensor& mean, const at::Tensor& invstd,
                                 double eps, at::Tensor& out) {
  return out.resize_(input.sizes()).copy_(batch_norm_elemt(input, weight, bias, mean, invstd, eps));
}

// mean and invstd have one row for each process.
std::tuple<at::Tensor, at::Tensor> gather_stats_with_counts(const at::Tensor& input, const at::Tensor& mean,
                                                            const at::Tensor& invstd,
                                                            const OptionalTensor& running_mean,
                                                            const OptionalTensor& running_var,
                                                            double momentum, double eps,
                                                            const at::Tensor& counts) {
  TORCH_CHECK(mean.dim() == 2 && mean.sizes() == invstd.sizes() && counts.numel() == mean.size(0),
              "expected one row of mean and invstd and one count for each process, but got shapes ",
              mean.sizes(), ", ", invstd.sizes(), " and ", counts.sizes());
  const auto type = accumulate_type(input);
  const at::Tensor all_means = mean.to(type);
  const at::Tensor weights = counts.to(type).view({-1, 1});
  const at::Tensor count = weights.sum();
  const at::Tensor global_mean = all_means.mul(weights).sum(0).div_(count);
  const at::Tensor squares = invstd.to(type).pow(-2).sub_(eps).add_(all_means.sub(global_mean).pow_(2));
  const at::Tensor global_var = squares.mul_(weights).sum(0).div_(count);
  if (is_given(running_mean)) {
    running_mean->mul_(1 - momentum).add_(global_mean, momentum);
  }
  if (is_given(running_var)) {
    running_var->mul_(1 - momentum).add_(global_var.mul(count.div(count.sub(1))), momentum);
  }
  return {global_mean, inverse_deviation(global_var, eps)};
}

std::tuple<at::Tensor, at::Tensor> gather_stats(const at::Tensor& input, const at::Tensor& mean,
                                                const at::Tensor& invstd, const OptionalTensor& running_mean,
                                                const OptionalTensor& running_var, double momentum,
                                                double eps, int64_t count) {
  const at::Tensor counts = at::empty({mean.size(0)}, mean.options()).fill_(count);
  return gather_stats_with_counts(input, mean, invstd, running_mean, running_var, momentum, eps, counts);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> backward_reduce(
    const at::Tensor& grad_out, const at::Tensor& input, const at::Tensor& mean, const at::Tensor& invstd,
    const OptionalTensor& weight, bool input_g, bool weight_g, bool bias_g) {
  check_input("batch_norm_backward_reduce", input);
  const auto type = accumulate_type(input);
  const at::Tensor grad = grad_out.to(type);
  const auto dims = reduced_dims(input);
  const at::Tensor sum_dy = grad.sum(dims);
  const at::Tensor sum_dy_xmu = input.to(type).sub(per_channel(mean, input)).mul_(grad).sum(dims);
  const auto parameter = is_given(weight) ? weight->scalar_type() : type;
  return {input_g ? sum_dy : at::Tensor(), input_g ? sum_dy_xmu : at::Tensor(),
          weight_g ? sum_dy_xmu.mul(invstd.to(type)).to(parameter) : at::Tensor(),
          bias_g ? sum_dy.to(parameter, /*non_blocking=*/false, /*copy=*/true) : at::Tensor()};
}

at::Tensor backward_elemt(const at::Tensor& grad_out, const at::Tensor& input, const at::Tensor& mean,
                          const at::Tensor& invstd, const OptionalTensor& weight, const at::Tensor& sum_dy,
                          const at::Tensor& sum_dy_xmu, const at::Tensor& count) {
  check_input("batch_norm_backward_elemt", input);
  const auto type = accumulate_type(input);
  const at::Tensor total = count.sum().to(type);
  const at::Tensor scale = per_channel(invstd, input);
  at::Tensor centered = input.to(type).sub(per_channel(mean, input));
  centered.mul_(scale.mul(scale).mul_(per_channel(sum_dy_xmu, input)).div_(total));
  at::Tensor result = grad_out.to(type).sub(per_channel(sum_dy, input).div(total)).sub_(centered).mul_(scale);
  if (is_given(weight)) {
    result.mul_(per_channel(*weight, input));
  }
  return result.to(input.scalar_type());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("batch_norm_stats", batch_norm_stats);
  m.impl("batch_norm_elemt", batch_norm_elemt);
  m.impl("batch_norm_elemt.out", batch_norm_elemt_out);
  m.impl("batch_norm_gather_stats", gather_stats);
  m.impl("batch_norm_gather_stats_with_counts", gather_stats_with_counts);
  m.impl("batch_norm_backward_reduce", backward_reduce);
  m.impl("batch_norm_backward_elemt", backward_elemt);
}

}  // namespace
}  // namespace openreg
