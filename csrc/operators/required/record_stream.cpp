// record_stream: the allocator does not reuse the memory before the recorded stream has passed the free.
#include "device/device.h"
#include "memory/device_allocator.h"

#include <ATen/core/Tensor.h>
#include <torch/library.h>

namespace openreg {
namespace {

void record_stream(at::Tensor& self, c10::Stream stream) {
  TORCH_CHECK_VALUE(stream.device_type() == kDevice, "record_stream: expected a stream of a ",
                    orGetDeviceName(), " device for a tensor on ", self.device(), ", but got a stream of ",
                    stream.device());
  device_allocator().recordStream(self.storage().data_ptr(), stream);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("record_stream", record_stream);
}

}  // namespace
}  // namespace openreg
