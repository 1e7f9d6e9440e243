// Kernels that are host code: threads that run them in stream order.
#pragma once

#include "openreg/driver.h"

#include <functional>
#include <memory>
#include <string>

namespace nv {

class Stream;
class Graph;

/// A kernel with its argument block.
struct HostKernel {
  const orKernel* kernel = nullptr;  // NULL: only the observer is called
  std::shared_ptr<char[]> args;
  bool release = true;           // false: the graph releases it
  std::shared_ptr<Graph> graph;  // of a node; keeps the argument block
  size_t node = 0;
};

HostKernel copy_kernel(const orKernel* kernel, const void* args, size_t size);

/// Runs the task on a thread of the driver. A thread that is blocked in a kernel does not delay other tasks.
void run_on_host(std::function<void()> task);

/// CLOCK_MONOTONIC.
int64_t now_ns();

/// Whether a kernel runs on this thread, and whether one of the stream does.
bool inside_kernel();
bool inside_kernel_of(const Stream& stream);

/// Runs the kernel and releases it. Returns the empty string or the message of the failure.
std::string run_kernel(const Stream& stream, const HostKernel& kernel, bool dropped);

// Entry of the table.
orError_t stream_launch(orDriverStream* stream, const orKernel* kernel, const void* args, size_t args_size,
                        const orObserver* observer);

}  // namespace nv
