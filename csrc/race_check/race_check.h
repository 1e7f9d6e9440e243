// Finds accesses to the same memory that nothing orders: a missing wait_stream, record_stream or synchronize.
//
// Note [Race check]
// The check looks at the order that a program establishes, not at the time at which work runs. Each stream
// has a vector clock. A launch takes the clock of its stream and declares the memory that it reads and writes
// (diagnostics/tensor_access.h); an access that does not follow the latest ones to the same bytes is a race.
// Events carry clocks from stream to stream. Synchronizations carry them to the host, and launches from the
// host to a stream. So a race is found in every schedule, also if the accesses happened to be far apart.
// Synchronizations that a chip would not make do not count: those of the host engine, and of the blocking
// schedule.
//
// All host threads share one clock: the check does not see the locks by which they order themselves, and
// assumes that they do. A host access therefore leaves no record: later launches follow it.
//
// A capture has clocks and shadow memory of its own. Its accesses are stored, and a replay makes all of them.
//
// Thread safety: every function may be called from any thread. They do nothing while the check is off;
// callers test on() first, which costs one relaxed load. They take no other lock of this library and do not
// throw.
#pragma once

#include "common/call_site.h"
#include "common/export.h"
#include "race_check/access.h"
#include "race_check/race.h"

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

namespace openreg::races {

inline std::atomic<bool> enabled{false};

inline bool on() {
  return enabled.load(std::memory_order_relaxed);
}

/// Starts and stops the check; calls are counted. The first start forgets everything.
OPENREG_EXPORT void start();
OPENREG_EXPORT void stop();
/// The races since process start.
OPENREG_EXPORT RaceLog& log();

// ---- Order. `capture` is the ID of the capture of the stream; 0: none.

struct Stream {
  int device;
  int64_t id;          // as in c10::Stream; an external stream may have another ID for the same handle
  const void* handle;  // of the runtime
  uint64_t capture = 0;
};

void record_event(const void* event, Stream stream);
/// `stream.capture` is that after the wait: the stream may have joined a capture by it.
void wait_event(Stream stream, const void* event);
void destroy_event(const void* event);
/// Each replay of a graph in which the event is recorded records it (orEventExternal). Also if the check is
/// off.
void note_external_event(const void* event);
/// The host has waited for the event, the stream or the device.
void host_waited_for_event(const void* event);
void host_waited_for_stream(Stream stream);
void host_waited_for_device(int device);
/// Whether the host has waited for all work of the stream.
bool host_follows_stream(Stream stream);

// ---- Memory

void allocated(const void* ptr, size_t bytes, Stream stream, CallSite site);
/// `recorded`: the streams of record_stream. The allocator waits for them before it reuses the memory.
void freed(const void* ptr, size_t bytes, std::span<const Stream> recorded);
/// A launch on the stream keeps the memory until it has run. So its free follows the work of the stream.
void kept(const void* ptr, size_t bytes, Stream stream);
/// The memory was returned to the system, or is no longer in use.
void forget(const void* ptr, size_t bytes);
/// The memory was received from another process. The stream has waited for the sender.
void received(const void* ptr, size_t bytes, Stream stream, CallSite site);

// ---- Accesses

/// A launch, to which accesses can be added.
struct Launch {
  Stream stream{};
  uint64_t number = 0;
  const char* op = "";  // lives as long as the process
  CallSite site = 0;
};

/// The next launch of the stream.
Launch launch(Stream stream, const char* op, CallSite site);
void access(const Launch& launch, std::span<const Access> accesses);
/// An access of the calling thread to pinned memory. `op` may be a temporary.
OPENREG_EXPORT void host_access(const Access& access, const char* op, CallSite site);
/// Whether such an access would follow the accesses of streams to the same bytes.
bool host_follows_access(const Access& access);
/// Whether a stream has accessed pinned memory, so that host accesses have to be checked.
bool any_pinned();
void note_pinned();

// ---- Graphs. A graph is identified by the ID of its capture.

/// All accesses of the graph, by one launch on the stream. Launches of one graph are ordered.
void replay(uint64_t capture, Stream stream, CallSite site);
void capture_ended(uint64_t capture);
void graph_destroyed(uint64_t capture);

}  // namespace openreg::races
