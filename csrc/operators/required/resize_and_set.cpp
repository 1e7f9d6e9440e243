// resize_ and set_: change the sizes or the storage of a tensor.
#include "device/device.h"
#include "memory/device_allocator.h"
#include "storage/device_storage.h"
#include "storage/resize.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/native/ResizeCommon.h>
#include <ATen/ops/set_native.h>
#include <torch/library.h>

namespace openreg {
namespace {

// Sets sizes and strides (contiguous by default) and grows the storage if necessary.
void set_sizes(c10::TensorImpl* self, at::IntArrayRef size, at::OptionalIntArrayRef stride) {
  if (self->sizes() == size && (!stride.has_value() || self->strides() == *stride)) {
    return;
  }
  // Grows the storage first: if that throws, the tensor is unchanged and stays within its memory.
  const size_t itemsize = self->dtype().itemsize();
  const size_t offset = self->storage_offset();
  at::detail::check_size_nonnegative(size);
  const size_t bytes = stride.has_value()
                           ? at::detail::computeStorageNbytes(size, *stride, itemsize, offset)
                           : at::detail::computeStorageNbytesContiguous(size, itemsize, offset);
  c10::StorageImpl* storage = self->unsafe_storage().unsafeGetStorageImpl();
  if (c10::multiply_integers(size) > 0 && bytes > storage->nbytes()) {
    resize_storage(storage, bytes);
  }
  if (stride.has_value()) {
    self->set_sizes_and_strides(size, *stride);
  } else {
    self->generic_set_sizes_contiguous(size);
  }
}

const at::Tensor& resize_(const at::Tensor& self, at::IntArrayRef size,
                          std::optional<at::MemoryFormat> format) {
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  const auto bytes_before = static_cast<int64_t>(self.storage().nbytes());
  DeviceScope scope(self.device().index());
  set_sizes(impl, size, std::nullopt);
  if (format.has_value()) {
    TORCH_CHECK(*format != at::MemoryFormat::Preserve, "Unsupported memory format ", *format);
    impl->empty_tensor_restride(*format);
  }
  if (C10_UNLIKELY(at::globalContext().deterministicAlgorithms() &&
                   at::globalContext().deterministicFillUninitializedMemory())) {
    at::native::fill_resize_deterministic_(self, bytes_before);
  }
  return self;
}

at::Tensor& set_storage_offset(at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef size,
                               at::IntArrayRef stride) {
  at::native::checkSetStorage(self, std::move(source), offset, size, stride);
  self.unsafeGetTensorImpl()->set_storage_offset(offset);
  set_sizes(self.unsafeGetTensorImpl(), size,
            stride.data() != nullptr ? at::OptionalIntArrayRef(stride) : std::nullopt);
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source) {
  const auto length = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return set_storage_offset(self, std::move(source), 0, {length}, {});
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  return at::native::set_tensor_(self, source);
}

at::Tensor& set_empty(at::Tensor& self) {
  DeviceScope scope(self.device().index());
  return set_storage_offset(self, make_storage(device_allocator().allocate(0), 0), 0, {0}, {});
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("resize_", resize_);
  m.impl("set_", set_empty);
  m.impl("set_.source_Storage", set_storage);
  m.impl("set_.source_Storage_storage_offset", set_storage_offset);
  m.impl("set_.source_Tensor", set_tensor);
}

}  // namespace
}  // namespace openreg
