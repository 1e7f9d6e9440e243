// Checkpoints of a private pool, with the storages that own its memory; see Note [Checkpoints] in pool.h.
#pragma once

#include "common/export.h"
#include "memory/pool/pool.h"

#include <c10/core/StorageImpl.h>

#include <vector>

namespace openreg {

/// Restores a checkpoint. Storages of `stale` do not own their memory any more. Storages of `owners`, which
/// own nothing, own the restored block at their address; raw_delete frees the restored blocks without an
/// owner. Throws, and changes nothing, if a storage does not match, or as Pool::restore.
OPENREG_EXPORT void restore_checkpoint(c10::DeviceIndex device, const PoolCheckpoint& checkpoint,
                                       const std::vector<c10::StorageImpl*>& stale,
                                       const std::vector<c10::StorageImpl*>& owners);

/// Whether the storage owns memory of a pool.
OPENREG_EXPORT bool owns_memory(const c10::StorageImpl* storage);

/// Frees the memory of a storage that may still be referenced. No effect if it owns none.
OPENREG_EXPORT void free_memory(c10::StorageImpl* storage);

}  // namespace openreg
