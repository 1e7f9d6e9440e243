// Storages of other processes: the side that receives.
//
// Note [Letting go]
// A received storage holds the memory of the process that sent it. When its last tensor is gone, kernels that
// use it may still be on their way, so the hold ends in stream order: behind the work of the stream that
// received it, of the stream that is current when it goes, and of those that record_stream named.
//
// Thread safety: all functions, from any thread.
#pragma once

#include "common/export.h"
#include "process/share.h"

#include <c10/core/Storage.h>
#include <c10/core/Stream.h>

namespace openreg {

/// The storage, over the same memory as in the process that shared it. What is received more than once is one
/// storage while it lives. The current stream waits for what the sender had launched. Throws if the sender
/// has ended, or what was sent is no longer shared.
OPENREG_EXPORT c10::Storage receive_storage(const SharedStorage& shared);

/// Whether the memory is another process's.
bool is_received(const c10::DataPtr& data);

}  // namespace openreg
