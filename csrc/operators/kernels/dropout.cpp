// Fused dropout. The CPU kernel of native_dropout has no generator argument, so it cannot use the device's
// generator; _fused_dropout has one, but no CPU kernel. These kernels call operators that use the device's
// generator.
#include <ATen/core/Tensor.h>
#include <ATen/ops/bernoulli.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <tuple>

namespace openreg {
namespace {

std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p,
                                                  std::optional<bool> train) {
  TORCH_CHECK(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
  if (!train.value_or(true) || p == 0) {
    return {input.clone(), at::ones_like(input, input.options().dtype(at::kBool))};
  }
  if (p == 1) {
    return {at::zeros_like(input), at::zeros_like(input, input.options().dtype(at::kBool))};
  }
  const at::Tensor mask = at::empty_like(input, input.options().dtype(at::kBool)).bernoulli_(1 - p);
  return {input.mul(mask).mul_(1 / (1 - p)), mask};
}

// Here p is the probability of keeping an element, as in CUDA's _fused_dropout; for 0 the results are NaN, as
// there.
std::tuple<at::Tensor, at::Tensor> fused_dropout(const at::Tensor& input, double p,
                                                 std::optional<at::Generator> generator) {
  TORCH_CHECK(p >= 0 && p <= 1, "the probability of keeping an element must be in [0, 1], but got ", p);
  const at::Tensor mask =
      at::empty_like(input, input.options().dtype(at::kByte)).bernoulli_(p, std::move(generator));
  return {input.mul(mask).mul_(1 / p), mask};
}

// Not in place: type promotion may change the dtype.
at::Tensor native_dropout_backward(const at::Tensor& grad, const at::Tensor& mask, double scale) {
  return grad.mul(mask).mul(scale);
}

at::Tensor masked_scale(const at::Tensor& input, const at::Tensor& mask, double scale) {
  return input.mul(mask).mul_(scale);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("native_dropout", native_dropout);
  m.impl("_fused_dropout", fused_dropout);
  m.impl("_masked_scale", masked_scale);
  m.impl("native_dropout_backward", native_dropout_backward);
}

}  // namespace
}  // namespace openreg
