// Indexing, concatenation and ranges; see Note [Library operators].
#include "device/on_device.h"
#include "operators/library/launch.h"
#include "operators/library/library_op.h"
#include "stream/capture.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/core/op_registration/adaption.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/arange_ops.h>
#include <ATen/ops/cat_meta.h>
#include <ATen/ops/cat_ops.h>
#include <ATen/ops/embedding_dense_backward_ops.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gather_meta.h>
#include <ATen/ops/gather_ops.h>
#include <ATen/ops/index_select_ops.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/scatter_add_meta.h>
#include <ATen/ops/scatter_add_ops.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

namespace openreg {
namespace {

using at::Tensor;
using F = LibraryFunction;
namespace meta = at::meta;
namespace ops = at::_ops;

// The Meta functions do not compare devices.
void check_device(const char* method, const Tensor& self, const Tensor& index) {
  std::optional<at::Device> device = self.device();
  c10::impl::check_and_update_common_device(device, index, method, "index");
}

// An index needs a dimension.
Tensor with_dimension(const Tensor& tensor) {
  return tensor.dim() == 0 ? tensor.unsqueeze(0) : tensor;
}

bool gather(const Tensor& self, int64_t dim, const Tensor& index, bool, const Tensor& out) {
  check_device("gather", self, index);
  const Tensor from = with_dimension(self), at = with_dimension(index.to(at::kLong));
  return launch_index(F::gather, at, at::maybe_wrap_dim(dim, from.dim()), with_dimension(out), from);
}

bool scatter_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, const Tensor& out) {
  check_device("scatter_add", self, index);
  if (!offered({F::scatter_add}, out.scalar_type(), out.device().index()) ||
      src.scalar_type() != out.scalar_type()) {
    return false;
  }
  if (!out.is_same(self)) {
    out.copy_(self);
  }
  const Tensor to = with_dimension(out), at = with_dimension(index.to(at::kLong));
  return launch_index(F::scatter_add, at, at::maybe_wrap_dim(dim, to.dim()), with_dimension(src), to);
}

// Errors of the arguments are those of the CPU kernel.
bool index_select_out(const Tensor& self, int64_t dim, const Tensor& index, Tensor& out) {
  const bool valid = index.dim() <= 1 &&
                     (index.scalar_type() == at::kLong || index.scalar_type() == at::kInt) &&
                     index.device() == self.device() && out.device() == self.device() &&
                     out.scalar_type() == self.scalar_type() && self.dim() > 0 && dim < self.dim() &&
                     dim >= -self.dim() && !out.is_same(self);
  if (!valid || !offered({F::gather}, self.scalar_type(), self.device().index())) {
    return false;
  }
  const int64_t along = at::maybe_wrap_dim(dim, self.dim());
  auto sizes = self.sizes().vec();
  sizes[static_cast<size_t>(along)] = index.numel();
  at::native::resize_output(out, sizes);
  std::vector<int64_t> shape(sizes.size(), 1);
  shape[static_cast<size_t>(along)] = index.numel();
  const Tensor at = index.to(at::kLong).reshape(shape).expand(sizes);
  return launch_index(F::gather, at, along, out, self);
}

std::optional<Tensor> index_select(const Tensor& self, int64_t dim, const Tensor& index) {
  Tensor out = at::empty({0}, self.options());
  return index_select_out(self, dim, index, out) ? std::optional(out) : std::nullopt;
}

// Gradients of repeated indices are added; those of `padding_idx` are dropped.
std::optional<Tensor> embedding_dense_backward(const Tensor& grad, const Tensor& indices, int64_t rows,
                                               int64_t padding_idx, bool scale_by_frequency) {
  const c10::DeviceIndex device = grad.device().index();
  // float32 sums of many gradients with low precision
  const at::ScalarType dtype = compute_dtype(grad.scalar_type());
  if (scale_by_frequency || indices.device() != grad.device() ||
      !offered({F::scatter_add, F::fill, F::where}, dtype, device) || !offered({F::ne}, at::kLong, device)) {
    return std::nullopt;
  }
  const int64_t columns = grad.size(-1);
  Tensor dense = grad.to(dtype).reshape({-1, columns});
  const Tensor rows_of = indices.to(at::kLong).reshape({-1, 1});
  if (padding_idx >= 0) {
    dense = at::where(at::ne(rows_of, padding_idx), dense, number_on_device(0, dtype, grad.device()));
  }
  const Tensor sums = at::zeros({rows, columns}, grad.options().dtype(dtype));
  if (!launch_index(F::scatter_add, rows_of.expand({rows_of.size(0), columns}), 0, dense, sums)) {
    return std::nullopt;
  }
  return sums.to(grad.scalar_type());
}

// Tensors of the shape [0] are skipped, as in the Meta function.
bool cat(const at::ITensorListRef& tensors, int64_t dim, const Tensor& out) {
  const auto inputs = tensors.materialize();
  const int64_t along = at::maybe_wrap_dim(dim, out.dim());
  const auto on_its_device = [&](const Tensor& tensor) { return tensor.device() == out.device(); };
  if (!std::ranges::all_of(inputs, on_its_device)) {
    return false;
  }
  int64_t offset = 0;
  for (const Tensor& tensor : inputs) {
    if (tensor.dim() == 1 && tensor.size(0) == 0) {
      continue;
    }
    out.narrow(along, offset, tensor.size(along)).copy_(tensor);
    offset += tensor.size(along);
  }
  return true;
}

// 0, 1, 2, ... by doubling: a launch of the graph reads nothing on the host.
Tensor count_on_device(int64_t count, at::ScalarType dtype, c10::Device device) {
  Tensor numbers = at::zeros({count}, at::TensorOptions(device).dtype(dtype));
  for (int64_t known = 1; known < count; known *= 2) {
    const int64_t added = std::min(known, count - known);
    Tensor next = numbers.narrow(0, known, added);
    at::add_out(next, numbers.narrow(0, 0, added), number_on_device(known, dtype, device));
  }
  return numbers;
}

// The CPU kernel checks the arguments and makes the numbers. Pinned memory stays until the copy is done.
bool arange_out(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, Tensor& out) {
  const at::ScalarType dtype = out.scalar_type();
  const Tensor host = at::arange(start, end, step, dtype);
  const bool captured = capturing(out.device().index());
  const at::ScalarType counted = at::isIntegralType(dtype, false) ? at::kLong : at::kDouble;
  if (captured && !offered({F::add, F::mul, F::fill}, counted, out.device().index())) {
    return false;
  }
  if (out.numel() != host.numel()) {
    at::native::resize_output(out, host.sizes());
  }
  if (captured) {
    const Tensor numbers = count_on_device(out.numel(), counted, out.device());
    out.copy_(numbers.mul_(step).add_(start).view(out.sizes()));
  } else {
    out.copy_(host.view(out.sizes()).pin_memory(), /*non_blocking=*/true);
  }
  return true;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  structured_op<meta::structured_gather, &gather, ops::gather, ops::gather_out>(m, {F::gather});
  structured_op<meta::structured_scatter_add, &scatter_add, ops::scatter_add, ops::scatter_add_,
                ops::scatter_add_out>(m, {F::scatter_add});
  plain_op<ops::index_select, &index_select>(m, {F::gather});
  plain_op<ops::index_select_out, &index_select_out>(m, {F::gather});
  plain_op<ops::embedding_dense_backward, &embedding_dense_backward>(m, {F::scatter_add, F::fill, F::where});
  structured_op<meta::structured_cat, &cat, ops::cat, ops::cat_out>(m, {});
  plain_op<ops::arange_start_out, &arange_out>(m, {});
}

}  // namespace
}  // namespace openreg
