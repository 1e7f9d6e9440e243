// Storages of other processes: the receiving side.
//
// Note [Releasing received memory]
// A received storage keeps the memory of the sending process open. When its last tensor is freed, kernels
// that use the memory may still be pending, so the handle is closed in stream order: after the work of the
// stream that received it, of the stream that is current at the free, and of the streams named by
// record_stream.
//
// Thread safety: all functions may be called from any thread.
#pragma once

#include "common/export.h"
#include "process/share.h"

#include <c10/core/Storage.h>
#include <c10/core/Stream.h>

namespace openreg {

/// Opens the storage over the memory of the process that shared it. Repeated receives of the same memory
/// return the same storage while it lives. The current stream waits for the work that the sender had
/// launched. Throws if the sender has exited, or the storage is no longer shared.
OPENREG_EXPORT c10::Storage receive_storage(const SharedStorage& shared);

/// Whether the memory belongs to another process.
bool is_received(const c10::DataPtr& data);

}  // namespace openreg
