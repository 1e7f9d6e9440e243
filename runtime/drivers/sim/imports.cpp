#include "imports.h"

#include "arena.h"
#include "blocks.h"
#include "error.h"
#include "ipc_registry.h"
#include "peers.h"
#include "platform.h"
#include "state.h"

#include <cerrno>
#include <cstring>
#include <list>
#include <optional>
#include <unordered_map>

namespace openreg::sim {
namespace {

struct Mapping {
  std::shared_ptr<Peer> peer;
  int device;
  uint64_t arena, base, base_size;  // as in MemoryPiece
  size_t window_offset;             // of the pages that hold the allocation
  size_t length;                    // of these pages
  char* address;                    // of the allocation, in the device view
  int pieces = 0;
  std::vector<Unfinished> busy;  // after the last close: work that was submitted before it

  bool is_of(const Peer& owner, const MemoryPiece& entry) const {
    return peer.get() == &owner && device == entry.device && arena == entry.arena && base == entry.base &&
           base_size == entry.base_size;
  }
};

struct Piece {
  std::list<Mapping>::iterator mapping;
  uint64_t lock;
};

struct Imports {
  Imports() {
    size_t size = 0;
    import_window(&window, &size);
    room.emplace(size);
  }
  char* window = nullptr;
  std::optional<Blocks> room;
  std::list<Mapping> mappings;
  std::unordered_multimap<void*, Piece> pieces;
};

Imports& imports() {
  static auto* imports = new Imports;
  return *imports;
}

void unmap(Mapping& mapping) {
  Imports& all = imports();
  // On failure the pages stay mapped and their addresses are not reused.
  if (platform::unmap_memory(all.window + mapping.window_offset + view_offset(), mapping.length)) {
    all.room->give(mapping.window_offset, mapping.length);
  }
}

// Removes unused mappings. The caller releases the streams in `done` without the lock.
void reap(std::vector<Unfinished>& done) {
  Imports& all = imports();
  for (auto mapping = all.mappings.begin(); mapping != all.mappings.end();) {
    const auto next = std::next(mapping);
    if (mapping->pieces == 0 && all_finished(mapping->busy)) {
      unmap(*mapping);
      std::move(mapping->busy.begin(), mapping->busy.end(), std::back_inserter(done));
      all.mappings.erase(mapping);
    }
    mapping = next;
  }
}

orError_t map(const std::shared_ptr<Peer>& peer, const MemoryPiece& entry,
              std::list<Mapping>::iterator& mapped) {
  Imports& all = imports();
  int memory = -1;
  if (const orError_t error = peer->open_arena(entry, memory)) return error;
  const size_t page = platform::page_size();
  const size_t begin = entry.base / page * page;
  const size_t length = (entry.base + entry.base_size + page - 1) / page * page - begin;
  const std::optional<size_t> room = all.room->take(length);
  if (!room) {
    platform::close_memory(memory);
    return fail(orErrorOutOfMemory,
                "no address space left to open %zu bytes of process %d; close other memory or increase "
                "OPENREG_MEMORY",
                length, peer->process);
  }
  char* address = all.window + *room;
  const bool done = platform::map_memory(memory, begin, address + view_offset(), length);
  const int reason = errno;
  platform::close_memory(memory);
  if (!done) {
    all.room->give(*room, length);
    return fail(orErrorSystem, "cannot map %zu bytes of process %d: %s", length, peer->process,
                std::strerror(reason));
  }
  all.mappings.push_back(Mapping{peer,
                                 entry.device,
                                 entry.arena,
                                 entry.base,
                                 entry.base_size,
                                 *room,
                                 length,
                                 address + (entry.base - begin),
                                 0,
                                 {}});
  mapped = std::prev(all.mappings.end());
  return orSuccess;
}

orError_t check(const WireHandle& handle, const MemoryPiece& piece) {
  if (piece.device < 0 || piece.device >= device_count()) {
    return fail(orErrorInvalidDevice,
                "process %d shares memory of its device %d, but this process has %d devices; increase "
                "OPENREG_DEVICE_COUNT",
                handle.process, piece.device, device_count());
  }
  if (piece.size != 0 && piece.begin >= piece.base && piece.size <= piece.base_size &&
      piece.begin - piece.base <= piece.base_size - piece.size) {
    return orSuccess;
  }
  return fail(orErrorInvalidHandle,
              "invalid entry in the IPC registry of process %d: %llu bytes at offset %llu are not inside the "
              "allocation of %llu bytes at offset %llu",
              handle.process, static_cast<unsigned long long>(piece.size),
              static_cast<unsigned long long>(piece.begin), static_cast<unsigned long long>(piece.base_size),
              static_cast<unsigned long long>(piece.base));
}

}  // namespace

orError_t open_import(const WireHandle& handle, orDriverIpcMemory& memory) {
  std::vector<Unfinished> done;  // released without the lock
  std::lock_guard lock(ipc_mutex());
  if (handle.kind != WireHandle::kMemory) {
    return fail(orErrorInvalidHandle, "the bytes are not a memory handle");
  }
  if (OwnIpcRegistry* own = OwnIpcRegistry::existing(); own && own->is_own(handle)) {
    if (const orError_t error = own->receive_memory(handle)) return error;
    return fail(orErrorNotPermitted, "the memory belongs to this process; use its original pointer");
  }
  reap(done);
  std::shared_ptr<Peer> peer;
  if (const orError_t error = Peer::find(handle, "memory", peer)) return error;
  if (const orError_t error = peer->hold(handle, "memory")) return error;
  const uint64_t held = Peer::lock_of(handle);
  const MemoryPiece entry = read_once(peer->ipc_registry.memory[handle.index]);
  Imports& all = imports();
  auto mapping = all.mappings.begin();
  while (mapping != all.mappings.end() && !mapping->is_of(*peer, entry)) ++mapping;
  orError_t error = check(handle, entry);
  if (!error && mapping == all.mappings.end()) error = map(peer, entry, mapping);
  if (error) {
    peer->release(held);
    return error;
  }
  ++mapping->pieces;
  mapping->busy.clear();
  memory = {entry.device, mapping->address + (entry.begin - entry.base), entry.size, mapping->address,
            entry.base_size};
  all.pieces.emplace(memory.ptr, Piece{mapping, held});
  return orSuccess;
}

orError_t close_import(void* pointer, bool& last) {
  std::vector<Unfinished> busy = unfinished_work();
  std::vector<Unfinished> done;  // released without the lock
  std::lock_guard lock(ipc_mutex());
  Imports& all = imports();
  const auto found = all.pieces.find(pointer);
  if (found == all.pieces.end()) {
    return fail(orErrorInvalidPointer,
                "%p is inside memory of another process, but orIpcOpenMemHandle did not return this pointer",
                pointer);
  }
  const Piece piece = found->second;
  all.pieces.erase(found);
  piece.mapping->peer->release(piece.lock);
  last = --piece.mapping->pieces == 0;
  if (last) piece.mapping->busy = std::move(busy);
  reap(done);
  return orSuccess;
}

}  // namespace openreg::sim
