// Hooks of the allocator for memory that is shared between processes. The module `process` installs them;
// without it, no memory is shared.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>

namespace openreg {

struct Block;

struct IpcHooks {
  /// Called when the last tensor of a block with `shared` set is freed. Returns true if other processes still
  /// use the block; it is then freed later.
  bool (*keep_while_shared)(Block* block) = [](Block*) { return false; };
  /// Frees blocks that no other process uses any more.
  void (*collect_shared)() = [] {};
  /// For memory of another process: defers its release until `stream` has reached the point of the free.
  void (*record_received)(const c10::DataPtr& data, c10::Stream stream) = [](const c10::DataPtr&,
                                                                             c10::Stream) {};
};

/// Set when the library is loaded, before the first allocation.
inline constinit IpcHooks ipc_hooks;

}  // namespace openreg
