/*
 * The driver interface: one table of functions, which a device implements.
 *
 * Note [Versions]
 * The table begins with its size and version. New fields are only appended. A runtime can therefore read the
 * shorter table of an older driver; it uses the documented default for each missing field. OR_DRIVER_VERSION
 * increases when a field is appended. OR_DRIVER_OLDEST increases when the meaning of a field changes; the
 * runtime rejects drivers with a smaller version. The interface is not stable yet.
 *
 * Note [Argument checks]
 * The runtime validates arguments and handles before it calls an entry: devices are in range and open, sizes
 * are not zero, pointers are inside live allocations, streams and events are alive. A driver need not check
 * them again.
 *
 * Note [Errors]
 * An entry returns a code of error.h. Before it returns a code other than orSuccess and orErrorNotReady, it
 * may pass a message with the values to orHost.report; otherwise the runtime uses the text of the code. No
 * C++ type and no exception crosses this table.
 *
 * Note [Thread safety]
 * Every entry may be called from any thread, also concurrently. An entry that waits may run pending work on
 * the waiting thread.
 */
#ifndef OPENREG_DRIVER_H_
#define OPENREG_DRIVER_H_

#include "openreg/types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define OR_DRIVER_VERSION 4
#define OR_DRIVER_OLDEST 1

typedef struct orDriverStream orDriverStream;
typedef struct orDriverEvent orDriverEvent;
typedef struct orDriverGraph orDriverGraph;
typedef struct orDriverDeferred orDriverDeferred;

/* Functions of the runtime that a driver may call. */
typedef struct orHost {
  uint32_t struct_size;
  /* Sets the message of the error that the calling entry is about to return. The message is copied. */
  void (*report)(const char* message);
} orHost;

/* Memory of another process, opened in this process. */
typedef struct orDriverIpcMemory {
  int32_t device;
  void* ptr; /* the exported bytes */
  size_t size;
  void* base; /* the allocation that contains them; the same for all its handles while one is open */
  size_t base_size;
} orDriverIpcMemory;

typedef struct orDriver {
  uint32_t struct_size;
  uint32_t version;
  const char* name;
  uint64_t capabilities; /* OR_CAP_* */

  /* ---- Devices -------------------------------------------------------------------------------------- */

  /* Called once, before any other entry. Reads the configuration; opens nothing. */
  orError_t (*init)(const orHost* host);
  orError_t (*device_count)(int* count);
  orError_t (*device_properties)(int device, orDeviceProperties* properties);
  /* Called once before the first use of the device, and again after device_close. */
  orError_t (*device_open)(int device);
  /* Called after all streams and events are destroyed and all memory is freed. */
  orError_t (*device_close)(int device);
  /* (optional) The offset from a device pointer to its address in the kernel view. The device is open.
   * Without it: no OR_CAP_HOST_EXECUTABLE. */
  orError_t (*kernel_view_offset)(int device, ptrdiff_t* offset);

  /* ---- Memory --------------------------------------------------------------------------------------- */

  /* `size` is a multiple of allocation_granularity. Returns orErrorOutOfMemory if no block is free. */
  orError_t (*memory_alloc)(int device, size_t size, void** ptr);
  /* All submitted work that uses the memory has finished. */
  orError_t (*memory_free)(int device, void* ptr, size_t size);
  orError_t (*memory_info)(int device, size_t* free, size_t* total);
  /* (optional) Pinned host memory. Without it: page-aligned pageable memory. */
  orError_t (*host_alloc)(size_t size, void** ptr);
  orError_t (*host_free)(void* ptr, size_t size);

  /* ---- Streams -------------------------------------------------------------------------------------- */

  /* `id` identifies the stream in error messages and traces. */
  orError_t (*stream_create)(int device, int priority, uint64_t id, orDriverStream** stream);
  /* Returns immediately; submitted work still runs. */
  orError_t (*stream_destroy)(orDriverStream* stream);
  /* Returns orSuccess or orErrorNotReady. */
  orError_t (*stream_query)(orDriverStream* stream);
  /* Waits for all submitted work, then returns and clears the pending kernel failure, if any. */
  orError_t (*stream_synchronize)(orDriverStream* stream);
  orError_t (*stream_wait_event)(orDriverStream* stream, orDriverEvent* event);
  /* Copies the argument block. `observer` (may be NULL) is copied and called once when the work is done. */
  orError_t (*stream_launch)(orDriverStream* stream, const orKernel* kernel, const void* args,
                             size_t args_size, const orObserver* observer);
  /* (optional) As orRunKernel. Without it: stream_launch, then stream_synchronize. */
  orError_t (*stream_run)(orDriverStream* stream, const orKernel* kernel, void* args,
                          const orObserver* observer);
  /* The runtime keeps host memory, pinned or pageable, valid until the copy is done. Peer copies require
   * OR_CAP_PEER_COPY. */
  orError_t (*stream_copy)(orDriverStream* stream, void* dst, const void* src, size_t size, orMemcpyKind kind,
                           const orObserver* observer);
  orError_t (*stream_fill)(orDriverStream* stream, void* ptr, int value, size_t size,
                           const orObserver* observer);
  /* Waits for all streams of the device, then returns and clears the first failure found. */
  orError_t (*device_synchronize)(int device);
  /* (optional) Without it: only orScheduleAsync is supported. */
  orError_t (*set_schedule)(orSchedule schedule, uint64_t seed);

  /* ---- Events --------------------------------------------------------------------------------------- */

  orError_t (*event_create)(int device, unsigned flags, orDriverEvent** event);
  orError_t (*event_destroy)(orDriverEvent* event);
  orError_t (*event_record)(orDriverEvent* event, orDriverStream* stream);
  /* Returns orSuccess or orErrorNotReady. */
  orError_t (*event_query)(orDriverEvent* event);
  orError_t (*event_synchronize)(orDriverEvent* event);
  /* Both events have timing. Returns orErrorNotReady if the latest record of one has not completed. */
  orError_t (*event_elapsed)(orDriverEvent* start, orDriverEvent* end, float* milliseconds);

  /* ---- Appended ------------------------------------------------------------------------------------- */

  /* (optional) As device_synchronize, but does not return or clear a kernel failure; the next synchronization
   * does. A kernel may call it if it is the only unfinished work of the device; otherwise the entry returns
   * orErrorNotPermitted. Without it: device_synchronize, and freeing memory also returns kernel failures. */
  orError_t (*device_drain)(int device);

  /* (optional, all of the following or none) Graphs; see Note [Graphs] in openreg.h. Without them:
   * orErrorNotSupported, and streams are never captured. A captured launch has no observer; the driver
   * rejects a captured launch with one. The driver rejects calls that a capture does not permit, and
   * invalidates the capture. */
  orError_t (*stream_begin_capture)(orDriverStream* stream, orCaptureMode mode);
  orError_t (*stream_end_capture)(orDriverStream* stream, orDriverGraph** graph, size_t* nodes);
  orError_t (*stream_capture_status)(orDriverStream* stream, orCaptureStatus* status, uint64_t* id);
  orError_t (*stream_check_uncaptured)(orDriverStream* stream, const char* what);
  orError_t (*device_check_uncaptured)(int device, const char* what);
  /* `observers` (may be NULL): one for each node; copied. */
  orError_t (*graph_launch)(orDriverGraph* graph, orDriverStream* stream, const orObserver* observers);
  orError_t (*graph_node)(orDriverGraph* graph, size_t index, orGraphNode* node);
  /* Returns immediately; launches in progress still run. */
  orError_t (*graph_destroy)(orDriverGraph* graph);

  /* (optional, all of them or none) Memory and events shared between processes; see
   * Note [Interprocess sharing] in openreg.h. Without them: no OR_CAP_IPC. No entry waits for work.
   *
   * ipc_name creates a handle. `base` and `base_size` describe the allocation that contains the bytes. */
  orError_t (*ipc_name)(int device, void* base, size_t base_size, void* ptr, size_t size,
                        orIpcMemHandle_t* handle);
  /* Returns orSuccess or orErrorNotReady. */
  orError_t (*ipc_retire)(const orIpcMemHandle_t* handle);
  /* Invalidates all handles of the allocation. Returns orErrorNotPermitted if another process has one open,
   * unless `force` is set. */
  orError_t (*ipc_withdraw)(int device, void* base, int force);
  /* The device need not be open. */
  orError_t (*ipc_open)(const orIpcMemHandle_t* handle, orDriverIpcMemory* memory);
  /* Work submitted after this call does not use the memory. *last: this process has no other handle of the
   * allocation open. */
  orError_t (*ipc_close)(void* ptr, int* last);
  orError_t (*ipc_name_event)(orDriverEvent* event, orIpcEventHandle_t* handle);
  orError_t (*ipc_open_event)(const orIpcEventHandle_t* handle, int* device, orDriverEvent** event);

  /* (optional) As orStreamGetPending. It is called often and should not take a lock. Without it: 0 or 1, from
   * stream_query. */
  orError_t (*stream_pending)(orDriverStream* stream, uint64_t* count);

  /* (optional) As orStreamFollowsEvent. Without it: 0. */
  orError_t (*stream_follows_event)(orDriverStream* stream, orDriverEvent* event, int* follows);

  /* (optional, both or none) As orKernelDefer and orKernelFinish; kernel_finish is called once for each
   * handle. Without them: orErrorNotSupported. */
  orError_t (*kernel_defer)(orDriverDeferred** deferred);
  orError_t (*kernel_finish)(orDriverDeferred* deferred, orError_t result, const char* why);
} orDriver;

/* The only symbol that a driver exports. */
typedef const orDriver* (*orGetDriverFunction)(void);

#ifdef __cplusplus
}
#endif

#endif /* OPENREG_DRIVER_H_ */
