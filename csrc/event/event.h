// Events as torch knows them: a void* that the first record fills in.
//
// Made on the device of the stream that records first, and bound to it. All functions may be called from any
// thread.
#pragma once

#include "common/export.h"

#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <string>

namespace openreg {

/// Records on `stream`; makes the event if *event is NULL. Throws if the event belongs to another device.
void record_event(void** event, c10::Stream stream, c10::DeviceIndex event_device, c10::EventFlag flag);

/// As record_event for an event without timing; false if the runtime refuses, for instance a destroyed
/// stream.
bool try_record_event(void** event, c10::Stream stream) noexcept;

/// Later work of `stream` waits for the event's latest record as of now. An event never recorded is no wait.
void block_on_event(void* event, c10::Stream stream);

/// True if the latest record is finished or there is none.
bool query_event(void* event);

/// As query_event; an event that cannot be asked, for instance in a forked child, is nothing to wait for.
bool has_passed(void* event) noexcept;

void synchronize_event(void* event);

/// Milliseconds between the two records. Throws ValueError if one has no timing or no record,
/// AcceleratorError if one is not finished.
OPENREG_EXPORT double elapsed_time(void* start, void* end);

void destroy_event(void* event) noexcept;

// ---- Between processes: an event that is made before it is recorded.

/// An event of the device that other processes can open.
OPENREG_EXPORT void* make_interprocess_event(c10::DeviceIndex device);

/// The bytes by which another process opens it.
OPENREG_EXPORT std::string event_ipc_handle(void* event);

/// An event that another process has made. Throws if it is not of `device`.
OPENREG_EXPORT void* open_event(const std::string& handle, c10::DeviceIndex device);

/// A c10::Event can only get its event from its first record. While this lives, the first record of an event
/// on this thread takes the given one, and records nothing.
class OPENREG_EXPORT AdoptionScope {
 public:
  explicit AdoptionScope(void* event);
  /// Destroys the event if nobody took it.
  ~AdoptionScope();
  AdoptionScope(const AdoptionScope&) = delete;
  AdoptionScope& operator=(const AdoptionScope&) = delete;
};

}  // namespace openreg
