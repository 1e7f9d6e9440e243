// Scaled dot product attention, as PyTorch's overrideable SDP backend and as its memory-efficient attention.
// Forward and backward launch the fused CPU kernels on device memory. Dropout, which these do not support,
// and a device that cannot run host code use several operators.
#include "device/device.h"
#include "memory/kernel_view.h"

#include <ATen/Context.h>
#include <ATen/ExpandUtils.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/library.h>

#include <array>
#include <cmath>
#include <limits>
#include <tuple>

namespace openreg {
namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;

// The fused kernel uses the query's sizes and checks little, so its limits are checked here.

bool has_heads(const Tensor& tensor) {
  return !tensor.is_nested() && tensor.dim() == 4 && tensor.numel() > 0 && tensor.stride(3) == 1;
}

bool sizes_fit(const Tensor& query, const Tensor& key, const Tensor& value, bool grouped) {
  const int64_t heads = key.size(1);
  return query.size(0) == key.size(0) && query.size(0) == value.size(0) && heads == value.size(1) &&
         (query.size(1) == heads || (grouped && query.size(1) % heads == 0)) &&
         key.size(2) == value.size(2) && query.size(3) == key.size(3) && query.size(3) == value.size(3);
}

bool mask_fits(const Tensor& mask, const Tensor& query, const Tensor& key) {
  if (mask.requires_grad() || mask.is_nested() || (mask.dim() != 2 && mask.dim() != 4) ||
      (mask.scalar_type() != query.scalar_type() && mask.scalar_type() != at::kFloat &&
       mask.scalar_type() != at::kBool)) {
    return false;
  }
  const std::array<int64_t, 4> whole{query.size(0), query.size(1), query.size(2), key.size(2)};
  for (int64_t dim = 1; dim <= mask.dim(); ++dim) {
    if (mask.size(-dim) != 1 && mask.size(-dim) != whole[static_cast<size_t>(4 - dim)]) {
      return false;
    }
  }
  return true;
}

bool fused_kernel_fits(const Tensor& query, const Tensor& key, const Tensor& value, const MaybeTensor& mask,
                       bool grouped) {
  // The checks below would make the sizes of a traced program constant.
  const auto is_symbolic = [](const Tensor& tensor) {
    return tensor.defined() && tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
  };
  if (is_symbolic(query) || is_symbolic(key) || is_symbolic(value) || is_symbolic(mask.value_or(Tensor()))) {
    return false;
  }
  const auto dtype = query.scalar_type();
  return at::isFloatingType(dtype) && dtype == key.scalar_type() && dtype == value.scalar_type() &&
         has_heads(query) && has_heads(key) && has_heads(value) && sizes_fit(query, key, value, grouped) &&
         (!mask.has_value() || !mask->defined() || mask_fits(*mask, query, key));
}

// Whether forward and backward are several operators.
bool is_composite(double dropout) {
  return dropout > 0 || !has_kernel_view();
}

// Whether to call the kernel by the name of memory-efficient attention. Programs ask for it by name. DTensor
// and context parallel have rules for that operator, but not for the overrideable one; and for flash
// attention PyTorch calls the operator of the CPU. The Meta kernel of its backward does not support grouped
// queries, which a compiler meets.
bool as_efficient_attention(const Tensor& query, const Tensor& key, const MaybeTensor& mask, double dropout) {
  const at::Context& context = at::globalContext();
  const bool traced_in_groups = query.size(1) != key.size(1) && c10::impl::dispatch_mode_enabled();
  return context.userEnabledMemEfficientSDP() && has_kernel_view() &&
         !(mask.has_value() && mask->defined()) && dropout == 0 && !traced_in_groups &&
         (!context.userEnabledOverrideableSDP() || query.key_set().has(c10::DispatchKey::Python));
}

// Programs enable fused kernels with the settings of the fused kernels of CUDA, so these enable this kernel
// too.
int64_t choose(const Tensor& query, const Tensor& key, const Tensor& value, const MaybeTensor& mask,
               double dropout, bool, std::optional<double>, bool grouped) {
  const at::Context& context = at::globalContext();
  // The mask that the kernel saves has another shape than the Meta kernel says, so traced programs use
  // operators.
  const bool traced_with_dropout = dropout > 0 && query.key_set().has(c10::DispatchKey::Python);
  const bool permitted = context.userEnabledOverrideableSDP() || context.userEnabledFlashSDP() ||
                         context.userEnabledMemEfficientSDP();
  if (permitted && !traced_with_dropout && fused_kernel_fits(query, key, value, mask, grouped)) {
    return static_cast<int64_t>(as_efficient_attention(query, key, mask, dropout)
                                    ? sdp::SDPBackend::efficient_attention
                                    : sdp::SDPBackend::overrideable);
  }
  TORCH_CHECK(context.userEnabledMathSDP(),
              "No viable backend for scaled_dot_product_attention was found: the fused kernel ",
              permitted ? "does not support these arguments" : "is disabled",
              ", and SDPBackend.MATH is disabled");
  return static_cast<int64_t>(sdp::SDPBackend::math);
}

// Grouped query attention: repeats each key or value head for its query heads; the backward sums the
// gradients.
Tensor for_each_query_head(const Tensor& shared, int64_t heads) {
  return shared.size(1) == heads ? shared : shared.repeat_interleave(heads / shared.size(1), 1);
}

Tensor for_each_shared_head(const Tensor& gradient, int64_t heads) {
  if (!gradient.defined() || gradient.size(1) == heads) {
    return gradient;
  }
  return gradient.unflatten(1, {heads, gradient.size(1) / heads}).sum(2);
}

// torch.compile relies on the strides of the Meta kernel, which are those of empty_like. The fused kernel
// returns other strides.
Tensor laid_out_like(const Tensor& like, const Tensor& made) {
  const auto promised = like.is_non_overlapping_and_dense()
                            ? like.strides().vec()
                            : at::infer_dense_strides(like.sizes(), like.strides());
  return made.strides() == promised ? made : at::empty_like(like).copy_(made);
}

double scale_or_default(std::optional<double> scale, const Tensor& query) {
  return scale.value_or(1.0 / std::sqrt(static_cast<double>(query.size(3))));
}

// float32 for float16 and bfloat16, as in the fused kernel.
at::ScalarType softmax_dtype(const Tensor& query) {
  return query.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// A row in which nothing is allowed has the probabilities 0.
Tensor probabilities(const Tensor& query, const Tensor& key, const Tensor& bias, bool causal, double scale) {
  constexpr double kMasked = -std::numeric_limits<double>::infinity();
  const at::ScalarType dtype = softmax_dtype(query);
  Tensor scores = at::matmul(query.to(dtype), key.to(dtype).transpose(-2, -1)).mul_(scale);
  if (bias.defined()) {
    scores.add_(bias);
  }
  if (causal) {
    const auto options = query.options().dtype(at::kLong);
    const Tensor rows = at::arange(query.size(2), options).unsqueeze(1),
                 columns = at::arange(key.size(2), options);
    scores.masked_fill_(at::gt(columns, rows), kMasked);
  }
  Tensor p = at::_softmax(scores, -1, false);
  if (bias.defined()) {
    p.masked_fill_(at::eq(at::amax(scores, -1, true), kMasked), 0);
  }
  return p;
}

using Forward = std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor>;

// With dropout, the mask is saved for backward instead of the random state. Otherwise shapes and strides are
// those of the Meta kernel, on which torch.compile relies.
Forward forward(const Tensor& query, const Tensor& key, const Tensor& value, const MaybeTensor& bias,
                double dropout, bool causal, bool, std::optional<double> scale) {
  const Tensor k = for_each_query_head(key, query.size(1));
  const Tensor v = for_each_query_head(value, query.size(1));
  Tensor output, logsumexp, dropped;
  TORCH_CHECK(dropout >= 0 && dropout <= 1, "dropout probability has to be between 0 and 1, but got ",
              dropout);
  if (is_composite(dropout)) {
    Tensor p = probabilities(query, k, bias.value_or(Tensor()), causal, scale_or_default(scale, query));
    if (dropout > 0) {
      dropped = at::empty_like(p).bernoulli_(1 - dropout).div_(dropout < 1 ? 1 - dropout : 1);
      p.mul_(dropped);
    } else {
      dropped = at::empty({}, query.options().dtype(at::kLong));
    }
    output = at::matmul(p.to(v.scalar_type()), v);
    logsumexp = at::empty({query.size(0), query.size(1), query.size(2)},
                          query.options().dtype(at::kFloat));  // unused
  } else {
    std::tie(output, logsumexp) =
        at::_scaled_dot_product_flash_attention_for_cpu(query, k, v, 0.0, causal, bias, scale);
    logsumexp = logsumexp.contiguous();
    dropped = at::empty({}, query.options().dtype(at::kLong));
  }
  const Tensor offset = at::empty({}, query.options().dtype(at::kLong));
  // As on CUDA and in the Meta kernel, results that are not used are undefined.
  return {laid_out_like(query, output), logsumexp, {}, {}, query.size(2), key.size(2), dropped, offset, {}};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> backward(
    const Tensor& grad, const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& bias,
    std::array<bool, 4>, const Tensor& output, const Tensor& logsumexp, const Tensor&, const Tensor&,
    c10::SymInt /*max_q*/, c10::SymInt /*max_k*/,  // NOLINT: the schema's types
    double dropout, bool causal, const Tensor& dropped, const Tensor&, std::optional<double> scale) {
  if (!grad.defined()) {
    return {};
  }
  const Tensor k = for_each_query_head(key, query.size(1));
  const Tensor v = for_each_query_head(value, query.size(1));
  Tensor grad_query, grad_key, grad_value;
  if (is_composite(dropout)) {
    const double factor = scale_or_default(scale, query);
    const Tensor p = probabilities(query, k, bias, causal, factor);
    // Not kept in a variable: there is one such tensor less while the others are made.
    grad_value = at::matmul((dropout > 0 ? p * dropped : p).to(grad.scalar_type()).transpose(-2, -1), grad);
    Tensor grad_p = at::matmul(grad, v.transpose(-2, -1)).to(p.scalar_type());
    if (dropout > 0) {
      grad_p.mul_(dropped);
    }
    const Tensor grad_scores =
        at::_softmax_backward_data(grad_p, p, -1, p.scalar_type()).mul_(factor).to(grad.scalar_type());
    grad_query = at::matmul(grad_scores, k);
    grad_key = at::matmul(grad_scores.transpose(-2, -1), query);
  } else {
    std::tie(grad_query, grad_key, grad_value) = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        grad, query, k, v, output, logsumexp, 0.0, causal, bias.defined() ? MaybeTensor(bias) : std::nullopt,
        scale);
  }
  return {laid_out_like(query, grad_query), laid_out_like(key, for_each_shared_head(grad_key, key.size(1))),
          laid_out_like(value, for_each_shared_head(grad_value, value.size(1))), Tensor()};
}

// The layout of the Meta kernel of memory-efficient attention: the heads of a row are contiguous. Most
// programs have such queries, and then nothing is copied.
Tensor with_contiguous_rows(const Tensor& tensor) {
  return tensor.defined() ? tensor.transpose(1, 2).contiguous().transpose(1, 2) : tensor;
}

// The rows of the logsumexp of memory-efficient attention are a multiple of this number.
constexpr int64_t kAlignedRows = 32;

std::tuple<Tensor, Tensor, Tensor, Tensor> efficient_forward(const Tensor& query, const Tensor& key,
                                                             const Tensor& value, const MaybeTensor& bias,
                                                             bool with_logsumexp, double dropout, bool causal,
                                                             std::optional<double> scale) {
  TORCH_CHECK_NOT_IMPLEMENTED(dropout == 0, "memory-efficient attention does not support dropout on ",
                              orGetDeviceName(), "; enable SDPBackend.OVERRIDEABLE, got ", dropout);
  const auto results = forward(query, key, value, bias, 0, causal, false, scale);
  const int64_t rows = query.size(2);
  const int64_t aligned = with_logsumexp ? (rows + kAlignedRows - 1) / kAlignedRows * kAlignedRows : 0;
  Tensor logsumexp = std::get<1>(results);
  if (aligned != rows) {
    Tensor padded = at::zeros({query.size(0), query.size(1), aligned}, logsumexp.options());
    if (with_logsumexp) padded.narrow(2, 0, rows).copy_(logsumexp);
    logsumexp = std::move(padded);
  }
  const auto unused = [&] { return at::zeros({}, query.options().dtype(at::kLong)); };
  return {with_contiguous_rows(std::get<0>(results)), logsumexp, unused(), unused()};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> efficient_backward(
    const Tensor& grad, const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& bias,
    const Tensor& output, const Tensor& logsumexp, const Tensor& seed, const Tensor& offset, double dropout,
    std::array<bool, 4> needed, bool causal, std::optional<double> scale) {
  const auto [grad_query, grad_key, grad_value, grad_bias] =
      backward(grad, query, key, value, bias, needed, output, logsumexp.narrow(2, 0, query.size(2)), Tensor(),
               Tensor(), query.size(2), key.size(2), dropout, causal, seed, offset, scale);
  return {with_contiguous_rows(grad_query), with_contiguous_rows(grad_key), with_contiguous_rows(grad_value),
          grad_bias};
}

}  // namespace
}  // namespace openreg

namespace at::native {
// NOLINTNEXTLINE: the macro requires this namespace. Attention calls the stub, other callers the operator.
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &openreg::choose)
}  // namespace at::native

namespace openreg {
namespace {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fused_sdp_choice", choose);
  m.impl("_scaled_dot_product_fused_attention_overrideable", forward);
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward", backward);
  m.impl("_scaled_dot_product_efficient_attention", efficient_forward);
  m.impl("_scaled_dot_product_efficient_attention_backward", efficient_backward);
}

}  // namespace
}  // namespace openreg
