// Memory of other processes that is open in this one.
//
// Note [Mappings]
// What is mapped is the allocation that holds the named bytes, once, however many of its pieces are open.
// When the last piece is closed, kernels may still be running that were given the address by mistake, so the
// mapping goes only when every stream has passed that moment: a hazard of the program reads old bytes, and
// never faults.
//
// Thread safety: every function locks ipc_mutex().
#pragma once

#include "ipc_layout.h"
#include "openreg/driver.h"

namespace openreg::sim {

/// The range of addresses is reserved.
[[nodiscard]] orError_t open_import(const WireHandle& handle, orDriverIpcMemory& memory);

/// Ends one opening of the piece at `pointer`. `last`: its allocation has no piece open any more.
[[nodiscard]] orError_t close_import(void* pointer, bool& last);

}  // namespace openreg::sim
