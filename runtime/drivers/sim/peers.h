// Other processes that share something with this one, as far as this one holds any of it.
//
// Thread safety: every function needs ipc_mutex(), also the last release of a Peer.
#pragma once

#include "ipc_layout.h"
#include "openreg/error.h"

#include <cstdint>
#include <memory>
#include <unordered_map>

namespace openreg::sim {

/// True if the entry is the one that the handle names.
bool matches(const WireHandle& handle, const Entry& entry);

/// Another process's IPC registry. Kept by what is held of it; with the last of that the file is closed.
class Peer {
 public:
  /// Finds the IPC registry of a handle. The words of a failure call what it names `what`.
  [[nodiscard]] static orError_t find(const WireHandle& handle, const char* what,
                                      std::shared_ptr<Peer>& peer);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  /// Holds an entry, if the handle still names it. Each hold ends with a release.
  [[nodiscard]] orError_t hold(const WireHandle& handle, const char* what);
  void release(uint64_t lock);
  static uint64_t lock_of(const WireHandle& handle);

  /// Opens the memory of a device of the peer, whose index is in range; the caller closes it. The allocation
  /// of the piece lies in it.
  [[nodiscard]] orError_t open_arena(const MemoryPiece& piece, int& memory) const;

  const int process;
  const uint64_t inode;
  const int file;
  IpcRegistry& ipc_registry;

 private:
  Peer(int process, uint64_t inode, int file, IpcRegistry& ipc_registry)
      : process(process), inode(inode), file(file), ipc_registry(ipc_registry) {}
  Entry* entry_of(const WireHandle& handle) const;

  std::unordered_map<uint64_t, int> holds_;  // lock to the number of holds
};

/// A forked child inherits files, and with them the locks. It may use nothing of ours, so it closes them.
void close_files_in_forked_children();

}  // namespace openreg::sim
