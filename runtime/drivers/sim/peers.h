// Other processes whose memory or events this process holds.
//
// Thread safety: callers hold ipc_mutex(), also for the last release of a Peer.
#pragma once

#include "ipc_layout.h"
#include "openreg/error.h"

#include <cstdint>
#include <memory>
#include <unordered_map>

namespace openreg::sim {

/// True if the handle refers to the entry and the entry is not free.
bool matches(const WireHandle& handle, const Entry& entry);

/// The IPC registry of another process. Mappings and events that use it keep it alive; the last one closes
/// the file.
class Peer {
 public:
  /// Finds the IPC registry of a handle. `what` is "memory" or "event", for error messages.
  [[nodiscard]] static orError_t find(const WireHandle& handle, const char* what,
                                      std::shared_ptr<Peer>& peer);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  /// Holds an entry, if the handle is still valid. Each hold needs a release.
  [[nodiscard]] orError_t hold(const WireHandle& handle, const char* what);
  void release(uint64_t lock);
  static uint64_t lock_of(const WireHandle& handle);

  /// Opens the memory of a device of the peer; the caller closes it. The device index is in range. Checks
  /// that the allocation of the piece is inside the memory.
  [[nodiscard]] orError_t open_arena(const MemoryPiece& piece, int& memory) const;

  const int process;
  const uint64_t inode;
  const int file;
  IpcRegistry& ipc_registry;

 private:
  Peer(int process, uint64_t inode, int file, IpcRegistry& ipc_registry)
      : process(process), inode(inode), file(file), ipc_registry(ipc_registry) {}
  Entry* entry_of(const WireHandle& handle) const;

  std::unordered_map<uint64_t, int> holds_;  // lock to number of holds
};

/// A forked child inherits the files and thereby the locks. It cannot use the device, so it closes them.
void close_files_in_forked_children();

}  // namespace openreg::sim
