/*
 * The runtime API: devices, memory, streams, events, graphs, errors, tracing.
 *
 * Functions return an orError_t. A call that does not return orSuccess has no effect. It sets the message of
 * orGetLastErrorMessage(); later calls can succeed. No function aborts, throws or prints. All functions may
 * be called from any thread; the current device and the last error are per thread. The runtime opens devices,
 * starts threads and reserves memory lazily, at the first call that needs them.
 *
 * Note [Stream order]
 * Work on one stream runs in submission order. Work on different streams is ordered only by events. The
 * default stream (NULL) of a device does not synchronize with other streams.
 *
 * Note [Failed kernels]
 * A kernel that fails poisons its stream: work queued behind it is dropped. The `release` of dropped kernels
 * is still called, and events recorded behind the failure still complete. The next synchronization of the
 * stream, of an event recorded on it behind the failure, or of its device returns orErrorKernelFailed with
 * the name and the message of the kernel, and clears the failure. A query returns it, too, and does not clear
 * it. Work submitted afterwards runs. A stream
 * that waits for an event recorded behind an unreported failure is poisoned by the same failure. Other
 * streams are not affected. The report clears the failure on all streams. It is reported once to a thread,
 * but again to other threads that synchronize with another stream that it poisoned.
 *
 * Note [Deferred kernels]
 * A kernel that starts work elsewhere, such as a transfer over a network, need not occupy a thread of the
 * device until that work is done. It calls orKernelDefer, passes the handle on, and returns. The kernel ends
 * with orKernelFinish: then its `release` is called, observers are notified, and the stream continues. Until
 * then the argument block is valid, and later work of the stream waits, as do synchronizations. A kernel that
 * is never finished blocks its stream for ever. Under orScheduleBlocking, a launch returns when its kernel
 * has ended, or when a kernel of the stream is deferred.
 *
 * Note [Handles]
 * Streams, events and graphs are numbers, not addresses. A destroyed handle is detected and never
 * dereferenced.
 *
 * Note [Interprocess sharing]
 * A process creates a handle of a part of its memory and sends it to another process of the same user, which
 * opens it. Both processes then use the same bytes, each through its own pointers. The handle contains a
 * secret of 128 bits; opening a forged or stale handle returns orErrorInvalidHandle. While a process has the
 * memory open, the owner cannot free it. Closing the memory, or the end of the process, releases it. The
 * bytes count as memory of the process that allocated them. After that process has ended, other processes can
 * still use memory that they have open, but its handles are invalid.
 */
#ifndef OPENREG_OPENREG_H_
#define OPENREG_OPENREG_H_

#include "openreg/types.h"

#if defined(_WIN32)
#define OR_API
#else
#define OR_API OR_NODISCARD __attribute__((visibility("default")))
#endif
#define OR_API_VALUE __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

typedef struct orStreamHandle* orStream_t; /* NULL: the default stream of the current device */
typedef struct orEventHandle* orEvent_t;
typedef struct orGraphHandle* orGraph_t;
typedef struct orDeferredHandle* orDeferred_t;

/* ---- Errors ------------------------------------------------------------------------------------------- */

/* The name of the code, such as "orErrorInvalidValue"; never NULL, also for unknown codes. */
OR_API_VALUE const char* orGetErrorName(orError_t error);
/* The general text of the code; never NULL. */
OR_API_VALUE const char* orGetErrorString(orError_t error);
OR_API_VALUE orErrorClass orGetErrorClass(orError_t error);
/* Returns and clears the last error of this thread. orErrorNotReady is not recorded as an error. */
OR_API_VALUE orError_t orGetLastError(void);
/* Returns the last error of this thread and does not clear it. */
OR_API_VALUE orError_t orPeekAtLastError(void);
/* The message, with values, of the last call on this thread that did not return orSuccess. Valid until the
 * next such call on this thread; never NULL. */
OR_API_VALUE const char* orGetLastErrorMessage(void);
/* Not 0 in a child process that was forked after the first use of a device. There, every call that needs the
 * device returns orErrorForked and takes no lock. This function never fails and takes no lock, so destructors
 * may call it. */
OR_API_VALUE int orIsForked(void);

/* ---- The driver --------------------------------------------------------------------------------------- */

/* The driver of the process. Strings live as long as the process. */
typedef struct orDriverInfo {
  uint32_t struct_size;
  uint32_t version;         /* OR_DRIVER_VERSION that the driver was built with */
  uint32_t runtime_version; /* OR_DRIVER_VERSION of this runtime */
  uint32_t table_size;      /* bytes of the driver's table */
  const char* name;
  const char* path;      /* the file; "" for the embedded driver */
  uint64_t capabilities; /* OR_CAP_* */
} orDriverInfo;

/* Chooses the driver: the path of a shared library, or "sim" for the embedded simulated device. Call it
 * before the first use of the runtime; later it returns orErrorNotPermitted. The environment variable
 * OPENREG_DRIVER has precedence. The library is loaded by the first call that needs it, which returns an
 * error if it cannot be loaded. */
OR_API orError_t orSetDriver(const char* path);
/* As orSetDriver. Messages name `origin`, such as the package that installed the driver. */
OR_API orError_t orSetDriverFrom(const char* path, const char* origin);
/* The name of the device type, such as "openreg", which is the default. Messages contain it, and environment
 * variables of the runtime begin with it: OPENREG_SCHEDULE, OPENREG_SEED. It is set once, before the first
 * call that reads it; a different name later returns orErrorNotPermitted. 1 to 63 lower-case letters and
 * underscores, beginning with a letter: torch's device strings have no digits before the index. Not
 * "privateuseone", which is torch's own. */
OR_API orError_t orSetDeviceName(const char* name);
/* Never NULL; lives as long as the process. */
OR_API_VALUE const char* orGetDeviceName(void);
/* Loads the driver, if necessary, but does not initialize it. `info->struct_size` must be set. */
OR_API orError_t orGetDriverInfo(orDriverInfo* info);

/* ---- Devices ------------------------------------------------------------------------------------------ */

OR_API orError_t orGetDeviceCount(int* count);
/* The current device of this thread; initially 0. */
OR_API orError_t orGetDevice(int* device);
OR_API orError_t orSetDevice(int device);
/* `properties->struct_size` must be set. Does not open the device. */
OR_API orError_t orGetDeviceProperties(orDeviceProperties* properties, int device);
/* *open is 1 if the device is open, 0 otherwise. Does not open it. */
OR_API orError_t orDeviceIsOpen(int* open, int device);
/* Waits for all streams of the current device. */
OR_API orError_t orDeviceSynchronize(void);
/* Waits for the current device, destroys its streams, events and graphs, frees its memory and closes it. */
OR_API orError_t orDeviceReset(void);
/* The offset from a device pointer to its address in the kernel view. It is the same for all memory of all
 * devices and does not change. Returns orErrorNotSupported without OR_CAP_HOST_EXECUTABLE. */
OR_API orError_t orGetKernelViewOffset(ptrdiff_t* offset, int device);

/* ---- Memory ------------------------------------------------------------------------------------------- */

/* Allocates memory on the current device. The host may do arithmetic on the pointer; a host access through it
 * faults. The contents are uninitialized. If `size` is 0, *ptr is NULL. */
OR_API orError_t orMalloc(void** ptr, size_t size);
/* Waits for submitted work of the device, frees the memory and invalidates its interprocess handles. NULL is
 * allowed. Returns orErrorNotPermitted if another process has the memory open, and inside a kernel unless
 * that kernel is the only unfinished work of the device. */
OR_API orError_t orFree(void* ptr);
/* Allocates pinned host memory, for asynchronous copies. If `size` is 0, *ptr is NULL. */
OR_API orError_t orMallocHost(void** ptr, size_t size);
OR_API orError_t orFreeHost(void* ptr);
/* Pins existing host memory. The range must not overlap memory that is already pinned. */
OR_API orError_t orHostRegister(void* ptr, size_t size);
OR_API orError_t orHostUnregister(void* ptr);
/* Free and total bytes of the current device. */
OR_API orError_t orMemGetInfo(size_t* free, size_t* total);
/* `attributes->struct_size` must be set. For unknown pointers the type is orMemoryTypeUnregistered; that is
 * not an error. */
OR_API orError_t orPointerGetAttributes(orPointerAttributes* attributes, const void* ptr);

/* Copies on the default stream of the device that owns the memory, and waits. */
OR_API orError_t orMemcpy(void* dst, const void* src, size_t size, orMemcpyKind kind);
/* Copies in stream order. With pinned or device memory the call returns immediately. A pageable source may be
 * modified as soon as the call returns. With a pageable destination the call waits for the copy. */
OR_API orError_t orMemcpyAsync(void* dst, const void* src, size_t size, orMemcpyKind kind, orStream_t stream);
OR_API orError_t orMemcpyPeer(void* dst, int dst_device, const void* src, int src_device, size_t size);
/* `stream` may belong to either device. */
OR_API orError_t orMemcpyPeerAsync(void* dst, int dst_device, const void* src, int src_device, size_t size,
                                   orStream_t stream);
OR_API orError_t orMemset(void* ptr, int value, size_t size);
OR_API orError_t orMemsetAsync(void* ptr, int value, size_t size, orStream_t stream);

/* ---- Streams ------------------------------------------------------------------------------------------ */

/* A handle of the default stream of the current device. Unlike NULL, it does not depend on the current device
 * of later calls. It cannot be destroyed. */
OR_API orError_t orStreamGetDefault(orStream_t* stream);
/* Creates a stream on the current device. */
OR_API orError_t orStreamCreate(orStream_t* stream);
/* A smaller number is a higher priority. Values outside the range of the device are clamped. */
OR_API orError_t orStreamCreateWithPriority(orStream_t* stream, int priority);
/* Returns immediately; submitted work still runs. */
OR_API orError_t orStreamDestroy(orStream_t stream);
/* Returns orErrorNotReady while work is unfinished, then orSuccess or orErrorKernelFailed. A failure is not
 * cleared: every query returns it until a synchronization does. */
OR_API orError_t orStreamQuery(orStream_t stream);
/* The number of submitted operations that are not finished: kernels, copies, event records and waits. Does
 * not report a failed kernel. With a driver that does not count operations, *count is 0 or 1. */
OR_API orError_t orStreamGetPending(orStream_t stream, uint64_t* count);
/* Waits for all work submitted so far. The waiting thread may run that work. A kernel that waits for its own
 * stream or device gets orErrorNotPermitted. */
OR_API orError_t orStreamSynchronize(orStream_t stream);
/* Work submitted to `stream` after this call waits for the latest record of the event at this call. */
OR_API orError_t orStreamWaitEvent(orStream_t stream, orEvent_t event);
/* Calls `function` in stream order, on any thread. It must not wait for the device. */
OR_API orError_t orLaunchHostFunc(orStream_t stream, orHostFunction function, void* user);
/* Queues a kernel. The argument block is copied; see orKernel for ownership. */
OR_API orError_t orLaunchKernel(orStream_t stream, const orKernel* kernel, const void* args,
                                size_t args_size);
/* Runs a kernel in stream order and returns when it is done. Work submitted after the call does not delay it.
 * The simulated device runs it on the calling thread. The argument block is not copied. A failure of the
 * kernel is returned and does not poison the stream. If earlier work failed, the call returns that failure
 * and does not run the kernel. A kernel may call this for its own stream; the new kernel then runs
 * immediately. */
OR_API orError_t orRunKernel(orStream_t stream, const orKernel* kernel, void* args);
/* Inside a kernel of orLaunchKernel, at most once: the kernel ends with orKernelFinish. The result of its
 * `run` is then ignored. Kernels of orRunKernel and of graphs get orErrorNotPermitted. See Note [Deferred
 * kernels]. */
OR_API orError_t orKernelDefer(orDeferred_t* deferred);
/* Ends a deferred kernel, from any thread, also before its `run` has returned. The handle is then invalid.
 * `result` other than orSuccess fails the kernel with the message `why` (may be NULL). */
OR_API orError_t orKernelFinish(orDeferred_t deferred, orError_t result, const char* why);
OR_API orError_t orStreamGetDevice(orStream_t stream, int* device);
OR_API orError_t orStreamGetPriority(orStream_t stream, int* priority);
/* The ID of the stream in traces: unique in the process and never reused; 0 for default streams. */
OR_API orError_t orStreamGetId(orStream_t stream, uint64_t* id);

/* Process-wide. The initial values come from the environment variables OPENREG_SCHEDULE (async, blocking,
 * adversarial) and OPENREG_SEED. Affects work submitted after the call. Only the adversarial schedule uses
 * the seed. */
OR_API orError_t orSetSchedule(orSchedule schedule, uint64_t seed);
OR_API orError_t orGetSchedule(orSchedule* schedule, uint64_t* seed);

/* ---- Events ------------------------------------------------------------------------------------------- */

/* Creates an event on the current device. */
OR_API orError_t orEventCreate(orEvent_t* event);
/* `flags`: orEventFlags, or'ed. */
OR_API orError_t orEventCreateWithFlags(orEvent_t* event, unsigned flags);
OR_API orError_t orEventDestroy(orEvent_t event);
/* Records the current position of the stream. Later queries and waits use the latest record; waits that are
 * already submitted keep theirs. The stream must belong to the device of the event. */
OR_API orError_t orEventRecord(orEvent_t event, orStream_t stream);
OR_API orError_t orEventGetDevice(orEvent_t event, int* device);
/* As orStreamQuery, for the work before the latest record. Returns orSuccess if there is no record. */
OR_API orError_t orEventQuery(orEvent_t event);
OR_API orError_t orEventSynchronize(orEvent_t event);
/* Milliseconds between the latest records of two events. Both must have timing and be finished. */
OR_API orError_t orEventElapsedTime(float* milliseconds, orEvent_t start, orEvent_t end);

/* ---- Graphs ------------------------------------------------------------------------------------------- */

/*
 * Note [Graphs]
 * Between orStreamBeginCapture and orStreamEndCapture, work submitted to the stream does not run: kernels,
 * copies and fills become nodes of a graph, with copies of their arguments. A stream that waits for an event
 * recorded on a captured stream joins the capture; it must be joined back through events before the capture
 * ends. A launch of the graph runs all nodes in the order of one stream.
 *
 * An event with orEventExternal does not connect streams of a capture. A record in a capture becomes a node:
 * each launch of the graph records the event at this node, for work and host threads outside of the graph. A
 * wait in a capture becomes a node that waits for the latest record of the event at the launch.
 *
 * These calls return orErrorCapture during a capture: to query or synchronize a captured stream, an event
 * recorded on it, or its device; to make it wait for an event from outside the capture; orRunKernel; copies
 * from or to pageable memory; and, depending on the mode, freeing memory. Such a call invalidates the
 * capture: later submissions to its streams, and the end of the capture, return orErrorCaptureInvalidated
 * with the message of the first error. The end of the capture always removes all streams from it.
 */
OR_API orError_t orStreamBeginCapture(orStream_t stream, orCaptureMode mode);
/* Call it on the stream that began the capture and, unless the mode is relaxed, on the same thread. */
OR_API orError_t orStreamEndCapture(orStream_t stream, orGraph_t* graph);
/* `id` (may be NULL): the ID of the capture, unique in the process and never reused. */
OR_API orError_t orStreamIsCapturing(orStream_t stream, orCaptureStatus* status, uint64_t* id);
/* For allocators: `follows` is 1 if the event was recorded in the capture of this stream, and all work before
 * it precedes the next work of the stream; otherwise 0. */
OR_API orError_t orStreamFollowsEvent(orStream_t stream, orEvent_t event, int* follows);
/* For libraries: returns orErrorCapture and invalidates the capture if the stream is captured. `what` is the
 * operation for the message, such as "nonzero". */
OR_API orError_t orStreamCheckUncaptured(orStream_t stream, const char* what);
/* For libraries: the same if a capture on the current device does not permit this thread to free memory. */
OR_API orError_t orDeviceCheckUncaptured(const char* what);
/* Runs the graph in stream order. The stream must belong to the device of the capture. Launches of the same
 * graph never overlap, also on different streams. A kernel that fails ends its launch; see
 * Note [Failed kernels]. */
OR_API orError_t orGraphLaunch(orGraph_t graph, orStream_t stream);
/* Returns immediately; launches in progress still run. */
OR_API orError_t orGraphDestroy(orGraph_t graph);
OR_API orError_t orGraphGetNodeCount(orGraph_t graph, size_t* count);
/* `node->struct_size` must be set. Nodes are numbered in execution order. */
OR_API orError_t orGraphGetNode(orGraph_t graph, size_t index, orGraphNode* node);

/* ---- Interprocess sharing ----------------------------------------------------------------------------- */

/* Creates a handle of `size` bytes at `ptr`, inside one allocation of this process, which one or more other
 * processes can open. Every call creates a new handle. */
OR_API orError_t orIpcGetMemHandle(orIpcMemHandle_t* handle, void* ptr, size_t size);
/* Invalidates a handle that was opened and that no process has open any more. Otherwise returns
 * orErrorNotReady: a handle that was never opened may still be in transit. */
OR_API orError_t orIpcRetireMemHandle(const orIpcMemHandle_t* handle);
/* Opens memory of another process; the owner cannot free it while it is open. The memory belongs to the
 * device with the same index. Opening it again returns the same address. A handle that this process created
 * returns orErrorNotPermitted, and then counts as opened. */
OR_API orError_t orIpcOpenMemHandle(void** ptr, const orIpcMemHandle_t* handle);
/* Closes memory of orIpcOpenMemHandle, once for each opening. Waits for submitted work, as orFree does. */
OR_API orError_t orIpcCloseMemHandle(void* ptr);
/* The same in stream order, without waiting. The caller must not use `ptr` in work submitted later. */
OR_API orError_t orIpcCloseMemHandleAsync(void* ptr, orStream_t stream);

/* Creates a handle of an event with orEventInterprocess. Destroying the event invalidates the handle. */
OR_API orError_t orIpcGetEventHandle(orIpcEventHandle_t* handle, orEvent_t event);
/* Opens an event of another process. Both processes can record it and wait for it. Close it with
 * orEventDestroy. A record of a process that has ended counts as finished. */
OR_API orError_t orIpcOpenEventHandle(orEvent_t* event, const orIpcEventHandle_t* handle);

/* ---- Tracing ------------------------------------------------------------------------------------------ */

typedef enum orTraceKind OR_INT_ENUM {
  orTraceKernel = 0,
  orTraceMemcpy = 1,
  orTraceMemset = 2,
  orTraceHostFunc = 3,
  orTraceSynchronize = 4,
  orTraceRange = 5,  /* a range of the program, from its push or start to its pop or end */
  orTraceInstant = 6 /* a mark of the program */
} orTraceKind;

typedef enum orTracePhase OR_INT_ENUM {
  orTraceLaunched = 0, /* on the launching thread, inside the launching call */
  orTraceFinished = 1, /* on any thread, once for each launch, with the times */
  orTraceReturned = 2 /* on the launching thread, when the launching call returns, with the times of the call;
                         not for synchronizations, ranges and marks */
} orTracePhase;

typedef struct orTraceRecord {
  uint32_t struct_size;
  orTraceKind kind;
  orTracePhase phase;
  const char* name;
  int32_t device;       /* -1 for ranges and marks */
  uint64_t stream;      /* as orStreamGetId returns it */
  uint64_t correlation; /* the same in all phases of one launch; unique */
  int64_t start_ns;     /* CLOCK_MONOTONIC; 0 in the phase orTraceLaunched */
  int64_t end_ns;
  size_t size; /* bytes copied or set */
  orMemcpyKind copy_kind;
  orError_t result;
  const char* function; /* the called function, such as "orLaunchKernel"; static lifetime */
} orTraceRecord;

typedef void (*orTraceCallback)(const orTraceRecord* record, void* user);

/* Calls `callback` for every launch after this call and for its completion, also if it completes after
 * orTraceUnsubscribe. The callback must not call the runtime. The `name` of a record is valid only during the
 * callback. There is one subscriber at a time; a second one gets orErrorNotPermitted. Without a subscriber,
 * tracing costs one load per launch. */
OR_API orError_t orTraceSubscribe(orTraceCallback callback, void* user);
OR_API orError_t orTraceUnsubscribe(void);

/* Ranges and marks of the program; they have no effect except on the trace. Pushed ranges of one thread nest.
 * `depth` (may be NULL) is the depth of the range that begins or ends; the outermost range has depth 0. A pop
 * without a push returns orErrorNotPermitted. The name is copied. */
OR_API orError_t orTraceRangePush(const char* name, int* depth);
OR_API orError_t orTraceRangePop(int* depth);
/* Ranges that need not nest and may end on another thread. An ID of no open range returns
 * orErrorInvalidValue. */
OR_API orError_t orTraceRangeStart(const char* name, uint64_t* id);
OR_API orError_t orTraceRangeEnd(uint64_t id);
OR_API orError_t orTraceMark(const char* name);

#ifdef __cplusplus
}
#endif

#endif /* OPENREG_OPENREG_H_ */
