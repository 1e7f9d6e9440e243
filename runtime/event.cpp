// The event functions of openreg.h.
#include "runtime.h"
#include "trace.h"
#include "watched_streams.h"

using namespace openreg;

namespace {

orError_t create(EntryPoint entry, orEvent_t* event, unsigned flags) {
  if (!event) return fail(orErrorInvalidValue, "orEventCreate: event is NULL");
  constexpr unsigned kKnown = orEventDisableTiming | orEventInterprocess | orEventExternal;
  if (flags & ~kKnown) {
    return fail(orErrorInvalidValue, "orEventCreateWithFlags: invalid flags 0x%x; supported flags are 0x%x",
                flags, kKnown);
  }
  if ((flags & orEventInterprocess) && !(flags & orEventDisableTiming)) {
    return fail(orErrorInvalidValue,
                "orEventCreateWithFlags: an interprocess event has no timing; add orEventDisableTiming");
  }
  return with_runtime({entry}, [&](Runtime& runtime) -> orError_t {
    if ((flags & orEventInterprocess) && !runtime.has_capability(OR_CAP_IPC)) {
      return fail(orErrorNotSupported, "the driver '%s' cannot share events between processes",
                  runtime.driver().name);
    }
    int device;
    OR_RETURN_IF_ERROR(runtime.current_device(device));
    uint64_t handle;
    OR_RETURN_IF_ERROR(runtime.create_event(device, flags, handle));
    *event = as_event(handle);
    return orSuccess;
  });
}

}  // namespace

extern "C" {

orError_t orEventCreate(orEvent_t* event) {
  return create(EntryPoint::orEventCreate, event, orEventDefault);
}

orError_t orEventCreateWithFlags(orEvent_t* event, unsigned flags) {
  return create(EntryPoint::orEventCreateWithFlags, event, flags);
}

orError_t orEventDestroy(orEvent_t event) {
  if (WatchedStreams::on()) [[unlikely]]
    WatchedStreams::instance().forget(event);
  return with_runtime({EntryPoint::orEventDestroy, event},
                      [&](Runtime& runtime) { return runtime.destroy_event(event); });
}

orError_t orEventRecord(orEvent_t event, orStream_t stream) {
  return with_runtime({EntryPoint::orEventRecord, stream}, [&](Runtime& runtime) -> orError_t {
    EventPin event_pin;
    StreamPin stream_pin;
    OR_RETURN_IF_ERROR(runtime.pin_event(event, event_pin));
    OR_RETURN_IF_ERROR(runtime.pin_stream(stream, stream_pin));
    if (event_pin->device != stream_pin->device) {
      return fail(orErrorInvalidValue,
                  "the event belongs to device %d and the stream to device %d; record it on a stream of the "
                  "event's device and make the other stream wait for the event",
                  event_pin->device, stream_pin->device);
    }
    if (WatchedStreams::on()) [[unlikely]] {
      WatchedStreams::instance().forget(event);
      if (!runtime.captured(*stream_pin)) WatchedStreams::instance().recorded(event, *stream_pin);
    }
    return from_driver(runtime.driver().event_record(event_pin->driver, stream_pin->driver));
  });
}

orError_t orEventGetDevice(orEvent_t event, int* device) {
  if (!device) return fail(orErrorInvalidValue, "orEventGetDevice: device is NULL");
  return with_runtime({EntryPoint::orEventGetDevice, event}, [&](Runtime& runtime) -> orError_t {
    EventPin pin;
    OR_RETURN_IF_ERROR(runtime.pin_event(event, pin));
    *device = pin->device;
    return orSuccess;
  });
}

orError_t orEventQuery(orEvent_t event) {
  return with_runtime({EntryPoint::orEventQuery, event}, [&](Runtime& runtime) -> orError_t {
    EventPin pin;
    OR_RETURN_IF_ERROR(runtime.pin_event(event, pin));
    return from_driver(runtime.driver().event_query(pin->driver));
  });
}

orError_t orEventSynchronize(orEvent_t event) {
  return with_runtime({EntryPoint::orEventSynchronize, event}, [&](Runtime& runtime) -> orError_t {
    EventPin pin;
    OR_RETURN_IF_ERROR(runtime.pin_event(event, pin));
    SynchronizeTrace trace("orEventSynchronize", "event synchronize", pin->device, 0);
    return trace.finish(from_driver(runtime.driver().event_synchronize(pin->driver)));
  });
}

orError_t orEventElapsedTime(float* milliseconds, orEvent_t start, orEvent_t end) {
  if (!milliseconds) return fail(orErrorInvalidValue, "orEventElapsedTime: milliseconds is NULL");
  return with_runtime({EntryPoint::orEventElapsedTime, start}, [&](Runtime& runtime) -> orError_t {
    EventPin start_pin;
    EventPin end_pin;
    OR_RETURN_IF_ERROR(runtime.pin_event(start, start_pin));
    OR_RETURN_IF_ERROR(runtime.pin_event(end, end_pin));
    if (!runtime.has_capability(OR_CAP_TIMING)) {
      return fail(orErrorNotSupported, "the driver '%s' does not support events with timing",
                  runtime.driver().name);
    }
    if ((start_pin->flags | end_pin->flags) & orEventDisableTiming) {
      return fail(orErrorInvalidValue, "the %s event was created without timing; create it with flags 0",
                  start_pin->flags & orEventDisableTiming ? "start" : "end");
    }
    if (start_pin->device != end_pin->device) {
      return fail(
          orErrorInvalidHandle,
          "the events belong to device %d and device %d, whose clocks differ; measure between events of "
          "one device",
          start_pin->device, end_pin->device);
    }
    return from_driver(runtime.driver().event_elapsed(start_pin->driver, end_pin->driver, milliseconds));
  });
}

}  // extern "C"
