#include "device_code/kernel_library.h"

#include "memory/kernel_view.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>

namespace openreg {

orElementwiseArgs elementwise_args(const at::TensorIteratorBase& iter, const at::Scalar& scalar) {
  orElementwiseArgs args{};
  args.struct_size = sizeof(args);
  args.dims = static_cast<uint32_t>(iter.ndim());
  std::ranges::copy(iter.shape(), args.sizes);
  for (int i = 0; i < iter.ntensors(); ++i) {
    check_has_memory(*iter.tensor_base(i).unsafeGetTensorImpl());
    args.data[i] = iter.data_ptr(i);
    std::ranges::copy(iter.strides(i), args.strides[i]);
  }
  args.scalar = scalar.toDouble();
  // Functions of integers get no number that does not fit.
  const bool fits = std::abs(args.scalar) < 0x1p63;
  args.int_scalar = !scalar.isFloatingPoint() ? scalar.toLong()
                    : fits                    ? static_cast<int64_t>(args.scalar)
                                              : 0;
  return args;
}

void launch_elementwise(orFunction_t function, const at::TensorIteratorBase& iter, const at::Scalar& scalar) {
  const orElementwiseArgs args = elementwise_args(iter, scalar);
  launch_function(function, &args, sizeof(args), iter.device(0).index());
}

bool launch_library_copy(const at::Tensor& dst, const at::Tensor& src) {
  if (dst.is_conj() != src.is_conj() || dst.is_neg() != src.is_neg()) {
    return false;
  }
  const c10::DeviceIndex device = dst.device().index();
  const orFunction_t function = dst.scalar_type() == src.scalar_type()
                                    ? find_byte_copy(dst.element_size(), device)
                                    : find_conversion(src.scalar_type(), dst.scalar_type(), device);
  if (function == nullptr) {
    return false;
  }
  const auto iter = at::TensorIteratorConfig()
                        .set_check_mem_overlap(false)
                        .resize_outputs(false)
                        .check_all_same_dtype(false)
                        .add_output(dst)
                        .add_const_input(src)
                        .build();
  if (!fits_library(iter)) {
    return false;
  }
  if (iter.numel() != 0) {
    launch_elementwise(function, iter);
  }
  return true;
}

}  // namespace openreg
