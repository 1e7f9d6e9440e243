/*
 * The interface between generated kernels and the device: what a generated library exports.
 *
 * A generated library exports one orGeneratedKernel. It calls no function of this project and does not know
 * Python or torch's tensors: CompiledKernel (compiled_kernel.h) reads the arguments of a launch into an array
 * of slots, and `run` gets a copy of that array in stream order. The text of this file is pasted into the
 * source of each generated kernel, so that the hash of the source, which is the key of Inductor's cache,
 * covers it.
 *
 * Any change needs a new OR_KERNEL_API_VERSION. Libraries are never unloaded: queued work and graphs point
 * into them.
 */
#ifndef OPENREG_COMPILER_KERNEL_API_H_
#define OPENREG_COMPILER_KERNEL_API_H_

#include <cstddef>
#include <cstdint>

#define OR_KERNEL_API_VERSION 1u

/// How an argument is passed. All take one slot, except orArgHostScalar, which takes two.
enum orKernelArg : uint8_t {
  orArgInput = 0,       // device tensor that is only read: its kernel-view address
  orArgOutput = 1,      // device tensor that is written
  orArgHostScalar = 2,  // host tensor with one element: its value at the launch
  orArgInteger = 3,
  orArgFloat = 4,
  orArgHostInput = 5,  // host tensor that is only read: its address; only in kernels that run on the host
  orArgHostOutput = 6  // host tensor that is written; likewise
};

union orKernelSlot {
  void* pointer;
  int64_t integer;
  double real;
  unsigned char bytes[8];
};

struct orGeneratedKernel {
  uint32_t version;
  uint32_t args_count;
  const orKernelArg* args;
  /// Returns false if the kernel failed, with a zero-terminated message in `why`. Must not throw.
  bool (*run)(orKernelSlot* slots, char* why, size_t why_size);
  bool may_fail;  // it checks data; so the launch records the Python line for the message
};

#endif /* OPENREG_COMPILER_KERNEL_API_H_ */
