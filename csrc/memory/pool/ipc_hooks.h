// What the pool asks of memory that is shared between processes. The module `process` answers; without it no
// memory is shared.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>

namespace openreg {

struct Block;

struct IpcHooks {
  /// For a block with `shared` set whose last tensor is gone: true if other processes still have it, and then
  /// it is freed later.
  bool (*keep_while_shared)(Block* block) = [](Block*) { return false; };
  /// Frees what no other process has any more.
  void (*collect_shared)() = [] {};
  /// For memory of another process: it is not released before `stream` has passed the point at which it is
  /// freed.
  void (*record_received)(const c10::DataPtr& data, c10::Stream stream) = [](const c10::DataPtr&,
                                                                             c10::Stream) {};
};

/// Set when the library is loaded, before the first allocation.
inline constinit IpcHooks ipc_hooks;

}  // namespace openreg
