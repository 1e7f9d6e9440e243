// The functions of openreg.h and module.h that use the runtime, and one call of them.
//
// Fault rules select calls by these names. A function that is missing here does not compile: with_runtime
// needs its entry.
#pragma once

#include "openreg/types.h"

#include <cstddef>
#include <cstdint>

namespace openreg {

/// What decides the device of a call.
enum class CallTarget : uint8_t { kNone, kCurrentDevice, kDevice, kStream, kEvent, kGraph, kMemory, kModule };

/// Properties of a function, or'ed.
enum CallTrait : uint8_t {
  kPlain = 0,
  kHostOnly = 1,    // reads properties or destroys an object: works also if the device is lost
  kSubmits = 2,     // submits work to the stream and returns
  kRunsWork = 4,    // kernels, copies or fills: can have a kernel failure
  kCopiesBytes = 8  // can be corrupted
};

// X(function, target, traits)
#define OR_ENTRY_POINTS(X)                                           \
  X(orGetDeviceCount, kNone, kHostOnly)                              \
  X(orGetDevice, kNone, kHostOnly)                                   \
  X(orSetDevice, kDevice, kHostOnly)                                 \
  X(orGetDeviceProperties, kDevice, kHostOnly)                       \
  X(orDeviceIsOpen, kDevice, kHostOnly)                              \
  X(orDeviceSynchronize, kCurrentDevice, kPlain)                     \
  X(orDeviceReset, kCurrentDevice, kHostOnly)                        \
  X(orGetKernelViewOffset, kDevice, kHostOnly)                       \
  X(orMalloc, kCurrentDevice, kPlain)                                \
  X(orFree, kMemory, kPlain)                                         \
  X(orMallocHost, kNone, kPlain)                                     \
  X(orFreeHost, kNone, kPlain)                                       \
  X(orHostRegister, kNone, kPlain)                                   \
  X(orHostUnregister, kNone, kPlain)                                 \
  X(orMemGetInfo, kCurrentDevice, kPlain)                            \
  X(orPointerGetAttributes, kMemory, kHostOnly)                      \
  X(orMemcpy, kMemory, kRunsWork | kCopiesBytes)                     \
  X(orMemcpyAsync, kStream, kSubmits | kRunsWork | kCopiesBytes)     \
  X(orMemcpyPeer, kMemory, kRunsWork | kCopiesBytes)                 \
  X(orMemcpyPeerAsync, kStream, kSubmits | kRunsWork | kCopiesBytes) \
  X(orMemset, kMemory, kRunsWork)                                    \
  X(orMemsetAsync, kStream, kSubmits | kRunsWork)                    \
  X(orStreamGetDefault, kCurrentDevice, kPlain)                      \
  X(orStreamCreate, kCurrentDevice, kPlain)                          \
  X(orStreamCreateWithPriority, kCurrentDevice, kPlain)              \
  X(orStreamDestroy, kStream, kHostOnly)                             \
  X(orStreamQuery, kStream, kPlain)                                  \
  X(orStreamGetPending, kStream, kPlain)                             \
  X(orStreamSynchronize, kStream, kPlain)                            \
  X(orStreamWaitEvent, kStream, kSubmits)                            \
  X(orLaunchHostFunc, kStream, kSubmits | kRunsWork)                 \
  X(orLaunchKernel, kStream, kSubmits | kRunsWork)                   \
  X(orRunKernel, kStream, kRunsWork)                                 \
  X(orKernelDefer, kNone, kPlain)                                    \
  X(orKernelFinish, kNone, kPlain)                                   \
  X(orStreamGetDevice, kStream, kHostOnly)                           \
  X(orStreamGetPriority, kStream, kHostOnly)                         \
  X(orStreamGetId, kStream, kHostOnly)                               \
  X(orSetSchedule, kNone, kHostOnly)                                 \
  X(orGetSchedule, kNone, kHostOnly)                                 \
  X(orEventCreate, kCurrentDevice, kPlain)                           \
  X(orEventCreateWithFlags, kCurrentDevice, kPlain)                  \
  X(orEventDestroy, kEvent, kHostOnly)                               \
  X(orEventRecord, kStream, kSubmits)                                \
  X(orEventGetDevice, kEvent, kHostOnly)                             \
  X(orEventQuery, kEvent, kPlain)                                    \
  X(orEventSynchronize, kEvent, kPlain)                              \
  X(orEventElapsedTime, kEvent, kPlain)                              \
  X(orStreamBeginCapture, kStream, kPlain)                           \
  X(orStreamEndCapture, kStream, kPlain)                             \
  X(orStreamIsCapturing, kStream, kHostOnly)                         \
  X(orStreamFollowsEvent, kStream, kHostOnly)                        \
  X(orStreamCheckUncaptured, kStream, kHostOnly)                     \
  X(orDeviceCheckUncaptured, kCurrentDevice, kHostOnly)              \
  X(orGraphLaunch, kStream, kSubmits | kRunsWork)                    \
  X(orGraphDestroy, kGraph, kHostOnly)                               \
  X(orGraphGetNodeCount, kGraph, kHostOnly)                          \
  X(orGraphGetNode, kGraph, kHostOnly)                               \
  X(orIpcGetMemHandle, kMemory, kPlain)                              \
  X(orIpcRetireMemHandle, kNone, kPlain)                             \
  X(orIpcOpenMemHandle, kNone, kPlain)                               \
  X(orIpcCloseMemHandle, kMemory, kPlain)                            \
  X(orIpcCloseMemHandleAsync, kStream, kSubmits)                     \
  X(orIpcGetEventHandle, kEvent, kPlain)                             \
  X(orIpcOpenEventHandle, kNone, kPlain)                             \
  X(orTraceSubscribe, kNone, kHostOnly)                              \
  X(orTraceUnsubscribe, kNone, kHostOnly)                            \
  X(orModuleLoad, kCurrentDevice, kPlain)                            \
  X(orModuleUnload, kModule, kHostOnly)                              \
  X(orModuleGetFunction, kModule, kPlain)                            \
  X(orLaunchFunction, kStream, kSubmits | kRunsWork)                 \
  X(orStreamGetNativeHandle, kStream, kHostOnly)                     \
  X(orDeviceGetNativeHandle, kDevice, kHostOnly)

#define OR_ENTRY_POINT(function, target, traits) function,
enum class EntryPoint : uint8_t { OR_ENTRY_POINTS(OR_ENTRY_POINT) };
#undef OR_ENTRY_POINT

#define OR_ENTRY_POINT(function, target, traits) +1
inline constexpr size_t kEntryPointCount = 0 OR_ENTRY_POINTS(OR_ENTRY_POINT);
#undef OR_ENTRY_POINT

/// One call. Built on every call, so it only copies arguments; the slow path interprets them.
struct Call {
  EntryPoint entry;
  const void* object = nullptr;  // the stream, event, graph, module or pointer, as the target says
  size_t size = 0;
  const void* other = nullptr;  // the second pointer of a copy, or the function of a launch
  const orKernel* kernel = nullptr;
  int device = -1;  // of CallTarget::kDevice

  constexpr Call(EntryPoint entry_point, const void* on = nullptr, size_t bytes = 0,
                 const void* second = nullptr)
      : entry(entry_point), object(on), size(bytes), other(second) {}
  constexpr Call(EntryPoint entry_point, const void* stream, const orKernel* launched)
      : entry(entry_point), object(stream), kernel(launched) {}
  constexpr Call(EntryPoint entry_point, int index) : entry(entry_point), device(index) {}
};

}  // namespace openreg
