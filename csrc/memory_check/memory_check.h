// Finds kernels that access freed memory, or memory outside of their blocks.
//
// Note [Memory check]
// The pool (memory/pool) asks for pages of its own for each block; see region.h. A freed block is sealed in
// the order of its stream: kernels that were launched before may still use it, and kernels of other streams
// that do not wait may not. The pool does not reuse it at once. An access to an inaccessible page is a fault;
// the handler (fault_handler.h) notes it, makes the page accessible and lets the kernel continue. After the
// kernel, the hook of the runtime (openreg/kernel_hooks.h) makes it fail with a report (kernel_run.h). So the
// error comes at the next synchronization, as that of other kernels.
//
// Blocks of private pools are not sealed: graphs access their memory after the free. They have guard pages.
//
// The check is on from the load of the device until the end of the process. Thread safety: all functions may
// be called from any thread, start() before the first use of a device.
#pragma once

#include "common/call_site.h"
#include "common/export.h"
#include "memory_check/region.h"

#include <openreg/openreg.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace openreg::memory_check {

inline std::atomic<bool> enabled{false};

inline bool on() {
  return enabled.load(std::memory_order_relaxed);
}

struct Options {
  size_t quarantine = size_t{256} << 20;  // bytes of freed blocks that are not reused
  CallSite (*site)() = &call_site;        // the line of the program; may take the GIL
};

/// Returns false if the kernels of the device are not host code, so that the check is not available.
bool start(const Options& options);
const Options& options();

/// The line of the program. The caller holds no lock.
CallSite current_site();

// ---- For the pool

/// Adds memory of the runtime, on the current device. `unused`: no kernel accesses it.
Region* add_memory(void* base, size_t length, size_t size, bool unused);
/// Seals a freed block after the work of the stream, now if there is none. The caller holds no lock.
void seal_in_order(Region* region, uint64_t use, orStream_t stream) noexcept;

// ---- For kernels that know their arguments. `kernel_ptr`: an address of the kernel view.

/// Inside of a kernel, after it has run: checks the memory around a block.
void check_around(const void* kernel_ptr);
/// Inside of a kernel: whether something was found.
bool found_any();
/// Inside of a kernel: describes it in the report; " [...]".
void set_context(std::string context);
/// Inside of a kernel: the line that launched it.
CallSite site_of_kernel();

}  // namespace openreg::memory_check
