// Events for torch: a void* that the first record fills in.
//
// An event is created on the device of the stream that records it first, and stays bound to that device.
// Thread safety: all functions may be called from any thread.
#pragma once

#include "common/export.h"

#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <string>

namespace openreg {

/// Records on `stream`; creates the event if *event is NULL. Throws if the event belongs to another device.
void record_event(void** event, c10::Stream stream, c10::DeviceIndex event_device, c10::EventFlag flag);

/// As record_event for an event without timing; returns false if the runtime returns an error, for instance
/// for a destroyed stream.
bool try_record_event(void** event, c10::Stream stream) noexcept;

/// Work enqueued on `stream` from now on waits for the event's latest record. No effect if the event was
/// never recorded.
void block_on_event(void* event, c10::Stream stream);

/// Whether the latest record has completed, or there is none. Throws if a kernel before the record has
/// failed, once, as synchronize_event.
bool query_event(void* event);

/// As query_event, but returns true for an event that no longer exists, for instance in a forked child, and
/// false if the query fails: the memory that the event guards may still be in use.
bool is_complete(void* event) noexcept;

/// Whether the event was recorded in the capture of `stream`, and all work before it precedes the next work
/// of the stream.
bool follows_event(c10::Stream stream, void* event) noexcept;

void synchronize_event(void* event);

/// Milliseconds between the two records. Throws ValueError if an event has no timing or no record,
/// AcceleratorError if an event has not completed.
OPENREG_EXPORT double elapsed_time(void* start, void* end);

void destroy_event(void* event) noexcept;

// ---- Interprocess and external events: created before the first record.

/// Creates an event of the device. `flags`: orEventFlags of the runtime, or'ed.
OPENREG_EXPORT void* make_event(c10::DeviceIndex device, unsigned flags);

/// The IPC handle of the event, as bytes.
OPENREG_EXPORT std::string event_ipc_handle(void* event);

/// Opens an event of another process by its IPC handle. Throws if the event does not belong to `device`.
OPENREG_EXPORT void* open_event(const std::string& handle, c10::DeviceIndex device);

/// A c10::Event gets its runtime event only from its first record. During this scope, the first record of an
/// event on this thread takes the given runtime event and records nothing.
class OPENREG_EXPORT EventImportScope {
 public:
  explicit EventImportScope(void* event);
  /// Destroys the event if no record took it.
  ~EventImportScope();
  EventImportScope(const EventImportScope&) = delete;
  EventImportScope& operator=(const EventImportScope&) = delete;
};

}  // namespace openreg
