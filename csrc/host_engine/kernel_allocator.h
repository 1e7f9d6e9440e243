// Replaces PyTorch's CPU allocator: inside a kernel, CPU allocations are device memory.
//
// Note [Pool-backed memory]
// A CPU kernel that allocates its output calls PyTorch's CPU allocator. While a kernel runs synchronously on
// a thread, that allocator allocates from the device's pool, so the output is in device memory and nothing is
// copied. The switch is thread-local. Outside kernels the allocator costs one more thread-local check.
//
// A launched kernel gets no memory from the pool: blocks become free in launch order, not in execution order.
// It gets the output buffers that were allocated at the launch, each for the first allocation of its size.
// Other allocations are scratch memory from the host.
//
// Pool-backed memory and output buffers belong to the result, so a kernel must not keep references to tensors
// that it allocates. PyTorch's kernels do not. Other kernels, such as a Python kernel with a cache, get all
// memory from the host, and their results are copied.
//
// The allocator is process-wide, so it is installed at the first kernel and not at import.
#pragma once

#include <c10/core/Allocator.h>

namespace openreg {

struct Block;

/// The allocator. The first call installs it as PyTorch's CPU allocator. Thread-safe.
c10::Allocator& kernel_allocator();

/// Moves the ownership of a pool block out of a DataPtr that a kernel allocated. NULL if `data` is not
/// pool-backed.
Block* take_pool_block(c10::DataPtr& data);

}  // namespace openreg
