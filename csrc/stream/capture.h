// Whether a stream is being captured into a graph.
//
// Every launch checks this, so the check costs one relaxed load while nothing is captured. Only captures that
// a Graph (graph.h) has begun are counted. Thread safety: all functions may be called from any thread.
#pragma once

#include "common/export.h"

#include <c10/core/Stream.h>
#include <openreg/openreg.h>

#include <atomic>
#include <string>

namespace openreg {

/// The number of captures in progress in the process.
inline std::atomic<int> active_captures{0};

inline bool any_capture() {
  return active_captures.load(std::memory_order_relaxed) != 0;
}

/// The id of the stream's capture; 0 if there is none. Ids are not reused.
uint64_t capture_of(orStream_t stream);

/// Whether the device's current stream is captured.
bool is_capturing(c10::DeviceIndex device);

inline bool capturing(c10::DeviceIndex device) {
  return C10_UNLIKELY(any_capture()) && is_capturing(device);
}

/// As torch.Stream.is_capturing. Does not open the device.
OPENREG_EXPORT bool stream_is_capturing(c10::Stream stream);

/// Throws and invalidates the capture if the device's current stream is captured. `what` is the subject of a
/// sentence that continues with "is not possible while ...".
void check_uncaptured(c10::DeviceIndex device, const std::string& what);

}  // namespace openreg
