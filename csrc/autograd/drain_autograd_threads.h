// Drains autograd's threads at process exit.
//
// Note [Autograd threads at exit]
// A backward on the device runs on a thread of PyTorch's autograd engine. backward() returns when the
// gradients are ready; the thread drops the graph slightly later, and takes the GIL to release the graph's
// Python objects. If the interpreter finalizes in between, Python terminates the thread when it requests the
// GIL, and the process crashes. Therefore each engine thread runs one more backward before the interpreter
// finalizes, and the caller waits for it. An engine thread processes its tasks in order, so it has dropped
// the earlier graphs by then.
#pragma once

#include "common/export.h"

namespace openreg {

/// Waits until the autograd engine's threads have dropped the graphs of all finished backwards. Call it
/// without the GIL.
OPENREG_EXPORT void drain_autograd_threads() noexcept;

}  // namespace openreg
