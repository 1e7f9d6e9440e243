// Storages for other processes: the side that has the memory.
//
// Note [Kept while others have it]
// Each sending of a storage names its memory once in the runtime. A name is over when the process that opened
// it has let go, or has died; until then the block of the memory is not given back to the pool, even if every
// tensor over it is gone. Nobody tells us when a name is over: we ask when something is shared, when a shared
// block is freed, when memory runs out, and when the program calls ipc_collect. A name that nobody has opened
// yet is waited for, since it may be in a queue.
//
// Thread safety: all functions, from any thread.
#pragma once

#include "common/export.h"

#include <c10/core/Storage.h>

#include <string>
#include <vector>

namespace openreg {

/// What another process needs to have the storage: bytes to be carried there, and told to nobody else.
struct SharedStorage {
  c10::DeviceIndex device = 0;
  size_t bytes = 0;
  std::string memory;               // empty for a storage without memory
  std::vector<std::string> events;  // what the storage's work is to be waited for by
};

/// Names the storage for one process. Work that is already launched on the current stream, and on the stream
/// that allocated the memory, is waited for by the receiver's stream. Throws for a storage that itself was
/// received.
OPENREG_EXPORT SharedStorage share_storage(const c10::Storage& storage);

/// The storage, if it is this process that has shared it: the same, or one over the same memory.
c10::Storage find_own(const SharedStorage& shared);

/// Gives back what no other process has any more.
OPENREG_EXPORT void collect_shared();

}  // namespace openreg
