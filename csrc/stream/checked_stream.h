// Streams and copies as the race check sees them. Callers test races::on() first.
#pragma once

#include "race_check/race_check.h"
#include "stream/capture.h"
#include "stream/stream.h"

namespace openreg {

/// The stream with its capture. Does not throw; a destroyed stream has no capture.
inline races::Stream checked_stream(c10::Stream stream) noexcept {
  const orStream_t handle = stream_handle(stream);
  orCaptureStatus status = orCaptureNone;
  uint64_t id = 0;
  if (C10_UNLIKELY(any_capture()) &&
      (orStreamIsCapturing(handle, &status, &id) != orSuccess || status == orCaptureNone)) {
    id = 0;
  }
  return {stream.device_index(), stream.id(), handle, id};
}

/// Declares a copy of bytes between two tensors of the device, on the stream.
inline void declare_copy(const void* dst, const void* src, size_t bytes, c10::Stream stream, const char* op) {
  const auto range = [&](const void* ptr, bool write) {
    const auto begin = reinterpret_cast<uintptr_t>(ptr);
    return races::Access{begin, begin + bytes, begin, begin + bytes, write, nullptr};
  };
  const races::Access accesses[] = {range(src, false), range(dst, true)};
  races::access(races::launch(checked_stream(stream), op, call_site()), accesses);
}

}  // namespace openreg
