// The handler of memory faults: a kernel that accesses a protected page continues, and is reported.
//
// Other faults go to the handler that was installed before, or end the process as they would without the
// check: also accesses of the host to device memory, and of host code to the kernel view outside of kernels.
//
// Thread safety: all functions may be called from any thread.
#pragma once

namespace openreg::memory_check {

/// Installs the handler, again if the program has installed another one meanwhile.
void install_fault_handler();

}  // namespace openreg::memory_check
