// The CPU allocator, as seen from inside a kernel: its memory is device memory.
//
// Note [Pool-backed memory]
// A CPU kernel that makes its own output asks PyTorch's CPU allocator for memory. While a kernel of ours runs
// on a thread, that allocator serves from the device's pool, so the output is allocated where it belongs and
// nothing is copied. The switch is thread-local; everywhere else the allocator costs one thread-local test
// more than before.
//
// A kernel that runs after its launch has returned gets no memory from the pool, whose free blocks are free
// in the order of launches and not in the order of execution. It is offered the outputs that were allocated
// at the launch, each to the first request of its size; everything else is scratch, and comes from the host.
//
// Pool-backed memory and output buffers belong to the result, so a kernel must not keep what it has made.
// PyTorch's do not. Those of others, as one in Python with a cache, get all memory from the host, and results
// are copied.
//
// The allocator is process-wide, so it is installed at the first kernel and not at import.
#pragma once

#include <c10/core/Allocator.h>

namespace openreg {

struct Block;

/// PyTorch's CPU allocator from now on. Thread-safe; the first call installs it.
c10::Allocator& kernel_allocator();

/// Takes the block from a DataPtr of memory that a kernel got from the pool, which then owns nothing; NULL if
/// it is other memory.
Block* take_pool_block(c10::DataPtr& data);

}  // namespace openreg
