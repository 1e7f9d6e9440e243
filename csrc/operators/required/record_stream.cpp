// record_stream: memory that another stream uses is not reused before that stream has passed the free.
#include "device/device.h"
#include "memory/device_allocator.h"

#include <ATen/core/Tensor.h>
#include <torch/library.h>

namespace openreg {
namespace {

void record_stream(at::Tensor& self, c10::Stream stream) {
  TORCH_CHECK_VALUE(stream.device_type() == kDevice, "record_stream of a tensor on ", self.device(),
                    " wants a stream of that kind of device, not of ", stream.device());
  device_allocator().recordStream(self.storage().data_ptr(), stream);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("record_stream", record_stream);
}

}  // namespace
}  // namespace openreg
