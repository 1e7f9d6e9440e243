#include "shared_event.h"

#include "error.h"
#include "ipc_registry.h"
#include "peers.h"
#include "platform.h"
#include "state.h"

#include <algorithm>
#include <utility>

namespace openreg::sim {

SharedEvent::SharedEvent(IpcRegistry& ipc_registry, int file, uint32_t index, std::shared_ptr<Peer> peer)
    : registry_(ipc_registry),
      file_(file),
      index_(index),
      entry_(ipc_registry.events[index]),
      peer_(std::move(peer)) {}

orError_t SharedEvent::create(int device, Ref<SharedEvent>& event) {
  std::lock_guard lock(ipc_mutex());
  OwnIpcRegistry* ipc_registry = nullptr;
  if (const orError_t error = OwnIpcRegistry::get(ipc_registry)) return error;
  uint32_t index = 0;
  if (const orError_t error = ipc_registry->add_event(device, index)) return error;
  event =
      Ref<SharedEvent>::adopt(new SharedEvent(ipc_registry->shared(), ipc_registry->file(), index, nullptr));
  return orSuccess;
}

orError_t SharedEvent::open(const WireHandle& handle, int& device, Ref<SharedEvent>& event) {
  std::lock_guard lock(ipc_mutex());
  if (handle.kind != WireHandle::kEvent) {
    return fail(orErrorInvalidHandle, "the bytes are not an event handle");
  }
  if (const OwnIpcRegistry* own = OwnIpcRegistry::existing(); own && own->is_own(handle)) {
    return fail(orErrorNotPermitted, "the event belongs to this process; use the original event");
  }
  std::shared_ptr<Peer> peer;
  if (const orError_t error = Peer::find(handle, "event", peer)) return error;
  if (const orError_t error = peer->hold(handle, "event")) return error;
  device = read_once(peer->ipc_registry.events[handle.index].device);
  if (device < 0 || device >= device_count()) {
    peer->release(Peer::lock_of(handle));
    return fail(orErrorInvalidDevice,
                "process %d shares an event of its device %d, but this process has %d devices; increase "
                "OPENREG_DEVICE_COUNT",
                handle.process, device, device_count());
  }
  event = Ref<SharedEvent>::adopt(new SharedEvent(peer->ipc_registry, peer->file, handle.index, peer));
  return orSuccess;
}

SharedEvent::~SharedEvent() {
  std::lock_guard lock(ipc_mutex());
  if (peer_) {
    peer_->release(IpcRegistry::kEventLocks + index_);
    peer_.reset();
  } else {
    OwnIpcRegistry::existing()->remove_event(index_);
  }
}

orError_t SharedEvent::name(WireHandle& handle) const {
  std::lock_guard lock(ipc_mutex());
  if (peer_) {
    return fail(orErrorNotPermitted,
                "the event was opened from another process; only the process that created it can share it");
  }
  handle = OwnIpcRegistry::existing()->event_handle(index_);
  return orSuccess;
}

SharedEvent::Latest SharedEvent::latest() const {
  const uint64_t word = entry_.latest.load();
  return {word >> EventEntry::kProcessBits,
          static_cast<int>(word & ((uint64_t{1} << EventEntry::kProcessBits) - 1))};
}

uint64_t SharedEvent::begin_record(Latest& earlier) {
  uint64_t word = entry_.latest.load();
  uint64_t number;
  do {
    number = (word >> EventEntry::kProcessBits) + 1;
  } while (!entry_.latest.compare_exchange_weak(
      word, number << EventEntry::kProcessBits | static_cast<uint64_t>(platform::process_id())));
  earlier.number = number - std::min(number, EventEntry::kRing);
  earlier.process = entry_.process[number % EventEntry::kRing].exchange(platform::process_id());
  return number;
}

void SharedEvent::finish_record(uint64_t number) {
  std::atomic<uint64_t>& done = entry_.done[number % EventEntry::kRing];
  uint64_t before = done.load();
  while (before < number && !done.compare_exchange_weak(before, number)) {
  }
  registry_.doorbell.fetch_add(1);
  if (registry_.waiting.load() != 0) platform::wake_all(&registry_.doorbell);
}

bool SharedEvent::is_done(uint64_t number) const {
  return entry_.done[number % EventEntry::kRing].load() >= number;
}

bool SharedEvent::is_alive(int process) const {
  if (process <= 0) return false;  // the value is not trusted
  return process == platform::process_id() ||
         platform::is_locked(file_, IpcRegistry::kProcessLocks + static_cast<uint64_t>(process));
}

}  // namespace openreg::sim
