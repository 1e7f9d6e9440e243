#include "event/event.h"

#include "common/check.h"
#include "common/fork.h"
#include "common/gil_release.h"
#include "device/device.h"
#include "stream/checked_stream.h"
#include "stream/stream.h"

#include <cstring>
#include <utility>

namespace openreg {
namespace {

orEvent_t handle(void* event) {
  return static_cast<orEvent_t>(event);
}

thread_local void* event_to_adopt = nullptr;

unsigned flags_for(c10::EventFlag flag) {
  return flag == c10::EventFlag::BACKEND_DEFAULT ? orEventDefault : orEventDisableTiming;
}

}  // namespace

void record_event(void** event, c10::Stream stream, c10::DeviceIndex event_device, c10::EventFlag flag) {
  TORCH_CHECK(event_device == -1 || event_device == stream.device_index(), "Event device index ",
              static_cast<int>(event_device), " does not match recording stream's device index ",
              static_cast<int>(stream.device_index()), ". Create one event for each device.");
  if (*event == nullptr) {
    if (C10_UNLIKELY(event_to_adopt != nullptr)) {
      *event = std::exchange(event_to_adopt, nullptr);
      return;
    }
    *event = make_event(stream.device_index(), flags_for(flag));
  }
  OR_CHECK(orEventRecord(handle(*event), stream_handle(stream)));
  if (C10_UNLIKELY(races::on())) {
    races::record_event(*event, checked_stream(stream));
  }
}

bool try_record_event(void** event, c10::Stream stream) noexcept {
  try {
    record_event(event, stream, stream.device_index(), c10::EventFlag::PYTORCH_DEFAULT);
    return true;
  } catch (const std::exception&) {
    destroy_event(*event);
    return false;
  }
}

void block_on_event(void* event, c10::Stream stream) {
  if (event != nullptr) {
    OR_CHECK(orStreamWaitEvent(stream_handle(stream), handle(event)));
    if (C10_UNLIKELY(races::on())) {
      races::wait_event(checked_stream(stream), event);
    }
  }
}

bool query_event(void* event) {
  if (event == nullptr) {
    return true;
  }
  orError_t error = orEventQuery(handle(event));
  if (error == orErrorNotReady) {
    return false;
  }
  if (error == orErrorKernelFailed) {
    error = orEventSynchronize(handle(event));  // does not wait, and clears the failure that is raised
  }
  OR_CHECK_RESULT(error, orEventQuery);
  return true;
}

bool is_complete(void* event) noexcept {
  if (event == nullptr) {
    return true;
  }
  const orError_t error = orEventQuery(handle(event));
  return error == orSuccess || error == orErrorKernelFailed || error == orErrorInvalidHandle ||
         error == orErrorForked;
}

bool follows_event(c10::Stream stream, void* event) noexcept {
  int follows = 0;
  return orStreamFollowsEvent(stream_handle(stream), handle(event), &follows) == orSuccess && follows != 0;
}

void synchronize_event(void* event) {
  if (event != nullptr) {
    const GilRelease waiting;
    OR_CHECK(orEventSynchronize(handle(event)));
    if (C10_UNLIKELY(races::on())) {
      races::host_waited_for_event(event);
    }
  }
}

double elapsed_time(void* start, void* end) {
  TORCH_CHECK_VALUE(start != nullptr && end != nullptr,
                    "Both events must be recorded before calculating elapsed time.");
  float milliseconds = 0;
  const orError_t error = orEventElapsedTime(&milliseconds, handle(start), handle(end));
  TORCH_CHECK_VALUE(
      error != orErrorInvalidValue,
      "Both events must be created with argument 'enable_timing=True': ", orGetLastErrorMessage());
  OR_CHECK_RESULT(error, orEventElapsedTime);
  return milliseconds;
}

void destroy_event(void* event) noexcept {
  if (event != nullptr) {
    if (C10_UNLIKELY(races::on()) && !in_forked_child()) {
      races::destroy_event(event);
    }
    (void)!orEventDestroy(handle(event));
  }
}

void* make_event(c10::DeviceIndex device, unsigned flags) {
  DeviceScope scope(device);
  orEvent_t made = nullptr;
  OR_CHECK(orEventCreateWithFlags(&made, flags));
  if ((flags & orEventExternal) != 0) {
    races::note_external_event(made);
  }
  return made;
}

std::string event_ipc_handle(void* event) {
  orIpcEventHandle_t shared;
  OR_CHECK(orIpcGetEventHandle(&shared, handle(event)));
  return std::string(reinterpret_cast<const char*>(shared.bytes), sizeof(shared.bytes));
}

void* open_event(const std::string& bytes, c10::DeviceIndex device) {
  orIpcEventHandle_t shared;
  TORCH_CHECK_VALUE(bytes.size() == sizeof(shared.bytes), "invalid IPC event handle: expected ",
                    sizeof(shared.bytes), " bytes, got ", bytes.size());
  std::memcpy(shared.bytes, bytes.data(), bytes.size());
  orEvent_t opened = nullptr;
  OR_CHECK(orIpcOpenEventHandle(&opened, &shared));
  int found = 0;
  const orError_t error = orEventGetDevice(opened, &found);
  if (error != orSuccess || found != device) {
    destroy_event(opened);
    OR_CHECK_RESULT(error, orEventGetDevice);
    TORCH_CHECK_VALUE(false, "the IPC event belongs to device ", found, ", expected device ",
                      static_cast<int>(device));
  }
  return opened;
}

EventImportScope::EventImportScope(void* event) {
  event_to_adopt = event;
}

EventImportScope::~EventImportScope() {
  destroy_event(std::exchange(event_to_adopt, nullptr));
}

}  // namespace openreg
