#include "device/on_device.h"
#include "device_code/constants.h"
#include "operators/library/launch.h"
#include "operators/required/outputs.h"

#include <ATen/ops/empty_like.h>
#include <c10/core/DynamicCast.h>

#include <cmath>

namespace openreg {
namespace {

bool is_comparison(LibraryFunction function) {
  return function >= LibraryFunction::eq && function <= LibraryFunction::ge;
}

bool has_output_dtype(LibraryFunction function, const at::TensorIteratorBase& iter) {
  return iter.dtype(0) == (is_comparison(function) ? at::kBool : iter.common_dtype());
}

bool is_ready(LibraryFunction function, const at::TensorIteratorBase& iter) {
  bool ready = has_output_dtype(function, iter);
  for (int i = 1; i < iter.ntensors(); ++i) {
    ready &= iter.dtype(i) == iter.common_dtype() && iter.device_type(i) == kDevice;
  }
  return ready;
}

// The number in a tensor on the host that is not complex.
at::Scalar host_number(const at::Tensor& tensor) {
  const void* data = tensor.const_data_ptr();
  return at::isFloatingType(tensor.scalar_type())
             ? at::Scalar(c10::fetch_and_cast<double>(tensor.scalar_type(), data))
             : at::Scalar(c10::fetch_and_cast<int64_t>(tensor.scalar_type(), data));
}

// As integers of the device overflow.
int64_t wrapping_product(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

void swap_inputs(orElementwiseArgs& args) {
  std::swap(args.data[1], args.data[2]);
  std::swap(args.strides[1], args.strides[2]);
}

// x + number and x - number read the 1 in device memory, scaled by the number. number * x is -0 + number * x.
// A division multiplies with the inverse, as on CUDA, unless the inverse overflows or underflows.
bool launch_with_number(LibraryFunction function, at::TensorIteratorBase& iter, const at::Scalar& alpha) {
  using enum LibraryFunction;
  const at::ScalarType dtype = iter.common_dtype();
  const c10::DeviceIndex device = iter.device(0).index();
  if (iter.ntensors() != 3 || dtype == at::kBool || !has_output_dtype(function, iter)) {
    return false;
  }
  const int number = iter.is_cpu_scalar(2) ? 2 : 1, tensor = 3 - number;
  const bool commutes = function == mul || (function == add && alpha.equal(1));
  if (!iter.is_cpu_scalar(number) || iter.device_type(tensor) != kDevice || iter.dtype(tensor) != dtype ||
      (number == 1 && !commutes)) {
    return false;
  }
  const at::Scalar value = host_number(iter.tensor(number));
  const bool floating = at::isFloatingType(dtype);
  at::Scalar scalar;
  LibraryFunction launched = function;
  bool scales = false;  // else the number is added
  if (function == add || function == sub) {
    scalar = floating ? at::Scalar(alpha.toDouble() * value.toDouble())
                      : at::Scalar(wrapping_product(alpha.toLong(), value.toLong()));
  } else if (function == mul) {
    scalar = value, launched = add, scales = true;
  } else if (function == div && floating) {
    const double inverse = 1 / value.toDouble();
    if (!std::isnormal(static_cast<float>(inverse)) || !std::isnormal(static_cast<float>(value.toDouble()))) {
      return false;
    }
    scalar = inverse, launched = add, scales = true;
  } else {
    return false;
  }
  const orFunction_t handle = find_function(launched, dtype, device);
  void* constant = scales ? device_negative_zero(dtype, device) : device_one(dtype, device);
  if (handle == nullptr || constant == nullptr) {
    return false;
  }
  orElementwiseArgs args = elementwise_args(iter, scalar);
  // The strides of the number are 0, as those of the constant.
  args.data[number] = constant;
  if (number == (scales ? 2 : 1)) {
    swap_inputs(args);
  }
  launch_function(handle, &args, sizeof(args), device);
  return true;
}

bool is_exact(const at::Scalar& number, at::ScalarType dtype) {
  const auto value = number.to<float>();
  const float rounded = dtype == at::kHalf ? static_cast<float>(static_cast<at::Half>(value))
                                           : static_cast<float>(static_cast<at::BFloat16>(value));
  return rounded == value || std::isnan(value);
}

// The dtype of the computation. As on other devices, arithmetic with a number on the host does not round the
// number to float16 or bfloat16.
at::ScalarType converted_dtype(LibraryFunction function, const at::TensorIteratorBase& iter) {
  const at::ScalarType dtype = iter.common_dtype();
  if (compute_dtype(dtype) == dtype || is_comparison(function)) {
    return dtype;
  }
  for (int i = 1; i < iter.ntensors(); ++i) {
    if (!on_device(iter.tensor(i)) && !is_exact(host_number(iter.tensor(i)), dtype)) {
      return compute_dtype(dtype);
    }
  }
  return dtype;
}

bool launch_converted(LibraryFunction function, at::TensorIteratorBase& iter, const at::Scalar& scalar,
                      Order order) {
  const c10::Device device = iter.device(0);
  const at::ScalarType dtype = converted_dtype(function, iter);
  const orFunction_t handle = find_function(function, dtype, device.index());
  if (handle == nullptr) {
    return false;
  }
  const at::Tensor out = iter.tensor(0);
  const at::ScalarType out_dtype = is_comparison(function) ? at::kBool : dtype;
  const at::Tensor computed = out.scalar_type() == out_dtype ? out : at::empty_like(out, out_dtype);
  at::TensorIteratorConfig config;
  // The overlap of the given operands was checked; converted operands are new.
  config.set_check_mem_overlap(false).check_all_same_dtype(false).resize_outputs(false).add_output(computed);
  for (int i = 1; i < iter.ntensors(); ++i) {
    const at::Tensor& operand = iter.tensor(i);
    config.add_owned_const_input(on_device(operand) ? operand.to(dtype)
                                                    : number_on_device(host_number(operand), dtype, device));
  }
  orElementwiseArgs args = elementwise_args(config.build(), scalar);
  if (order == Order::Swapped) {
    swap_inputs(args);
  }
  launch_function(handle, &args, sizeof(args), device.index());
  if (!computed.is_same(out)) {
    out.copy_(computed);
  }
  return true;
}

}  // namespace

bool launch(LibraryFunction function, at::TensorIteratorBase& iter, const at::Scalar& scalar, Order order) {
  const c10::DeviceIndex device = iter.device(0).index();
  const orFunction_t handle = find_function(function, iter.common_dtype(), device);
  if (C10_UNLIKELY(handle == nullptr || !fits_library(iter))) {
    return false;
  }
  if (C10_UNLIKELY(iter.numel() == 0)) {
    return true;
  }
  if (C10_UNLIKELY(!is_ready(function, iter))) {
    return launch_with_number(function, iter, scalar) || launch_converted(function, iter, scalar, order);
  }
  orElementwiseArgs args = elementwise_args(iter, scalar);
  if (order == Order::Swapped) {
    swap_inputs(args);
  }
  launch_function(handle, &args, sizeof(args), device);
  return true;
}

bool launch_fill(const at::Tensor& self, const at::Scalar& value) {
  const orFunction_t handle = find_function(LibraryFunction::fill, self.scalar_type(), self.device().index());
  if (handle == nullptr || value.isComplex()) {
    return false;
  }
  const auto iter = at::TensorIteratorConfig()
                        .set_check_mem_overlap(false)
                        .check_all_same_dtype(false)
                        .resize_outputs(false)
                        .add_output(self)
                        .build();
  if (!fits_library(iter)) {
    return false;
  }
  if (iter.numel() != 0) {
    // A bool is 0 or 1.
    launch_elementwise(handle, iter,
                       self.scalar_type() == at::kBool ? at::Scalar(value.toBool() ? 1 : 0) : value);
  }
  return true;
}

at::Tensor number_on_device(const at::Scalar& number, at::ScalarType dtype, c10::Device device) {
  at::Tensor tensor = allocate_output({}, {}, at::TensorOptions(device).dtype(dtype));
  if (!launch_fill(tensor, number)) {
    tensor.fill_(number);
  }
  return tensor;
}

}  // namespace openreg
