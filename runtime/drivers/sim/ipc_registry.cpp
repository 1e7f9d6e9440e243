#include "ipc_registry.h"

#include "arena.h"
#include "error.h"
#include "peers.h"
#include "platform.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

namespace openreg::sim {
namespace {

OwnIpcRegistry* own_registry = nullptr;

bool draw_secret(Entry& entry, uint64_t (&secret)[2]) {
  if (!platform::random_bytes(secret, sizeof(secret))) return false;
  entry.secret[0].store(secret[0], std::memory_order_relaxed);
  entry.secret[1].store(secret[1], std::memory_order_relaxed);
  return true;
}

void clear(Entry& entry) {
  entry.state.store(EntryState::kFree);
  entry.secret[0].store(0, std::memory_order_relaxed);
  entry.secret[1].store(0, std::memory_order_relaxed);
}

}  // namespace

std::mutex& ipc_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

bool EntrySlots::take(int file, uint32_t& index) {
  if (free_.empty()) {
    std::erase_if(held_, [&](uint32_t slot) {
      if (is_held(file, slot)) return false;
      free_.push_back(slot);
      return true;
    });
  }
  if (!free_.empty()) {
    index = free_.back();
    free_.pop_back();
    return true;
  }
  if (used_ == limit_) return false;
  index = used_++;
  return true;
}

void EntrySlots::give(int file, uint32_t index) {
  (is_held(file, index) ? held_ : free_).push_back(index);
}

bool EntrySlots::is_held(int file, uint32_t index) const {
  return platform::is_locked(file, first_lock_ + index);
}

OwnIpcRegistry::OwnIpcRegistry(int file, uint64_t inode, IpcRegistry* shared)
    : file_(file), inode_(inode), shared_(shared) {}

OwnIpcRegistry* OwnIpcRegistry::existing() {
  return own_registry;
}

orError_t OwnIpcRegistry::get(OwnIpcRegistry*& ipc_registry) {
  if (!own_registry) {
    const int file = platform::create_memory(platform::kMemoryName, sizeof(IpcRegistry));
    void* shared = file < 0 ? nullptr : platform::map_anywhere(file, sizeof(IpcRegistry));
    uint64_t inode = 0, size = 0;
    if (!shared || !platform::identify(file, &inode, &size) ||
        !platform::lock_byte(file, IpcRegistry::kProcessLocks + static_cast<uint64_t>(platform::process_id()),
                             false)) {
      const int reason = errno;
      if (shared) platform::unmap_anywhere(shared, sizeof(IpcRegistry));
      if (file >= 0) platform::close_memory(file);
      return fail(orErrorSystem, "cannot create the IPC registry: %s", std::strerror(reason));
    }
    auto* made = static_cast<IpcRegistry*>(shared);  // all fields start as zero
    made->magic = IpcRegistry::kMagic;
    made->process = platform::process_id();
    own_registry = new OwnIpcRegistry(file, inode, made);
    close_files_in_forked_children();
  }
  ipc_registry = own_registry;
  return orSuccess;
}

bool OwnIpcRegistry::is_own(const WireHandle& handle) const {
  return handle.process == platform::process_id() && handle.inode == inode_;
}

WireHandle OwnIpcRegistry::handle_of(uint32_t kind, uint32_t index, const Issued& issued) const {
  WireHandle handle{};
  handle.kind = kind;
  handle.process = platform::process_id();
  handle.file = file_;
  handle.index = index;
  handle.inode = inode_;
  handle.secret[0] = issued.secret[0];
  handle.secret[1] = issued.secret[1];
  return handle;
}

orError_t OwnIpcRegistry::publish_arena(int device, Arena& arena) {
  IpcRegistry::Arena& published = shared_->arenas[device];
  if (published.serial.load(std::memory_order_relaxed) == arena.serial()) return orSuccess;
  uint64_t inode = 0, size = 0;
  if (!platform::identify(arena.backing(), &inode, &size)) {
    return fail(orErrorSystem, "cannot share the memory of device %d: %s", device, std::strerror(errno));
  }
  published.file = arena.backing();
  published.inode = inode;
  published.size = size;
  published.serial.store(arena.serial(), std::memory_order_release);
  return orSuccess;
}

orError_t OwnIpcRegistry::name_memory(int device, Arena& arena, Range whole, Range part, WireHandle& handle) {
  if (const orError_t error = publish_arena(device, arena)) return error;
  uint32_t index = 0;
  if (!memory_slots_.take(file_, index)) {
    return fail(orErrorOutOfHostMemory, "too many memory handles for other processes: %u exist; retire some",
                IpcRegistry::kMemoryEntries);
  }
  MemoryEntry& entry = shared_->memory[index];
  entry.device = device;
  entry.arena = arena.serial();
  entry.base = whole.begin;
  entry.base_size = whole.size;
  entry.begin = part.begin;
  entry.size = part.size;
  Issued issued{{}, {arena.serial(), whole.begin}};
  if (!draw_secret(entry, issued.secret)) {
    memory_slots_.give(file_, index);
    return fail(orErrorSystem, "cannot get random bytes from the operating system: %s", std::strerror(errno));
  }
  named_.emplace(issued.allocation, index);
  memory_issued_[index] = issued;
  entry.state.store(EntryState::kSent);
  handle = handle_of(WireHandle::kMemory, index, issued);
  return orSuccess;
}

void OwnIpcRegistry::remove_memory(uint32_t index) {
  const auto issued = memory_issued_.find(index);
  const auto [begin, end] = named_.equal_range(issued->second.allocation);
  const auto found = std::find_if(begin, end, [&](const auto& named) { return named.second == index; });
  if (found != end) named_.erase(found);
  memory_issued_.erase(issued);
  clear(shared_->memory[index]);
  memory_slots_.give(file_, index);
}

orError_t OwnIpcRegistry::check_memory(const WireHandle& handle) const {
  const auto issued = memory_issued_.find(handle.index);
  if (handle.kind == WireHandle::kMemory && is_own(handle) && issued != memory_issued_.end() &&
      handle.secret[0] == issued->second.secret[0] && handle.secret[1] == issued->second.secret[1]) {
    return orSuccess;
  }
  return fail(orErrorInvalidHandle,
              "the handle does not refer to memory that this process shares: it is stale or forged");
}

orError_t OwnIpcRegistry::receive_memory(const WireHandle& handle) {
  if (const orError_t error = check_memory(handle)) return error;
  EntryState sent = EntryState::kSent;
  shared_->memory[handle.index].state.compare_exchange_strong(sent, EntryState::kReceived);
  return orSuccess;
}

orError_t OwnIpcRegistry::retire_memory(const WireHandle& handle) {
  if (const orError_t error = check_memory(handle)) return error;
  MemoryEntry& entry = shared_->memory[handle.index];
  EntryState state = EntryState::kReceived;
  if (!entry.state.compare_exchange_strong(state, EntryState::kFree)) return orErrorNotReady;
  if (memory_slots_.is_held(file_, handle.index)) {
    entry.state.store(EntryState::kReceived);
    return orErrorNotReady;
  }
  remove_memory(handle.index);
  return orSuccess;
}

orError_t OwnIpcRegistry::withdraw_memory(int device, uint64_t arena, size_t base, bool force) {
  std::vector<uint32_t> entries;
  const auto [begin, end] = named_.equal_range({arena, base});
  for (auto named = begin; named != end; ++named) entries.push_back(named->second);
  std::vector<EntryState> before;
  before.reserve(entries.size());
  for (const uint32_t index : entries)
    before.push_back(shared_->memory[index].state.exchange(EntryState::kFree));
  const auto held = [&](uint32_t index) { return memory_slots_.is_held(file_, index); };
  if (!force && std::ranges::any_of(entries, held)) {
    for (size_t i = 0; i < entries.size(); ++i) shared_->memory[entries[i]].state.store(before[i]);
    return fail(orErrorNotPermitted,
                "another process holds memory of this allocation of device %d; free it after all processes "
                "have closed it",
                device);
  }
  for (const uint32_t index : entries) remove_memory(index);
  return orSuccess;
}

orError_t OwnIpcRegistry::add_event(int device, uint32_t& index) {
  if (!event_slots_.take(file_, index)) {
    return fail(orErrorOutOfHostMemory, "too many interprocess events: %u exist; destroy some",
                IpcRegistry::kEventEntries);
  }
  EventEntry& entry = shared_->events[index];
  entry.device = device;
  entry.latest.store(0, std::memory_order_relaxed);
  for (auto& done : entry.done) done.store(0, std::memory_order_relaxed);
  Issued issued{};
  if (!draw_secret(entry, issued.secret)) {
    event_slots_.give(file_, index);
    return fail(orErrorSystem, "cannot get random bytes from the operating system: %s", std::strerror(errno));
  }
  events_issued_[index] = issued;
  entry.state.store(EntryState::kSent);
  return orSuccess;
}

void OwnIpcRegistry::remove_event(uint32_t index) {
  events_issued_.erase(index);
  clear(shared_->events[index]);
  event_slots_.give(file_, index);
}

WireHandle OwnIpcRegistry::event_handle(uint32_t index) const {
  return handle_of(WireHandle::kEvent, index, events_issued_.at(index));
}

}  // namespace openreg::sim
