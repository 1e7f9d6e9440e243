/*
 * Kernel hooks: functions of a tool that are called for each kernel, to check what kernels do.
 *
 * The hooks are called for the kernels of all libraries of the process, also for copies and fills, whose
 * kernels are named "copy" and "fill". Without hooks, a launch costs what it costs without this header: the
 * runtime replaces entries of its copy of the driver's table.
 *
 * Thread safety: see orSetKernelHooks. Hooks may be called on any thread, at the same time. They must not
 * throw or call orSetKernelHooks.
 */
#ifndef OPENREG_KERNEL_HOOKS_H_
#define OPENREG_KERNEL_HOOKS_H_

#include "openreg/openreg.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One run of a kernel. `struct_size` is that of the runtime. */
typedef struct orKernelCall {
  uint32_t struct_size;
  const char* name; /* not NULL */
  orError_t (*run)(void* args, char* why, size_t why_size);
  void* args;
  size_t args_size; /* 0: not known, as the block of orRunKernel */
  uint64_t launch;  /* the result of orKernelHooks.launched */
} orKernelCall;

typedef struct orKernelHooks {
  uint32_t struct_size;
  /* (optional) Called on the launching thread for each kernel. A kernel of a graph is launched at the capture
   * and runs in each launch of the graph. The runtime holds no lock. */
  uint64_t (*launched)(void);
  /* Calls call->run(call->args, why, why_size) and returns its result, or fails the kernel: see orKernel. The
   * rest of a deferred kernel runs after its `run`, and its result is ignored here. */
  orError_t (*run)(const orKernelCall* call, char* why, size_t why_size);
} orKernelHooks;

/* Copied. Once in a process, before the first use of a device and while no other thread calls the runtime;
 * later calls return orErrorNotPermitted. Returns orErrorNotSupported without OR_CAP_HOST_EXECUTABLE. */
OR_API orError_t orSetKernelHooks(const orKernelHooks* hooks);

#ifdef __cplusplus
}
#endif

#endif /* OPENREG_KERNEL_HOOKS_H_ */
