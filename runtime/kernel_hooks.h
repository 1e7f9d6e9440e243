// Kernel hooks: a layer between the runtime and the driver; see openreg/kernel_hooks.h.
#pragma once

#include "openreg/driver.h"
#include "openreg/kernel_hooks.h"

namespace openreg {

/// Replaces the entries of the table that run kernels, copies and fills. Called at most once.
void hook_kernels(orDriver& table, const orKernelHooks& hooks);

}  // namespace openreg
