/*
 * What a program calls: devices, memory, streams, events, graphs, errors, tracing.
 *
 * Every function returns an orError_t. A call that does not return orSuccess has done nothing, has left words
 * with the values in them for orGetLastErrorMessage(), and leaves the next call free to succeed. No function
 * aborts, throws or prints. All functions may be called from any thread; the current device and the last
 * error are the calling thread's own. No device is opened, no thread started and no memory reserved before
 * the first call that needs it.
 *
 * Note [Order]
 * Work on one stream runs in the order of its submission. Work on two streams has no order except through
 * events. The default stream (NULL) of a device is an ordinary stream: it waits for no other.
 *
 * Note [Failed kernels]
 * A kernel that fails poisons its stream: work queued behind it is dropped (its `release` is still called,
 * events recorded behind it still complete) until a synchronization of that stream, of an event recorded on
 * it behind the failure, or of its device returns orErrorKernelFailed with the kernel's name and words. That
 * call clears the poison; work submitted afterwards runs. Other streams are not touched.
 *
 * Note [Handles]
 * Streams, events and graphs are numbers, not addresses: one that was destroyed is recognized, never
 * dereferenced.
 *
 * Note [Other processes]
 * A process names a piece of its memory, carries the name to another process of the same user, and that one
 * opens it: both then use the same bytes, each through pointers of its own. The name holds a secret of 128
 * bits and cannot be guessed; one that is forged, or of something that is gone, is orErrorInvalidHandle. Who
 * opens holds: the memory cannot be freed under it. A hold ends when it is closed, or with its process
 * however that ends. Bytes opened elsewhere count for the process that allocated them. Memory stays usable
 * where it is open after its first process has ended; names do not.
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

/* ---- Errors ------------------------------------------------------------------------------------------- */

/* The code's name, as "orErrorInvalidValue"; never NULL, whatever the number. */
OR_API_VALUE const char* orGetErrorName(orError_t error);
/* What the code means in general; never NULL. */
OR_API_VALUE const char* orGetErrorString(orError_t error);
OR_API_VALUE orErrorClass orGetErrorClass(orError_t error);
/* The last error of this thread, which is then forgotten. orErrorNotReady is an answer, not an error. */
OR_API_VALUE orError_t orGetLastError(void);
/* The last error of this thread, which stays. */
OR_API_VALUE orError_t orPeekAtLastError(void);
/* A sentence with the values in it about this thread's last call that did not succeed. Valid until the next
 * such call on this thread; never NULL. */
OR_API_VALUE const char* orGetLastErrorMessage(void);
/* Not 0 in a child that was forked after the first use of a device. Every call that needs the device fails
 * there with orErrorForked, and takes no lock. Callable from destructors: it never fails and never locks. */
OR_API_VALUE int orIsForked(void);

/* ---- Devices ------------------------------------------------------------------------------------------ */

OR_API orError_t orGetDeviceCount(int* count);
/* The current device of this thread, 0 at first. */
OR_API orError_t orGetDevice(int* device);
OR_API orError_t orSetDevice(int device);
/* `properties->struct_size` must be set. Does not open the device. */
OR_API orError_t orGetDeviceProperties(orDeviceProperties* properties, int device);
/* *open is 1 if something has used the device, 0 otherwise. Does not open it. */
OR_API orError_t orDeviceIsOpen(int* open, int device);
/* Waits for all streams of the current device. */
OR_API orError_t orDeviceSynchronize(void);
/* Waits for the current device, then destroys its streams and events and frees its memory. The device is as
 * before its first use. */
OR_API orError_t orDeviceReset(void);
/* A number to add to a device pointer of `device` to get the address at which a kernel finds the byte. The
 * same for all memory of all devices, for ever. orErrorNotSupported without OR_CAP_HOST_EXECUTABLE. */
OR_API orError_t orGetKernelViewOffset(ptrdiff_t* offset, int device);

/* ---- Memory ------------------------------------------------------------------------------------------- */

/* Device memory on the current device. Its address can be computed with, but not read or written, on the
 * host: that faults. Zero bytes give NULL. Contents are undefined. */
OR_API orError_t orMalloc(void** ptr, size_t size);
/* Waits for work of the device that is already submitted, then frees. NULL is allowed. In a kernel it is
 * orErrorNotPermitted unless that kernel is the device's only unfinished work, and also for memory that
 * another process holds. Names of the memory are taken back. */
OR_API orError_t orFree(void* ptr);
/* Pinned host memory, usable in asynchronous copies. Zero bytes give NULL. */
OR_API orError_t orMallocHost(void** ptr, size_t size);
OR_API orError_t orFreeHost(void* ptr);
/* Makes existing host memory pinned. Ranges may not overlap one that is pinned already. */
OR_API orError_t orHostRegister(void* ptr, size_t size);
OR_API orError_t orHostUnregister(void* ptr);
/* Free and total bytes of the current device. */
OR_API orError_t orMemGetInfo(size_t* free, size_t* total);
/* `attributes->struct_size` must be set. A pointer that the runtime does not know is
 * orMemoryTypeUnregistered, not an error. */
OR_API orError_t orPointerGetAttributes(orPointerAttributes* attributes, const void* ptr);

/* Copies on the default stream of the device concerned and waits. */
OR_API orError_t orMemcpy(void* dst, const void* src, size_t size, orMemcpyKind kind);
/* Copies in stream order. With pinned or device memory it returns at once. From pageable memory the source
 * may be changed as soon as it returns; into pageable memory it returns when the bytes are there. */
OR_API orError_t orMemcpyAsync(void* dst, const void* src, size_t size, orMemcpyKind kind, orStream_t stream);
OR_API orError_t orMemcpyPeer(void* dst, int dst_device, const void* src, int src_device, size_t size);
/* In the order of `stream`, which may belong to either device. */
OR_API orError_t orMemcpyPeerAsync(void* dst, int dst_device, const void* src, int src_device, size_t size,
                                   orStream_t stream);
OR_API orError_t orMemset(void* ptr, int value, size_t size);
OR_API orError_t orMemsetAsync(void* ptr, int value, size_t size, orStream_t stream);

/* ---- Streams ------------------------------------------------------------------------------------------ */

/* The default stream of the current device, as a handle that means the same stream whatever device is
 * current. It cannot be destroyed. */
OR_API orError_t orStreamGetDefault(orStream_t* stream);
/* A stream of the current device. */
OR_API orError_t orStreamCreate(orStream_t* stream);
/* A smaller number is more urgent; numbers outside of the device's range are clamped to it. */
OR_API orError_t orStreamCreateWithPriority(orStream_t* stream, int priority);
/* Returns at once; what was submitted still runs. */
OR_API orError_t orStreamDestroy(orStream_t stream);
/* orSuccess if all work is finished, orErrorNotReady if not. Does not report a failed kernel. */
OR_API orError_t orStreamQuery(orStream_t stream);
/* How much work of the stream is submitted and not finished: kernels, copies, records and waits. Does not
 * report a failed kernel. A driver that does not count answers 0 or 1. */
OR_API orError_t orStreamGetPending(orStream_t stream, uint64_t* count);
/* Waits for all work submitted so far. The waiting thread may run that work itself. A kernel that waits for
 * its own stream or device gets orErrorNotPermitted. */
OR_API orError_t orStreamSynchronize(orStream_t stream);
/* Work submitted to `stream` from now on waits for the event's latest record as of now. */
OR_API orError_t orStreamWaitEvent(orStream_t stream, orEvent_t event);
/* Calls `function` on some thread, in stream order. It must not wait for the device. */
OR_API orError_t orLaunchHostFunc(orStream_t stream, orHostFunction function, void* user);
/* Queues a kernel. The argument block is copied; see orKernel for who releases what. */
OR_API orError_t orLaunchKernel(orStream_t stream, const orKernel* kernel, const void* args,
                                size_t args_size);
/* Runs a kernel in stream order and returns when it is done. Work that is submitted after the call does not
 * delay it. The simulated device runs it on the calling thread. The argument block is not copied. A failure
 * is returned here and poisons nothing; a failure of earlier work is returned instead of running the kernel.
 * A kernel may call this for its own stream: it runs at once. */
OR_API orError_t orRunKernel(orStream_t stream, const orKernel* kernel, void* args);
OR_API orError_t orStreamGetDevice(orStream_t stream, int* device);
OR_API orError_t orStreamGetPriority(orStream_t stream, int* priority);
/* A number that no other stream of this process has had; 0 for default streams. Traces carry it. */
OR_API orError_t orStreamGetId(orStream_t stream, uint64_t* id);

/* Process-wide; the environment's OPENREG_SCHEDULE (async, blocking, adversarial) and OPENREG_SEED decide at
 * first. Takes effect for work that is submitted afterwards. The seed matters to the adversarial schedule. */
OR_API orError_t orSetSchedule(orSchedule schedule, uint64_t seed);
OR_API orError_t orGetSchedule(orSchedule* schedule, uint64_t* seed);

/* ---- Events ------------------------------------------------------------------------------------------- */

/* An event of the current device. */
OR_API orError_t orEventCreate(orEvent_t* event);
OR_API orError_t orEventCreateWithFlags(orEvent_t* event, unsigned flags);
OR_API orError_t orEventDestroy(orEvent_t event);
/* Marks this point of the stream; a later record replaces an earlier one, for those who ask afterwards. The
 * stream must belong to the event's device. */
OR_API orError_t orEventRecord(orEvent_t event, orStream_t stream);
OR_API orError_t orEventGetDevice(orEvent_t event, int* device);
/* orSuccess if everything before the latest record is finished, or there is no record; else orErrorNotReady.
 */
OR_API orError_t orEventQuery(orEvent_t event);
OR_API orError_t orEventSynchronize(orEvent_t event);
/* Milliseconds between two records that are finished, of events with timing. */
OR_API orError_t orEventElapsedTime(float* milliseconds, orEvent_t start, orEvent_t end);

/* ---- Graphs ------------------------------------------------------------------------------------------- */

/*
 * Note [Graphs]
 * From orStreamBeginCapture to orStreamEndCapture nothing that the stream is given runs: kernels, copies and
 * fills become nodes of a graph, with the arguments that they have. An event recorded on the stream carries
 * the capture to every stream that waits for it; these have to be joined again, by events, before the end. A
 * launch of the graph runs all of it in the order of one stream.
 *
 * What cannot be written down is refused with orErrorCapture: to ask or to wait for a captured stream, for an
 * event recorded there, or for their device; to wait there for an event from outside; to run a kernel at
 * once; to copy from or to pageable memory; to free memory, as the capture's mode says. Such a call
 * invalidates the capture: what the stream is given after it, and the end, is orErrorCaptureInvalidated with
 * the words of the first refusal. Either way the end takes all streams out of the capture.
 */
OR_API orError_t orStreamBeginCapture(orStream_t stream, orCaptureMode mode);
/* On the stream of the begin; and on its thread, unless the mode is relaxed. */
OR_API orError_t orStreamEndCapture(orStream_t stream, orGraph_t* graph);
/* `id` (may be NULL): a number that no other capture of this process has had. */
OR_API orError_t orStreamIsCapturing(orStream_t stream, orCaptureStatus* status, uint64_t* id);
/* For libraries: orSuccess, or refuses if the stream is captured. `what` says who asks, as "nonzero". */
OR_API orError_t orStreamCheckUncaptured(orStream_t stream, const char* what);
/* For libraries: orSuccess, or refuses if a capture on the current device forbids this thread to free memory.
 */
OR_API orError_t orDeviceCheckUncaptured(const char* what);
/* Runs the graph in the order of the stream, which belongs to the device of the capture. Launches of one
 * graph run one after the other, whatever their streams. A kernel that fails ends its launch; see
 * Note [Failed kernels]. */
OR_API orError_t orGraphLaunch(orGraph_t graph, orStream_t stream);
/* Returns at once; what was launched still runs. */
OR_API orError_t orGraphDestroy(orGraph_t graph);
OR_API orError_t orGraphGetNodeCount(orGraph_t graph, size_t* count);
/* `node->struct_size` must be set. Nodes are numbered in the order in which they run. */
OR_API orError_t orGraphGetNode(orGraph_t graph, size_t index, orGraphNode* node);

/* ---- Other processes ---------------------------------------------------------------------------------- */

/* Names `size` bytes at `ptr`, inside one allocation of this process, for one or more others to open. Every
 * call makes another name. */
OR_API orError_t orIpcGetMemHandle(orIpcMemHandle_t* handle, void* ptr, size_t size);
/* Takes a name back: orSuccess if nobody holds the memory by it, and then it opens nothing any more.
 * orErrorNotReady as long as somebody does, or as nobody has opened it yet: it may be on its way. */
OR_API orError_t orIpcRetireMemHandle(const orIpcMemHandle_t* handle);
/* Opens memory that another process has named, and holds it. It is memory of the device with the same index,
 * and opened more than once has the same address. A name of this process's own counts as opened by the call,
 * which is orErrorNotPermitted: the memory is there already. */
OR_API orError_t orIpcOpenMemHandle(void** ptr, const orIpcMemHandle_t* handle);
/* Ends one opening of `ptr`. Waits for work that is already submitted, as orFree. */
OR_API orError_t orIpcCloseMemHandle(void* ptr);
/* The same in the order of `stream`, without waiting. From now on the caller does not use `ptr`. */
OR_API orError_t orIpcCloseMemHandleAsync(void* ptr, orStream_t stream);

/* Names an event that was created with orEventInterprocess. Destroying the event takes the name back. */
OR_API orError_t orIpcGetEventHandle(orIpcEventHandle_t* handle, orEvent_t event);
/* An event of this process that is the same as the named one: either process records, either waits. Ends with
 * orEventDestroy. A record whose process has died counts as finished. */
OR_API orError_t orIpcOpenEventHandle(orEvent_t* event, const orIpcEventHandle_t* handle);

/* ---- Tracing ------------------------------------------------------------------------------------------ */

typedef enum orTraceKind OR_INT_ENUM {
  orTraceKernel = 0,
  orTraceMemcpy = 1,
  orTraceMemset = 2,
  orTraceHostFunc = 3,
  orTraceSynchronize = 4,
  orTraceRange = 5,  /* a stretch of a program, between its push and its pop */
  orTraceInstant = 6 /* a moment of a program */
} orTraceKind;

typedef enum orTracePhase OR_INT_ENUM {
  orTraceLaunched = 0, /* on the launching thread, inside the launching call */
  orTraceFinished = 1, /* on any thread, once for each launch, with the times */
  orTraceReturned = 2  /* on the launching thread, when the launching call ends, with the times of the call;
                          not  for synchronizations and ranges, which end with their call */
} orTracePhase;

typedef struct orTraceRecord {
  uint32_t struct_size;
  orTraceKind kind;
  orTracePhase phase;
  const char* name;
  int32_t device;       /* -1 for ranges and marks, which belong to no device */
  uint64_t stream;      /* as orStreamGetId */
  uint64_t correlation; /* the same number in all phases of one launch, and in no other */
  int64_t start_ns;     /* CLOCK_MONOTONIC; 0 while only launched */
  int64_t end_ns;
  size_t size; /* bytes copied or set */
  orMemcpyKind copy_kind;
  orError_t result;
  const char* function; /* the function of this header that was called, "orLaunchKernel"; lives for ever */
} orTraceRecord;

typedef void (*orTraceCallback)(const orTraceRecord* record, void* user);

/* Calls `callback` for every launch from now on, and for its finish, also if that is after unsubscribing. It
 * must not call the runtime, nor keep a record's `name` beyond the call. One subscriber at a time: a second
 * is orErrorNotPermitted. Without a subscriber a launch costs one load more. */
OR_API orError_t orTraceSubscribe(orTraceCallback callback, void* user);
OR_API orError_t orTraceUnsubscribe(void);

/* Ranges and marks of a program, for the subscriber to see; nothing else happens. Ranges of one thread nest.
 * Both give the depth of the range that is begun or ended, 0 for the outermost; `depth` may be NULL. A pop
 * without a push is orErrorNotPermitted. The name is copied. */
OR_API orError_t orTraceRangePush(const char* name, int* depth);
OR_API orError_t orTraceRangePop(int* depth);
/* Ranges that need not nest, and may end on another thread. An id that is not open is orErrorInvalidValue. */
OR_API orError_t orTraceRangeStart(const char* name, uint64_t* id);
OR_API orError_t orTraceRangeEnd(uint64_t id);
OR_API orError_t orTraceMark(const char* name);

#ifdef __cplusplus
}
#endif

#endif /* OPENREG_OPENREG_H_ */
