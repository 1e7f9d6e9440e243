// Per-thread state of the host engine and of kernels.
//
// Note [Memory inside a kernel]
// A CPU kernel allocates its output from PyTorch's CPU allocator. The thread state selects the source of that
// memory: the host; the pool of a device, while a kernel runs synchronously; or the output buffers that were
// allocated at the launch, while a launched kernel runs. The allocator belongs to the host engine
// (host_engine/kernel_allocator.h). Without the host engine, all memory comes from the host.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/Exception.h>

#include <cstddef>
#include <span>

namespace openreg {

/// Memory of an output, allocated at the launch.
struct OutputBuffer {
  void* kernel_ptr;
  size_t bytes;
  bool taken;
};

struct ThreadState {
  static constexpr c10::DeviceIndex kHost = -1;
  static constexpr c10::DeviceIndex kOutputBuffers = -2;

  c10::DeviceIndex allocates_from = kHost;  // a device, kHost or kOutputBuffers
  std::span<OutputBuffer> output_buffers;
  bool inferring = false;  // operators infer their outputs and do not run; see InferenceScope
  bool launches = false;   // has launched an operator, so it is not a worker thread of the runtime
  int num_threads = 0;     // of a worker thread: set for the latest kernel
  c10::WarningHandler* kernel_warnings = nullptr;  // receives warnings of kernels; null: dropped
};

inline thread_local ThreadState thread_state;

/// During this scope, CPU allocations of this thread with the size of a buffer take that buffer; others come
/// from the host. Scopes nest.
class OutputBufferScope {
 public:
  explicit OutputBufferScope(std::span<OutputBuffer> buffers)
      : buffers_before_(thread_state.output_buffers), from_before_(thread_state.allocates_from) {
    thread_state.output_buffers = buffers;
    thread_state.allocates_from = ThreadState::kOutputBuffers;
  }
  ~OutputBufferScope() {
    thread_state.output_buffers = buffers_before_;
    thread_state.allocates_from = from_before_;
  }
  OutputBufferScope(const OutputBufferScope&) = delete;
  OutputBufferScope& operator=(const OutputBufferScope&) = delete;

 private:
  std::span<OutputBuffer> buffers_before_;
  c10::DeviceIndex from_before_;
};

/// During this scope, CPU allocations of this thread come from `device`, or from the host (kHost). Scopes
/// nest.
class KernelScope {
 public:
  explicit KernelScope(c10::DeviceIndex device) : before_(thread_state.allocates_from) {
    thread_state.allocates_from = device;
  }
  ~KernelScope() { thread_state.allocates_from = before_; }
  KernelScope(const KernelScope&) = delete;
  KernelScope& operator=(const KernelScope&) = delete;

 private:
  c10::DeviceIndex before_;
};

/// During this scope, operators on this thread infer their outputs and do not run; see Note [Inference in
/// C++] in host_engine/inference/infer.cpp.
class InferenceScope {
 public:
  InferenceScope() : before_(thread_state.inferring) { thread_state.inferring = true; }
  ~InferenceScope() { thread_state.inferring = before_; }
  InferenceScope(const InferenceScope&) = delete;
  InferenceScope& operator=(const InferenceScope&) = delete;

 private:
  bool before_;
};

}  // namespace openreg
