#include "race_check/race_check.h"

#include "race_check/checker.h"

#include <mutex>
#include <type_traits>

namespace openreg::races {
namespace {

Checker& checker() {
  static auto* made = new Checker;
  return *made;
}

std::atomic<bool> pinned{false};

uintptr_t address(const void* ptr) {
  return reinterpret_cast<uintptr_t>(ptr);
}

// Calls `body` with the checker, if the check is on.
template <typename Body>
auto locked(Body body) {
  Checker& state = checker();
  const std::lock_guard lock(state.mutex);
  using Result = decltype(body(state));
  if constexpr (std::is_void_v<Result>) {
    if (state.users > 0) {
      body(state);
    }
  } else {
    return state.users > 0 ? body(state) : Result{};
  }
}

}  // namespace

void start() {
  log().forget_pairs();
  const std::lock_guard lock(checker().mutex);
  if (checker().users++ == 0) {
    checker().reset();
    pinned = false;
    enabled = true;
  }
}

void stop() {
  const std::lock_guard lock(checker().mutex);
  if (--checker().users == 0) {
    enabled = false;
    pinned = false;
    checker().reset();
  }
}

void record_event(const void* event, Stream stream) {
  locked([&](Checker& state) { state.record_event(event, stream); });
}
void wait_event(Stream stream, const void* event) {
  locked([&](Checker& state) { state.wait_event(stream, event); });
}
void destroy_event(const void* event) {
  locked([&](Checker& state) { state.destroy_event(event); });
}
void note_external_event(const void* event) {
  const std::lock_guard lock(checker().mutex);
  checker().external_events.insert(event);
}
void host_waited_for_event(const void* event) {
  locked([&](Checker& state) { state.host_waited_for_event(event); });
}
void host_waited_for_stream(Stream stream) {
  locked([&](Checker& state) { state.host_waited_for_stream(stream); });
}
void host_waited_for_device(int device) {
  locked([&](Checker& state) { state.host_waited_for_device(device); });
}
bool host_follows_stream(Stream stream) {
  return locked([&](Checker& state) { return state.host_follows_stream(stream); });
}
void allocated(const void* ptr, size_t bytes, Stream stream, CallSite site) {
  locked([&](Checker& state) { state.allocated(address(ptr), bytes, stream, site); });
}
void freed(const void* ptr, size_t bytes, std::span<const Stream> recorded) {
  locked([&](Checker& state) { state.freed(address(ptr), bytes, recorded); });
}
void kept(const void* ptr, size_t bytes, Stream stream) {
  locked([&](Checker& state) { state.kept(address(ptr), bytes, stream); });
}
void forget(const void* ptr, size_t bytes) {
  locked([&](Checker& state) { state.forget(address(ptr), bytes); });
}
void received(const void* ptr, size_t bytes, Stream stream, CallSite site) {
  locked([&](Checker& state) { state.received(address(ptr), bytes, stream, site); });
}
Launch launch(Stream stream, const char* op, CallSite site) {
  return locked([&](Checker& state) { return state.launch(stream, op, site); });
}
void access(const Launch& launch, std::span<const Access> accesses) {
  if (launch.number != 0) {
    locked([&](Checker& state) { state.access(launch, accesses); });
  }
}
void host_access(const Access& access, const char* op, CallSite site) {
  locked([&](Checker& state) { state.host_access(access, op, site); });
}
bool host_follows_access(const Access& access) {
  return locked([&](Checker& state) { return state.host_follows_access(access); });
}
bool any_pinned() {
  return pinned.load(std::memory_order_relaxed);
}
void note_pinned() {
  pinned.store(true, std::memory_order_relaxed);
}
void replay(uint64_t capture, Stream stream, CallSite site) {
  locked([&](Checker& state) { state.replay(capture, stream, site); });
}
void capture_ended(uint64_t capture) {
  locked([&](Checker& state) { state.capture_ended(capture); });
}
void graph_destroyed(uint64_t capture) {
  locked([&](Checker& state) { state.graph_destroyed(capture); });
}

}  // namespace openreg::races
