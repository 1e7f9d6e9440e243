// Events as torch knows them: a void* that the first record fills in.
//
// Made on the device of the stream that records first, and bound to it. All functions may be called from any
// thread.
#pragma once

#include "common/export.h"

#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

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

void synchronize_event(void* event);

/// Milliseconds between the two records. Throws ValueError if one has no timing or no record,
/// AcceleratorError if one is not finished.
OPENREG_EXPORT double elapsed_time(void* start, void* end);

void destroy_event(void* event) noexcept;

}  // namespace openreg
