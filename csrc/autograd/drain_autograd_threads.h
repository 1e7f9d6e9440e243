// Autograd's threads at the end of the process.
//
// Note [The end of backward]
// A backward on the device runs on a thread of PyTorch's engine. backward() returns when the gradients are
// there; that thread drops the graph a moment later, and with it Python objects, for which it takes the GIL.
// A program that ends in that moment dies: Python ends threads that ask for the GIL too late, and C++ does
// not survive it. So before the interpreter ends, each such thread is given one more thing to do and is
// waited for. It does its things in order, so it has dropped the earlier graphs by then.
#pragma once

#include "common/export.h"

namespace openreg {

/// Waits until the engine's threads have let go of all graphs of finished backwards. Call it without the GIL.
OPENREG_EXPORT void settle_autograd() noexcept;

}  // namespace openreg
