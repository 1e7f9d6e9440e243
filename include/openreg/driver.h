/*
 * What a device implements: one table of functions.
 *
 * Note [Versions]
 * The table begins with its size and version. Fields are only ever appended, so a runtime reads an older
 * driver's shorter table and takes the documented default for what is missing. OR_DRIVER_VERSION goes up when
 * a field is appended; OR_DRIVER_OLDEST when the meaning of one changes, and drivers older than that are
 * refused. The interface is not yet promised to be stable.
 *
 * Note [Who checks]
 * The runtime checks arguments and handles before it calls: devices are in range and open, sizes are not
 * zero, pointers are inside live allocations, streams and events are alive. A driver need not check again.
 *
 * Note [Errors]
 * An entry returns a code of error.h. Before it returns anything but orSuccess or orErrorNotReady it may say
 * why through orHost.report, with the values in the words; else the code's general text is used. No C++ type
 * and no exception crosses this table.
 *
 * Note [Threads]
 * Every entry may be called from any thread, and several at the same time. An entry that waits may run
 * pending work on the waiting thread.
 */
#ifndef OPENREG_DRIVER_H_
#define OPENREG_DRIVER_H_

#include "openreg/types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define OR_DRIVER_VERSION 3
#define OR_DRIVER_OLDEST 1

typedef struct orDriverStream orDriverStream;
typedef struct orDriverEvent orDriverEvent;
typedef struct orDriverGraph orDriverGraph;

/* What the runtime offers a driver. */
typedef struct orHost {
  uint32_t struct_size;
  /* The words for the error that the calling entry is about to return. Copied. */
  void (*report)(const char* words);
} orHost;

/* Memory of another process, as it is opened in this one. */
typedef struct orDriverIpcMemory {
  int32_t device;
  void* ptr; /* the named bytes */
  size_t size;
  void* base; /* the allocation that holds them; the same for all of its names while one is open */
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
  /* All streams and events are destroyed and all memory is freed by then. */
  orError_t (*device_close)(int device);
  /* (optional) The number that turns a device pointer into the address for kernels, for an open device.
   * Without it: no OR_CAP_HOST_EXECUTABLE. */
  orError_t (*kernel_view_offset)(int device, ptrdiff_t* offset);

  /* ---- Memory --------------------------------------------------------------------------------------- */

  /* `size` is a multiple of allocation_granularity. Out of memory is orErrorOutOfMemory. */
  orError_t (*memory_alloc)(int device, size_t size, void** ptr);
  /* No submitted work uses the memory any more. */
  orError_t (*memory_free)(int device, void* ptr, size_t size);
  orError_t (*memory_info)(int device, size_t* free, size_t* total);
  /* (optional) Pinned host memory. Without it: page-aligned ordinary memory. */
  orError_t (*host_alloc)(size_t size, void** ptr);
  orError_t (*host_free)(void* ptr, size_t size);

  /* ---- Streams -------------------------------------------------------------------------------------- */

  /* `id` is the number by which words and traces call the stream. */
  orError_t (*stream_create)(int device, int priority, uint64_t id, orDriverStream** stream);
  /* Returns at once; what was submitted still runs. */
  orError_t (*stream_destroy)(orDriverStream* stream);
  /* orSuccess or orErrorNotReady. */
  orError_t (*stream_query)(orDriverStream* stream);
  /* Waits, then returns and clears the failure of a kernel, if there was one. */
  orError_t (*stream_synchronize)(orDriverStream* stream);
  orError_t (*stream_wait_event)(orDriverStream* stream, orDriverEvent* event);
  /* Copies the argument block. `observer` (may be NULL) is copied and told once when the work is done. */
  orError_t (*stream_launch)(orDriverStream* stream, const orKernel* kernel, const void* args,
                             size_t args_size, const orObserver* observer);
  /* (optional) As orRunKernel. Without it: stream_launch, then stream_synchronize. */
  orError_t (*stream_run)(orDriverStream* stream, const orKernel* kernel, void* args,
                          const orObserver* observer);
  /* Host memory, pinned or not, stays valid until the copy is done. Peer copies only with
   * OR_CAP_PEER_COPY. */
  orError_t (*stream_copy)(orDriverStream* stream, void* dst, const void* src, size_t size, orMemcpyKind kind,
                           const orObserver* observer);
  orError_t (*stream_fill)(orDriverStream* stream, void* ptr, int value, size_t size,
                           const orObserver* observer);
  /* Waits for all streams of the device; returns and clears the first failure found. */
  orError_t (*device_synchronize)(int device);
  /* (optional) Without it only orScheduleAsync is possible. */
  orError_t (*set_schedule)(orSchedule schedule, uint64_t seed);

  /* ---- Events --------------------------------------------------------------------------------------- */

  orError_t (*event_create)(int device, unsigned flags, orDriverEvent** event);
  orError_t (*event_destroy)(orDriverEvent* event);
  orError_t (*event_record)(orDriverEvent* event, orDriverStream* stream);
  /* orSuccess or orErrorNotReady. */
  orError_t (*event_query)(orDriverEvent* event);
  orError_t (*event_synchronize)(orDriverEvent* event);
  /* Both have timing, and their latest records are finished, or this is orErrorNotReady. */
  orError_t (*event_elapsed)(orDriverEvent* start, orDriverEvent* end, float* milliseconds);

  /* ---- Appended ------------------------------------------------------------------------------------- */

  /* (optional) As device_synchronize, but leaves a failure for the next synchronization to return. A kernel
   * may call it while nothing else of the device is unfinished; else that is orErrorNotPermitted.
   * Without it: device_synchronize, and freeing memory also reports failures. */
  orError_t (*device_drain)(int device);

  /* (optional, all of the following or none) Graphs; see Note [Graphs] in openreg.h. Without them:
   * orErrorNotSupported, and no stream is ever captured. A captured launch has no observer; the driver
   * refuses one that has. Refusing a call that a capture does not permit, and invalidating, is the driver's.
   */
  orError_t (*stream_begin_capture)(orDriverStream* stream, orCaptureMode mode);
  orError_t (*stream_end_capture)(orDriverStream* stream, orDriverGraph** graph, size_t* nodes);
  orError_t (*stream_capture_status)(orDriverStream* stream, orCaptureStatus* status, uint64_t* id);
  orError_t (*stream_check_uncaptured)(orDriverStream* stream, const char* what);
  orError_t (*device_check_uncaptured)(int device, const char* what);
  /* `observers` (may be NULL): one for each node. Copied. */
  orError_t (*graph_launch)(orDriverGraph* graph, orDriverStream* stream, const orObserver* observers);
  orError_t (*graph_node)(orDriverGraph* graph, size_t index, orGraphNode* node);
  /* Returns at once; what was launched still runs. */
  orError_t (*graph_destroy)(orDriverGraph* graph);

  /* (optional, all of them or none) Memory and events between processes, as Note [Other processes] in
   * openreg.h has it. Without them: no OR_CAP_IPC. None of them waits for work.
   *
   * `base` and `base_size` are the allocation that holds the bytes. */
  orError_t (*ipc_name)(int device, void* base, size_t base_size, void* ptr, size_t size,
                        orIpcMemHandle_t* handle);
  /* orSuccess or orErrorNotReady. */
  orError_t (*ipc_retire)(const orIpcMemHandle_t* handle);
  /* Takes back all names of the allocation. orErrorNotPermitted if another process holds one, unless
   * `force`. */
  orError_t (*ipc_withdraw)(int device, void* base, int force);
  /* Called for a device that may not be open yet. */
  orError_t (*ipc_open)(const orIpcMemHandle_t* handle, orDriverIpcMemory* memory);
  /* No work that is submitted from now on uses the memory. *last: nobody has the allocation open any more. */
  orError_t (*ipc_close)(void* ptr, int* last);
  orError_t (*ipc_name_event)(orDriverEvent* event, orIpcEventHandle_t* handle);
  orError_t (*ipc_open_event)(const orIpcEventHandle_t* handle, int* device, orDriverEvent** event);

  /* (optional) As orStreamGetPending; called often, so it takes no lock. Without it: 0 or 1, from
   * stream_query. */
  orError_t (*stream_pending)(orDriverStream* stream, uint64_t* count);
} orDriver;

/* The one symbol that a driver exports. */
typedef const orDriver* (*orGetDriverFunction)(void);

#ifdef __cplusplus
}
#endif

#endif /* OPENREG_DRIVER_H_ */
