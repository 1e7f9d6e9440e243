// Streams for torch: a c10::Stream is a device and a stream number (its id).
//
// Note [Stream numbers]
// Number 0 is the device's default stream. Numbers 1 to 32 are the pool of priority 0, and each further 32
// numbers the pool of the next higher priority, down to -3. Streams of a pool are assigned round-robin and
// live as long as the process, so a c10::Stream never dangles. The runtime's stream of a number is created on
// first use. An external stream (a native handle from other code) has its handle as number, which is larger
// than any of these.
//
// The current stream is per thread and per device. Thread safety: all functions may be called from any
// thread.
#pragma once

#include "common/export.h"

#include <c10/core/Stream.h>
#include <openreg/openreg.h>

namespace openreg {

inline constexpr int kStreamsPerPool = 32;
inline constexpr int kPools = 4;  // one for each priority: 0, -1, -2, -3

OPENREG_EXPORT c10::Stream default_stream(c10::DeviceIndex device);
OPENREG_EXPORT c10::Stream current_stream(c10::DeviceIndex device);

/// Sets the current stream of the stream's device on this thread; the current device does not change. Returns
/// the previous stream.
OPENREG_EXPORT c10::Stream exchange_stream(c10::Stream stream);

/// The next stream of the pool for that priority, which is clamped. A smaller number is a higher priority.
OPENREG_EXPORT c10::Stream stream_from_pool(c10::DeviceIndex device, int priority = 0);

/// The runtime's handle of the stream. Throws for an invalid number.
OPENREG_EXPORT orStream_t stream_handle(c10::Stream stream);

/// Wraps a stream that other code has created with orStreamCreate. It is not owned.
OPENREG_EXPORT c10::Stream external_stream(orStream_t handle);

/// Whether all work is done. Throws if a kernel has failed, once, as synchronize_stream.
OPENREG_EXPORT bool query_stream(c10::Stream stream);
OPENREG_EXPORT void synchronize_stream(c10::Stream stream);
OPENREG_EXPORT int stream_priority(c10::Stream stream);

/// Launches a kernel that occupies the stream for `cycles` cycles of a 1 GHz clock. Asynchronous.
OPENREG_EXPORT void sleep_on_stream(c10::Stream stream, int64_t cycles);

/// The number of the stream with the runtime's id `id` (orStreamGetId); -1 for external streams.
c10::StreamId number_of_stream(c10::DeviceIndex device, uint64_t id);

/// The runtime's handle of the device's current stream; for launches.
orStream_t current_stream_handle(c10::DeviceIndex device);

}  // namespace openreg
