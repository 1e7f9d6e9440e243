#include "memory/kernel_view.h"
#include "operators/library/launch.h"

#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/ops/empty.h>

#include <limits>

namespace openreg {

bool launch_reduction(LibraryFunction function, const at::Tensor& self, const at::Tensor& out,
                      at::OptionalIntArrayRef dims, bool keepdim, double scale) {
  const at::ScalarType dtype = out.scalar_type();
  const orFunction_t handle = find_function(function, dtype, out.device().index());
  if (handle == nullptr) {
    return false;
  }
  if (out.numel() == 0) {
    return true;
  }
  if (self.numel() == 0) {  // only sums of nothing have a value
    if (function == LibraryFunction::sum) {
      out.fill_(0);
    }
    return function == LibraryFunction::sum;
  }
  const auto iter = at::meta::make_reduction(self, out, dims, keepdim, dtype);
  if (!fits_library(iter)) {
    return false;
  }
  launch_elementwise(handle, iter, at::isFloatingType(dtype) ? at::Scalar(scale) : at::Scalar(1));
  return true;
}

bool launch_matmul(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c, const at::Scalar& alpha,
                   const at::Scalar& beta) {
  const at::ScalarType dtype = c.scalar_type();
  const c10::DeviceIndex device = c.device().index();
  const orFunction_t handle = find_function(LibraryFunction::gemm, dtype, device);
  if (handle == nullptr || a.scalar_type() != dtype || b.scalar_type() != dtype) {
    return false;
  }
  if (c.numel() == 0) {
    return true;
  }
  const int64_t rows = a.dim() - 2, columns = a.dim() - 1;
  orMatmulArgs args{};
  args.struct_size = sizeof(args);
  args.batch = a.dim() == 3 ? a.size(0) : 1;
  args.m = a.size(rows), args.k = a.size(columns), args.n = b.size(columns);
  args.alpha = alpha.toDouble(), args.beta = beta.toDouble();
  if (args.k == 0) {
    if (args.beta == 0) {
      c.zero_();
    } else {
      c.mul_(beta);
    }
    return true;
  }
  for (const at::Tensor& tensor : {a, b, c}) check_has_memory(*tensor.unsafeGetTensorImpl());
  args.a = a.const_data_ptr(), args.b = b.const_data_ptr(), args.c = c.mutable_data_ptr();
  const std::pair<int64_t*, const at::Tensor*> strides[] = {
      {args.a_strides, &a}, {args.b_strides, &b}, {args.c_strides, &c}};
  for (const auto& [into, tensor] : strides) {
    into[0] = tensor->dim() == 3 ? tensor->stride(0) : 0;
    into[1] = tensor->stride(rows);
    into[2] = tensor->stride(columns);
  }
  launch_function(handle, &args, sizeof(args), device);
  return true;
}

bool launch_index(LibraryFunction function, const at::Tensor& index, int64_t dim, const at::Tensor& dense,
                  const at::Tensor& indexed) {
  const c10::DeviceIndex device = dense.device().index();
  const orFunction_t handle = find_function(function, dense.scalar_type(), device);
  if (handle == nullptr || index.dim() > OR_KERNEL_DIMS) {
    return false;
  }
  if (index.numel() == 0) {
    return true;
  }
  orIndexArgs args{};
  args.struct_size = sizeof(args);
  args.dims = static_cast<uint32_t>(index.dim());
  const auto element = static_cast<int64_t>(dense.element_size());
  for (int64_t i = 0; i < index.dim(); ++i) {
    const int64_t at = index.dim() - 1 - i;  // the last dimension usually has the smallest strides
    args.sizes[i] = index.size(at);
    args.index_strides[i] = index.stride(at) * static_cast<int64_t>(sizeof(int64_t));
    args.dense_strides[i] = dense.stride(at) * element;
    args.indexed_strides[i] = at == dim ? 0 : indexed.stride(at) * element;
  }
  for (const at::Tensor& tensor : {index, dense, indexed}) check_has_memory(*tensor.unsafeGetTensorImpl());
  const bool writes_indexed = function == LibraryFunction::scatter_add;
  args.index = index.const_data_ptr<int64_t>();
  args.dense = writes_indexed ? const_cast<void*>(dense.const_data_ptr()) : dense.mutable_data_ptr();
  args.indexed = writes_indexed ? indexed.mutable_data_ptr() : const_cast<void*>(indexed.const_data_ptr());
  args.indexed_size = indexed.dim() == 0 ? 1 : indexed.size(dim);
  args.indexed_stride = indexed.dim() == 0 ? 0 : indexed.stride(dim) * element;
  launch_function(handle, &args, sizeof(args), device);
  return true;
}

}  // namespace openreg
