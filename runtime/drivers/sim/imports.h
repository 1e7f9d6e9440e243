// Memory of other processes that is open in this process.
//
// Note [Mappings]
// The whole allocation that contains the exported bytes is mapped, once for all its open pieces. When the
// last piece is closed, kernels that use the address by mistake may still be running. So the mapping is
// removed only after all streams have finished the work submitted before the close: a race in the program
// reads stale bytes but never faults.
//
// Thread safety: every function locks ipc_mutex().
#pragma once

#include "ipc_layout.h"
#include "openreg/driver.h"

namespace openreg::sim {

/// The range of addresses is reserved.
[[nodiscard]] orError_t open_import(const WireHandle& handle, orDriverIpcMemory& memory);

/// Closes one opening of the piece at `pointer`. `last`: no piece of its allocation is open any more.
[[nodiscard]] orError_t close_import(void* pointer, bool& last);

}  // namespace openreg::sim
