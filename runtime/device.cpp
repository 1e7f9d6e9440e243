// The device functions of openreg.h.
#include "runtime.h"
#include "trace.h"

#include <algorithm>
#include <cstring>

using namespace openreg;

extern "C" {

orError_t orGetDeviceCount(int* count) {
  if (!count) return fail(orErrorInvalidValue, "orGetDeviceCount: count is NULL");
  return with_runtime({EntryPoint::orGetDeviceCount}, [&](Runtime& runtime) {
    *count = runtime.device_count();
    return orSuccess;
  });
}

orError_t orGetDevice(int* device) {
  if (!device) return fail(orErrorInvalidValue, "orGetDevice: device is NULL");
  return with_runtime({EntryPoint::orGetDevice}, [&](Runtime&) {
    *device = thread_device();
    return orSuccess;
  });
}

orError_t orSetDevice(int device) {
  return with_runtime({EntryPoint::orSetDevice, device}, [&](Runtime& runtime) -> orError_t {
    OR_RETURN_IF_ERROR(runtime.check_device(device));
    thread_device() = device;
    return orSuccess;
  });
}

orError_t orGetDeviceProperties(orDeviceProperties* properties, int device) {
  if (!properties) return fail(orErrorInvalidValue, "orGetDeviceProperties: properties is NULL");
  return with_runtime({EntryPoint::orGetDeviceProperties, device}, [&](Runtime& runtime) -> orError_t {
    OR_RETURN_IF_ERROR(runtime.check_device(device));
    const uint32_t size = properties->struct_size;
    OR_RETURN_IF_ERROR(
        check_struct_size("orGetDeviceProperties", "orDeviceProperties", size, sizeof(orDeviceProperties)));
    std::memcpy(properties, &runtime.device(device).properties, sizeof(orDeviceProperties));
    properties->struct_size = size;
    return orSuccess;
  });
}

orError_t orDeviceIsOpen(int* open, int device) {
  if (!open) return fail(orErrorInvalidValue, "orDeviceIsOpen: open is NULL");
  return with_runtime({EntryPoint::orDeviceIsOpen, device}, [&](Runtime& runtime) -> orError_t {
    OR_RETURN_IF_ERROR(runtime.check_device(device));
    *open = runtime.is_open(device) ? 1 : 0;
    return orSuccess;
  });
}

orError_t orDeviceSynchronize(void) {
  return with_runtime({EntryPoint::orDeviceSynchronize}, [&](Runtime& runtime) -> orError_t {
    int device;
    OR_RETURN_IF_ERROR(runtime.current_device(device));
    if (!runtime.is_open(device)) return orSuccess;
    SynchronizeTrace trace("orDeviceSynchronize", "device synchronize", device, 0);
    return trace.finish(from_driver(runtime.driver().device_synchronize(device)));
  });
}

orError_t orDeviceReset(void) {
  return with_runtime({EntryPoint::orDeviceReset}, [&](Runtime& runtime) -> orError_t {
    int device;
    OR_RETURN_IF_ERROR(runtime.current_device(device));
    return runtime.reset(device);
  });
}

orError_t orGetKernelViewOffset(ptrdiff_t* offset, int device) {
  if (!offset) return fail(orErrorInvalidValue, "orGetKernelViewOffset: offset is NULL");
  return with_runtime({EntryPoint::orGetKernelViewOffset, device}, [&](Runtime& runtime) -> orError_t {
    OR_RETURN_IF_ERROR(runtime.check_device(device));
    if (!runtime.has_capability(OR_CAP_HOST_EXECUTABLE) || !runtime.driver().kernel_view_offset) {
      return fail(orErrorNotSupported, "the driver '%s' cannot run host code: its memory has no kernel view",
                  runtime.driver().name);
    }
    std::shared_lock<std::shared_mutex> open;
    OR_RETURN_IF_ERROR(runtime.hold_open(device, open));
    return from_driver(runtime.driver().kernel_view_offset(device, offset));
  });
}

orError_t orSetSchedule(orSchedule schedule, uint64_t seed) {
  if (schedule != orScheduleAsync && schedule != orScheduleBlocking && schedule != orScheduleAdversarial) {
    return fail(orErrorInvalidValue,
                "orSetSchedule: invalid schedule %d; use 0 (async), 1 (blocking) or 2 (adversarial)",
                static_cast<int>(schedule));
  }
  return with_runtime({EntryPoint::orSetSchedule},
                      [&](Runtime& runtime) { return runtime.set_schedule(schedule, seed); });
}

orError_t orGetSchedule(orSchedule* schedule, uint64_t* seed) {
  if (!schedule || !seed) {
    return fail(orErrorInvalidValue, "orGetSchedule: %s is NULL", schedule ? "seed" : "schedule");
  }
  return with_runtime({EntryPoint::orGetSchedule}, [&](Runtime& runtime) {
    runtime.schedule(*schedule, *seed);
    return orSuccess;
  });
}

}  // extern "C"
