// Streams as torch knows them: a c10::Stream is a device and a number.
//
// Note [Stream numbers]
// Number 0 is the device's default stream. Numbers 1 to 32 are the ordinary pool, and each further 32 a pool
// of more urgent streams, one for each priority down to -3. Streams of a pool are handed out in turn and live
// as long as the process, so a c10::Stream never dangles. The runtime's stream behind a number is made when
// the number is first used. A stream that somebody else made (a native handle) has its handle as number,
// which is larger than any of these.
//
// The current stream is a thread's own, one for each device. All functions may be called from any thread.
#pragma once

#include "common/export.h"

#include <c10/core/Stream.h>
#include <openreg/openreg.h>

namespace openreg {

inline constexpr int kStreamsPerPool = 32;
inline constexpr int kPools = 4;  // one for each priority: 0, -1, -2, -3

OPENREG_EXPORT c10::Stream default_stream(c10::DeviceIndex device);
OPENREG_EXPORT c10::Stream current_stream(c10::DeviceIndex device);

/// Makes the stream its device's current one on this thread; the current device stays. Returns the one
/// before.
OPENREG_EXPORT c10::Stream exchange_stream(c10::Stream stream);

/// The next stream of the pool for that priority, which is clamped: a smaller number is more urgent.
OPENREG_EXPORT c10::Stream stream_from_pool(c10::DeviceIndex device, int priority = 0);

/// The runtime's stream behind it. Throws for a number that no stream has.
OPENREG_EXPORT orStream_t stream_handle(c10::Stream stream);

/// A stream for torch of one that somebody else made with orStreamCreate. It is not owned.
OPENREG_EXPORT c10::Stream external_stream(orStream_t handle);

OPENREG_EXPORT bool query_stream(c10::Stream stream);
OPENREG_EXPORT void synchronize_stream(c10::Stream stream);
OPENREG_EXPORT int stream_priority(c10::Stream stream);

/// Launches a kernel that occupies the stream for this many cycles of a clock of 1 GHz. Returns at once.
OPENREG_EXPORT void sleep_on_stream(c10::Stream stream, int64_t cycles);

/// The number of the stream that the runtime calls `id` (orStreamGetId); -1 if it is none of ours.
c10::StreamId number_of_stream(c10::DeviceIndex device, uint64_t id);

/// The runtime's current stream of a device; for launches.
orStream_t current_stream_handle(c10::DeviceIndex device);

}  // namespace openreg
