// Whether what a stream is given runs, or is captured into a graph.
//
// Every launch asks, so the answer costs one relaxed load while nothing is captured. Only captures that a
// Graph (graph.h) has begun are counted. All functions may be called from any thread.
#pragma once

#include "common/export.h"

#include <c10/core/Stream.h>
#include <openreg/openreg.h>

#include <atomic>
#include <string>

namespace openreg {

/// How many captures have begun and not ended, in the whole process.
inline std::atomic<int> captures_underway{0};

inline bool capture_underway() {
  return captures_underway.load(std::memory_order_relaxed) != 0;
}

/// The capture that the stream takes part in; 0 if there is none. Numbers are never used again.
uint64_t capture_of(orStream_t stream);

/// Whether the device's current stream is captured.
bool is_capturing(c10::DeviceIndex device);

inline bool capturing(c10::DeviceIndex device) {
  return C10_UNLIKELY(capture_underway()) && is_capturing(device);
}

/// As torch.Stream.is_capturing. Does not open the device.
OPENREG_EXPORT bool stream_is_capturing(c10::Stream stream);

/// Throws if the device's current stream is captured, and the capture is invalid from then on. `what` begins
/// a sentence that ends with "is not possible while ...".
void check_uncaptured(c10::DeviceIndex device, const std::string& what);

}  // namespace openreg
