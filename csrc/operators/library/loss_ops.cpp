// Losses, composed of library operators; see Note [Library operators].
#include "operators/library/launch.h"
#include "operators/library/library_op.h"

#include <ATen/core/Reduction.h>
#include <ATen/core/op_registration/adaption.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/mse_loss_backward_ops.h>
#include <ATen/ops/mse_loss_meta.h>
#include <ATen/ops/mse_loss_ops.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/nll_loss_backward_meta.h>
#include <ATen/ops/nll_loss_backward_ops.h>
#include <ATen/ops/nll_loss_forward_meta.h>
#include <ATen/ops/nll_loss_forward_ops.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <limits>

namespace openreg {
namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;
using F = LibraryFunction;
namespace meta = at::meta;
namespace ops = at::_ops;

constexpr Functions kNllLoss = {F::gather, F::scatter_add, F::where, F::mul, F::div, F::neg, F::sum, F::fill};
constexpr Functions kMseLoss = {F::sub, F::mul, F::sum};

bool nll_offered(const Tensor& self, const Tensor& target) {
  const c10::DeviceIndex device = self.device().index();
  std::optional<at::Device> common = self.device();
  c10::impl::check_and_update_common_device(common, target, "nll_loss", "target");
  return offered(kNllLoss, compute_dtype(self.scalar_type()), device) &&
         offered({F::ne, F::where, F::fill}, at::kLong, device);
}

// The targets of a batch. An ignored target has the class 0 and the weight 0.
struct Targets {
  Tensor valid;    // bool
  Tensor classes;  // int64
  Tensor weights;  // of the dtype
};

Targets read_targets(const Tensor& target, const MaybeTensor& weight, int64_t ignore_index,
                     at::ScalarType dtype) {
  const Tensor given = target.to(at::kLong).reshape(-1);
  const Tensor valid = at::ne(given, ignore_index);
  const Tensor classes = at::where(valid, given, number_on_device(0, at::kLong, target.device()));
  if (!weight.has_value() || !weight->defined()) {
    return {valid, classes, valid.to(dtype)};
  }
  const Tensor zero = number_on_device(0, dtype, target.device());
  return {valid, classes, at::where(valid, at::index_select(weight->to(dtype), 0, classes), zero)};
}

bool nll_loss_forward(const Tensor& self, const Tensor& target, const MaybeTensor& weight, int64_t reduction,
                      int64_t ignore_index, const Tensor& output, const Tensor& total_weight) {
  if (!nll_offered(self, target)) {
    return false;
  }
  const bool none = reduction == at::Reduction::None && self.dim() == 2;
  if (target.numel() == 0) {
    if (!none) {
      output.fill_(reduction == at::Reduction::Mean ? std::numeric_limits<double>::quiet_NaN() : 0.0);
    }
    total_weight.zero_();
    return true;
  }
  const at::ScalarType dtype = compute_dtype(self.scalar_type());
  const Targets targets = read_targets(target, weight, ignore_index, dtype);
  const Tensor input = self.dim() == 1 ? self.unsqueeze(0) : self;
  const Tensor picked = input.gather(1, targets.classes.unsqueeze(1)).squeeze(1).to(dtype);
  // An ignored input may be infinite: it is not multiplied with 0.
  const Tensor zero = number_on_device(0, dtype, self.device());
  const Tensor losses = at::where(targets.valid, at::mul(picked, targets.weights), zero).neg_();
  if (none) {
    output.copy_(losses);
    total_weight.zero_();
    return true;
  }
  const Tensor total = at::sum(targets.weights);
  total_weight.copy_(total);
  const Tensor sum = at::sum(losses);
  output.copy_(reduction == at::Reduction::Mean ? at::div(sum, total).view(output.sizes())
                                                : sum.view(output.sizes()));
  return true;
}

bool nll_loss_backward(const Tensor& grad, const Tensor& self, const Tensor& target,
                       const MaybeTensor& weight, int64_t reduction, int64_t ignore_index,
                       const Tensor& total_weight, const Tensor& grad_input) {
  if (!nll_offered(self, target)) {
    return false;
  }
  const at::ScalarType dtype = compute_dtype(self.scalar_type());
  if (target.numel() == 0) {
    grad_input.zero_();
    return true;
  }
  const Targets targets = read_targets(target, weight, ignore_index, dtype);
  Tensor factor = grad.to(dtype);
  if (reduction == at::Reduction::Mean) {
    factor = at::div(factor, total_weight.to(dtype));
  }
  const Tensor zero = number_on_device(0, dtype, self.device());
  const Tensor slopes = at::where(targets.valid, at::mul(targets.weights, factor.reshape(-1)), zero).neg_();
  Tensor sums = at::zeros(self.dim() == 1 ? at::IntArrayRef({1, self.size(0)}) : self.sizes(),
                          self.options().dtype(dtype));
  sums.scatter_add_(1, targets.classes.unsqueeze(1), slopes.unsqueeze(1));
  grad_input.copy_(sums.view(self.sizes()));
  return true;
}

bool mse_loss(at::TensorIteratorBase& iter, const Tensor& self, const Tensor& target, int64_t reduction) {
  const Tensor& out = iter.tensor(0);
  const at::ScalarType dtype = compute_dtype(iter.common_dtype());
  if (!at::isFloatingType(dtype) || !offered(kMseLoss, dtype, out.device().index())) {
    return false;
  }
  const Tensor difference = at::sub(self.to(dtype), target.to(dtype));
  const Tensor squares = at::mul(difference, difference);
  out.copy_(reduction == at::Reduction::None   ? squares
            : reduction == at::Reduction::Mean ? at::mean(squares)
                                               : at::sum(squares));
  return true;
}

std::optional<Tensor> mse_backward(const Tensor& grad, const Tensor& self, const Tensor& target,
                                   int64_t reduction) {
  const at::ScalarType dtype = compute_dtype(self.scalar_type());
  if (!at::isFloatingType(dtype) || self.scalar_type() != target.scalar_type() ||
      self.scalar_type() != grad.scalar_type() || self.device() != target.device() ||
      !offered(kMseLoss, dtype, self.device().index())) {
    return std::nullopt;
  }
  const Tensor difference = at::sub(self.to(dtype), target.to(dtype));
  const double factor = reduction == at::Reduction::Mean ? 2.0 / static_cast<double>(self.numel()) : 2.0;
  return at::mul(difference, grad.to(dtype)).mul_(factor).to(self.scalar_type());
}

bool mse_backward_out(const Tensor& grad, const Tensor& self, const Tensor& target, int64_t reduction,
                      Tensor& grad_input) {
  const auto result = mse_backward(grad, self, target, reduction);
  if (!result.has_value() || grad_input.scalar_type() != self.scalar_type()) {
    return false;
  }
  at::native::resize_output(grad_input, result->sizes());
  grad_input.copy_(*result);
  return true;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  structured_op<meta::structured_nll_loss_forward, &nll_loss_forward, ops::nll_loss_forward,
                ops::nll_loss_forward_output>(m, kNllLoss);
  structured_op<meta::structured_nll_loss_backward, &nll_loss_backward, ops::nll_loss_backward,
                ops::nll_loss_backward_grad_input>(m, kNllLoss);
  structured_op<meta::structured_mse_loss, &mse_loss, ops::mse_loss, ops::mse_loss_out>(m, kMseLoss);
  plain_op<ops::mse_loss_backward, &mse_backward>(m, kMseLoss);
  plain_op<ops::mse_loss_backward_grad_input, &mse_backward_out>(m, kMseLoss);
}

}  // namespace
}  // namespace openreg
