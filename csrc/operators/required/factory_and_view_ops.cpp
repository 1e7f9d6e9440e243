// Required operators of every device: factories and views. They launch nothing, unless uninitialized memory
// has to be filled.
#include "device/device.h"
#include "memory/device_allocator.h"
#include "operators/required/outputs.h"
#include "storage/device_storage.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/TensorOptions.h>
#include <torch/library.h>

namespace openreg {
namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

void check_options(std::optional<c10::Layout> layout, std::optional<bool> pin_memory) {
  TORCH_CHECK(c10::layout_or_default(layout) == c10::kStrided, "expected a strided layout, got ",
              c10::layout_or_default(layout));
  TORCH_CHECK(!c10::pinned_memory_or_default(pin_memory), "Only dense CPU tensors can be pinned");
}

c10::DeviceIndex device_for(std::optional<c10::Device> device) {
  return device.has_value() && device->has_index() ? device->index() : current_device();
}

// As at::detail::empty_generic, but with a DeviceStorage.
at::Tensor make_tensor(size_t bytes, caffe2::TypeMeta type) {
  if (C10_UNLIKELY(type == caffe2::TypeMeta::Make<c10::complex<at::Half>>())) {
    at::detail::empty_cpu({0}, at::kComplexHalf);  // gives the warning that ComplexHalf is experimental
  }
  return at::detail::make_tensor<c10::TensorImpl>(make_storage(device_allocator().allocate(bytes), bytes),
                                                  kKeys, type);
}

// With torch.use_deterministic_algorithms and torch.utils.deterministic.fill_uninitialized_memory: fills with
// NaN or the largest integer. The fill is a launch on the current stream.
void fill_if_deterministic(at::Tensor& tensor) {
  const at::Context& context = at::globalContext();
  if (C10_UNLIKELY(context.deterministicAlgorithms()) && context.deterministicFillUninitializedMemory()) {
    at::native::fill_empty_deterministic_(tensor);
  }
}

at::Tensor make_contiguous(at::IntArrayRef size, caffe2::TypeMeta type,
                           std::optional<at::MemoryFormat> format) {
  at::detail::check_size_nonnegative(size);
  at::Tensor result = make_tensor(at::detail::computeStorageNbytesContiguous(size, type.itemsize()), type);
  if (size.size() != 1 || size[0] != 0) {  // {0} is the size of a new tensor
    result.unsafeGetTensorImpl()->generic_set_sizes_contiguous(size);
  }
  if (format.value_or(at::MemoryFormat::Contiguous) != at::MemoryFormat::Contiguous) {
    result.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  }
  fill_if_deterministic(result);
  return result;
}

at::Tensor make_strided(at::IntArrayRef size, at::IntArrayRef stride, caffe2::TypeMeta type) {
  at::detail::check_size_nonnegative(size);
  at::Tensor result = make_tensor(at::detail::computeStorageNbytes(size, stride, type.itemsize()), type);
  result.unsafeGetTensorImpl()->set_sizes_and_strides(size, stride);
  fill_if_deterministic(result);
  return result;
}

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<c10::Layout> layout,
                 std::optional<c10::Device> device, std::optional<bool> pin_memory,
                 std::optional<at::MemoryFormat> format) {
  check_options(layout, pin_memory);
  DeviceScope scope(device_for(device));
  return make_contiguous(size, c10::scalarTypeToTypeMeta(c10::dtype_or_default(dtype)), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                         std::optional<bool> pin_memory) {
  check_options(layout, pin_memory);
  DeviceScope scope(device_for(device));
  return make_strided(size, stride, c10::scalarTypeToTypeMeta(c10::dtype_or_default(dtype)));
}

at::Tensor as_strided(const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef stride,
                      std::optional<int64_t> offset) {
  return at::native::as_strided_tensorimpl(self, size, stride, offset);
}

at::Tensor view(const at::Tensor& self, at::IntArrayRef size) {
  return at::native::view(self, size);
}

at::Tensor reshape_alias(const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef stride) {
  return at::native::_reshape_alias(self, size, stride);
}

at::Tensor unfold(const at::Tensor& self, int64_t dim, int64_t size, int64_t step) {
  return at::native::unfold(self, dim, size, step);
}

at::Tensor view_as_real(const at::Tensor& self) {
  return at::native::view_as_real(self);
}

at::Tensor view_as_complex(const at::Tensor& self) {
  return at::native::view_as_complex(self);
}

// Every view operator that is not composite: a fallback would return a copy instead of a view.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("as_strided", as_strided);
  m.impl("view", view);
  m.impl("_reshape_alias", reshape_alias);
  m.impl("unfold", unfold);
  m.impl("view_as_real", view_as_real);
  m.impl("view_as_complex", view_as_complex);
}

}  // namespace

at::Tensor allocate_output(at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) {
  DeviceScope scope(device_for(options.device()));
  return strides.empty() ? make_contiguous(sizes, options.dtype(), options.memory_format_opt())
                         : make_strided(sizes, strides, options.dtype());
}

void resize_given_output(const at::Tensor& out, at::IntArrayRef sizes, at::IntArrayRef strides,
                         const at::TensorOptions& options) {
  TORCH_CHECK(options.dtype() == out.dtype(), "Expected out tensor to have dtype ", options.dtype(),
              ", but got ", out.dtype(), " instead");
  TORCH_CHECK(options.device() == out.device(), "Expected out tensor to have device ", options.device(),
              ", but got ", out.device(), " instead");
  if (at::native::resize_output(out, sizes)) {  // strides of a tensor with these sizes are kept
    if (!strides.empty()) {
      out.as_strided_(sizes, strides);
    } else if (options.memory_format_opt().has_value()) {
      out.unsafeGetTensorImpl()->empty_tensor_restride(*options.memory_format_opt());
    }
  }
}

void check_in_place(const at::Tensor& self, at::IntArrayRef sizes, const at::TensorOptions& options) {
  TORCH_CHECK(options.dtype() == self.dtype(), "Bad in-place call: input tensor dtype ", self.dtype(),
              " and output tensor dtype ", options.dtype(), " should match");
  TORCH_CHECK(options.device() == self.device(), "Bad in-place call: input tensor device ", self.device(),
              " and output tensor device ", options.device(), " should match");
  TORCH_CHECK(sizes == self.sizes(), "Bad in-place call: input tensor size ", self.sizes(),
              " and output tensor size ", sizes, " should match");
}

}  // namespace openreg
