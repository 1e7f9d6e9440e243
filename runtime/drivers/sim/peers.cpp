#include "peers.h"

#include "error.h"
#include "ipc_registry.h"
#include "platform.h"

#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

namespace openreg::sim {
namespace {

std::map<std::pair<int, uint64_t>, std::weak_ptr<Peer>>& known_peers() {
  static auto* peers = new std::map<std::pair<int, uint64_t>, std::weak_ptr<Peer>>;
  return *peers;
}

orError_t report_open_failure(platform::Opened why, int process, const char* what) {
  switch (why) {
    case platform::Opened::kNoProcess:
      return fail(orErrorInvalidHandle,
                  "process %d, which shared this %s, has ended or does not exist; the sharing process must "
                  "live until "
                  "the handle is opened",
                  process, what);
    case platform::Opened::kNotAllowed:
      return fail(orErrorNotPermitted,
                  "process %d does not permit this process to open the %s: both must belong to the same user",
                  process, what);
    case platform::Opened::kFailed:
      return fail(orErrorSystem, "cannot open the %s that process %d shares: %s", what, process,
                  std::strerror(errno));
    default:
      return fail(orErrorInvalidHandle,
                  "process %d does not share the %s of this handle: the handle is stale or forged", process,
                  what);
  }
}

void close_all_files() {
  for (const auto& [key, known] : known_peers()) {
    if (const std::shared_ptr<Peer> peer = known.lock()) platform::close_memory(peer->file);
  }
  if (const OwnIpcRegistry* own = OwnIpcRegistry::existing()) platform::close_memory(own->file());
}

}  // namespace

bool matches(const WireHandle& handle, const Entry& entry) {
  return entry.state.load() != EntryState::kFree && handle.secret[0] == entry.secret[0].load() &&
         handle.secret[1] == entry.secret[1].load();
}

orError_t Peer::find(const WireHandle& handle, const char* what, std::shared_ptr<Peer>& peer) {
  close_files_in_forked_children();
  auto& peers = known_peers();
  std::erase_if(peers, [](const auto& known) { return known.second.expired(); });
  std::weak_ptr<Peer>& known = peers[{handle.process, handle.inode}];
  if ((peer = known.lock())) return orSuccess;
  int file = -1;
  const platform::Opened opened =
      platform::open_memory_of(handle.process, handle.file, platform::kMemoryName, &file);
  if (opened != platform::Opened::kYes) return report_open_failure(opened, handle.process, what);
  uint64_t inode = 0, size = 0;
  void* address = nullptr;
  if (platform::identify(file, &inode, &size) && inode == handle.inode && size == sizeof(IpcRegistry)) {
    address = platform::map_anywhere(file, sizeof(IpcRegistry));
  }
  auto* ipc_registry = static_cast<IpcRegistry*>(address);
  const auto self = static_cast<uint64_t>(platform::process_id());
  if (!ipc_registry || read_once(ipc_registry->magic) != IpcRegistry::kMagic ||
      read_once(ipc_registry->process) != handle.process ||
      !platform::lock_byte(file, IpcRegistry::kProcessLocks + self, false)) {
    if (ipc_registry) platform::unmap_anywhere(ipc_registry, sizeof(IpcRegistry));
    platform::close_memory(file);
    return report_open_failure(platform::Opened::kNotOurs, handle.process, what);
  }
  known = peer = std::shared_ptr<Peer>(new Peer(handle.process, inode, file, *ipc_registry));
  return orSuccess;
}

Peer::~Peer() {
  platform::unmap_anywhere(&ipc_registry, sizeof(IpcRegistry));
  platform::close_memory(file);
}

Entry* Peer::entry_of(const WireHandle& handle) const {
  if (handle.kind == WireHandle::kMemory) {
    return handle.index < IpcRegistry::kMemoryEntries ? &ipc_registry.memory[handle.index] : nullptr;
  }
  return handle.index < IpcRegistry::kEventEntries ? &ipc_registry.events[handle.index] : nullptr;
}

uint64_t Peer::lock_of(const WireHandle& handle) {
  return handle.kind == WireHandle::kMemory ? handle.index : IpcRegistry::kEventLocks + handle.index;
}

// Locks before it reads the state; see Note [Retiring].
orError_t Peer::hold(const WireHandle& handle, const char* what) {
  Entry* entry = entry_of(handle);
  if (!entry) return report_open_failure(platform::Opened::kNotOurs, process, what);
  const uint64_t lock = lock_of(handle);
  int& holds = holds_[lock];
  if (holds == 0 && !platform::lock_byte(file, lock, true)) {
    return fail(orErrorSystem, "cannot hold the %s of process %d: %s", what, process, std::strerror(errno));
  }
  ++holds;
  if (!matches(handle, *entry)) {
    release(lock);
    return report_open_failure(platform::Opened::kNotOurs, process, what);
  }
  EntryState sent = EntryState::kSent;
  entry->state.compare_exchange_strong(sent, EntryState::kReceived);
  return orSuccess;
}

void Peer::release(uint64_t lock) {
  const auto held = holds_.find(lock);
  if (--held->second > 0) return;
  holds_.erase(held);
  platform::unlock_byte(file, lock);
}

orError_t Peer::open_arena(const MemoryPiece& piece, int& memory) const {
  const IpcRegistry::Arena& arena = ipc_registry.arenas[piece.device];
  if (arena.serial.load(std::memory_order_acquire) != piece.arena) {
    return fail(orErrorInvalidHandle, "process %d has reset device %d since it shared this memory", process,
                piece.device);
  }
  const platform::Opened opened =
      platform::open_memory_of(process, read_once(arena.file), platform::kMemoryName, &memory);
  if (opened != platform::Opened::kYes) return report_open_failure(opened, process, "memory");
  uint64_t inode = 0, size = 0;
  if (platform::identify(memory, &inode, &size) && inode == read_once(arena.inode) &&
      piece.base_size <= size && piece.base <= size - piece.base_size) {
    return orSuccess;
  }
  platform::close_memory(memory);
  return report_open_failure(platform::Opened::kNotOurs, process, "memory");
}

void close_files_in_forked_children() {
  static const bool registered = [] {
    platform::at_fork([] { ipc_mutex().lock(); }, [] { ipc_mutex().unlock(); },
                      [] {
                        close_all_files();
                        ipc_mutex().unlock();
                      });
    return true;
  }();
  static_cast<void>(registered);
}

}  // namespace openreg::sim
