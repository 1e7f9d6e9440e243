// Another chip: a semaphore in memory that both processes map. If its queues can wait for values that are not
// yet submitted, there are no marks.
#include "shared_event.h"

#include "device.h"
#include "host_work.h"

#include <array>
#include <bit>
#include <chrono>
#include <thread>

namespace nv {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(1);

void destroy(Device& device, CUevent native) {
  {
    const Current current(device);
    static_cast<void>(cuda.event_destroy(native));
  }
  static_cast<void>(close_context(device));
}

}  // namespace

// CUDA says nothing of waits for the event of another process that is destroyed, so it is not before its end.
SharedEvent::~SharedEvent() {
  if (named_ && opened_) close_handle(entry_);
  if (!native_) return;
  const auto pending = [&] {
    const Current current(device_);
    return cuda.event_query(native_) == kErrorNotReady;
  };
  if (!opened_ || !pending()) {
    destroy(device_, native_);
    return;
  }
  run_on_host([&device = device_, native = native_] {
    {
      const Current current(device);
      static_cast<void>(cuda.event_synchronize(native));
    }
    destroy(device, native);
  });
}

orError_t SharedEvent::create() {
  NV_RETURN_IF_ERROR(open_context(device_));
  const Current current(device_);
  return close_if(NV_CALL(event_create, &native_, kEventDisableTiming | kEventInterprocess));
}

orError_t SharedEvent::open(const SharedEntry& shared, const OpenEntry& entry) {
  opened_ = named_ = true;
  entry_ = entry;
  NV_RETURN_IF_ERROR(open_context(device_));
  const Current current(device_);
  return close_if(NV_CALL(ipc_open_event, &native_, std::bit_cast<CUipcHandle>(shared.native)));
}

orError_t SharedEvent::close_if(orError_t error) {
  if (error == orSuccess) return orSuccess;
  native_ = nullptr;
  static_cast<void>(close_context(device_));
  return error;
}

orError_t SharedEvent::name(orIpcEventHandle_t& handle) {
  const std::lock_guard lock(mutex_);
  if (opened_) {
    return fail(orErrorNotPermitted,
                "the event was opened from another process; only the process that created it can share it");
  }
  if (!named_) {
    CUipcHandle native;
    {
      const Current current(device_);
      NV_RETURN_IF_ERROR(NV_CALL(ipc_get_event, &native, native_));
    }
    SharedEntry shared;
    shared.kind = SharedEntry::kEvent;
    shared.device = device_.index;
    shared.native = std::bit_cast<decltype(shared.native)>(native);
    NV_RETURN_IF_ERROR(create_handle(shared, handle_.bytes, entry_));
    named_ = true;
    if (held_ > 0) set_mark(entry_, true);
  }
  handle = handle_;
  return orSuccess;
}

void SharedEvent::withdraw() {
  const std::lock_guard lock(mutex_);
  if (named_ && !opened_) static_cast<void>(remove_handle(entry_.index, true));
}

void SharedEvent::hold() {
  const std::lock_guard lock(mutex_);
  if (held_++ == 0 && named_) set_mark(entry_, true);
}

void SharedEvent::release() {
  const std::lock_guard lock(mutex_);
  if (--held_ == 0 && named_) set_mark(entry_, false);
}

bool SharedEvent::held_elsewhere() {
  const std::lock_guard lock(mutex_);
  return named_ && is_marked_elsewhere(entry_);
}

void SharedEvent::wait_for_others() {
  while (held_elsewhere()) std::this_thread::sleep_for(kPoll);
}

}  // namespace nv
