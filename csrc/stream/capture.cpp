#include "stream/capture.h"

#include "common/check.h"
#include "device/device.h"
#include "stream/stream.h"

namespace openreg {

uint64_t capture_of(orStream_t stream) {
  orCaptureStatus status = orCaptureNone;
  uint64_t id = 0;
  OR_CHECK(orStreamIsCapturing(stream, &status, &id));
  return status == orCaptureNone ? 0 : id;
}

bool is_capturing(c10::DeviceIndex device) {
  return capture_of(current_stream_handle(device)) != 0;
}

bool stream_is_capturing(c10::Stream stream) {
  return device_is_open(stream.device_index()) && capture_of(stream_handle(stream)) != 0;
}

void check_uncaptured(c10::DeviceIndex device, const std::string& what) {
  if (C10_UNLIKELY(any_capture())) {
    OR_CHECK(orStreamCheckUncaptured(current_stream_handle(device), what.c_str()));
  }
}

}  // namespace openreg
