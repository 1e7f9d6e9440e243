#include "operators/required/host_staging.h"

#include "common/check.h"
#include "device/device.h"
#include "stream/stream.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty_strided.h>

namespace openreg {
namespace {

size_t span_of(const at::Tensor& tensor) {
  return tensor.numel() == 0
             ? 0
             : at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.element_size());
}

at::Tensor host_like(const at::Tensor& device_tensor) {
  at::Tensor host = at::empty_strided(device_tensor.sizes(), device_tensor.strides(),
                                      device_tensor.options().device(at::kCPU));
  host._set_conj(device_tensor.is_conj());
  host._set_neg(device_tensor.is_neg());
  return host;
}

void copy_span(void* dst, const void* src, size_t bytes, orMemcpyKind kind, c10::DeviceIndex device) {
  if (bytes == 0) {
    return;
  }
  const c10::Stream stream = current_stream(device);
  OR_CHECK(orMemcpyAsync(dst, src, bytes, kind, stream_handle(stream)));
  synchronize_stream(stream);
}

}  // namespace

at::Tensor read_to_host(const at::Tensor& device_tensor) {
  at::Tensor host = host_like(device_tensor);
  copy_span(host.mutable_data_ptr(), device_tensor.const_data_ptr(), span_of(device_tensor),
            orMemcpyDeviceToHost, device_tensor.device().index());
  return host;
}

void write_from_host(const at::Tensor& dst, const at::Tensor& value) {
  at::Tensor host = dst.is_non_overlapping_and_dense() ? host_like(dst) : read_to_host(dst);
  host.copy_(value);
  copy_span(dst.mutable_data_ptr(), host.const_data_ptr(), span_of(dst), orMemcpyHostToDevice,
            dst.device().index());
}

}  // namespace openreg
