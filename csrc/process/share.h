// Storages for other processes: the side that owns the memory.
//
// Note [Lifetime of shared memory]
// Each send of a storage creates one IPC memory handle in the runtime. A handle is retired when the process
// that opened it has closed it or has exited. Until then, the memory's block is not returned to the pool,
// even if all of its tensors are freed. There is no notification of a retired handle: the module polls when a
// storage is shared, when a shared block is freed, when memory runs out, in empty_cache, and when the program
// calls ipc_collect. A handle that no process has opened yet is not retired, since it may be in a queue.
//
// Thread safety: all functions may be called from any thread.
#pragma once

#include "common/export.h"

#include <c10/core/Storage.h>

#include <string>
#include <vector>

namespace openreg {

/// The data by which another process opens the storage. The handle bytes are a secret.
struct SharedStorage {
  c10::DeviceIndex device = 0;
  size_t bytes = 0;
  std::string memory;               // IPC memory handle; empty for a storage without memory
  std::vector<std::string> events;  // IPC event handles that the receiver waits for
};

/// Creates a handle for one receiving process. The receiver's stream waits for the work that is already
/// launched on the current stream and on the stream that allocated the memory. Throws for a storage that was
/// itself received.
OPENREG_EXPORT SharedStorage share_storage(const c10::Storage& storage);

/// The storage, if this process has shared it: the same one, or a new one over the same memory.
c10::Storage find_own(const SharedStorage& shared);

/// Frees blocks that no other process uses any more.
OPENREG_EXPORT void collect_shared();

}  // namespace openreg
