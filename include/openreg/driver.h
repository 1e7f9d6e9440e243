/*
 * The driver interface: one table of functions, which a device implements.
 *
 * Note [Loading]
 * A driver is a shared library that exports orGetDriver. The runtime loads the library that OPENREG_DRIVER
 * names, else the one of orSetDriver, else it uses the embedded simulated device. It loads one driver, before
 * the first use of a device (in a program that imports torch: at the import), and never unloads it. Loading
 * the library and calling orGetDriver must not start threads or open devices.
 *
 * Note [Compatibility]
 * A driver is built once and works with later and earlier runtimes:
 * - The table only grows. A field is never removed, moved or reused, and an entry never changes its
 * signature. OR_DRIVER_VERSION increases when fields are appended.
 * - An older driver has a shorter table. The runtime treats each missing entry as NULL, with the default in
 * its comment. All entries after "Appended" are optional.
 * - A newer driver has a longer table, of at most OR_DRIVER_LARGEST bytes. The runtime does not read fields
 * that it does not know. The driver must work if these are never called. If it cannot, it sets
 * `oldest_runtime`.
 * - If the meaning of an entry has to change, a new entry is appended. Only if that is impossible,
 *   OR_DRIVER_OLDEST increases; the runtime rejects drivers with a smaller version.
 * - Structs that may grow begin with struct_size, set by the side that owns the memory. Neither side accesses
 * a field beyond it: a driver checks orHost.struct_size before it uses a field that was appended to orHost,
 * and device_properties and graph_node write no field beyond the struct_size of their argument. All other
 * structs of this interface never change.
 * - Codes of error.h may be added. The runtime passes on codes that it does not know.
 *
 * Note [Argument checks]
 * The runtime validates arguments and handles before it calls an entry: devices are in range and open, sizes
 * are not zero, pointers are inside live allocations, streams and events are alive. A driver need not check
 * them again.
 *
 * Note [Errors]
 * An entry returns a code of error.h. Before it returns a code other than orSuccess and orErrorNotReady, it
 * may pass a message with the values to orHost.report; otherwise the runtime uses the text of the code. No
 * C++ type and no exception crosses this table. An entry that returns orSuccess has set its results: a NULL
 * object is an error of the driver.
 *
 * Note [Text]
 * Strings are zero-terminated UTF-8. In text from a driver the runtime replaces each invalid byte with '?',
 * and removes a character that a buffer has cut.
 *
 * Note [Rules of streams and kernels]
 * The driver implements Note [Stream order], Note [Failed kernels], Note [Deferred kernels], Note [Graphs]
 * and Note [Interprocess sharing] of openreg.h. It may run work inside the call that submits it. Kernels of
 * one stream never overlap. openreg-driver-check checks all of these rules.
 *
 * Note [Fork]
 * A process may fork after `init` and before a device is opened; parent and child can then both use the
 * driver. After a device was opened, the runtime calls no entry in a forked child. The fork must not disturb
 * the parent, and the child must be able to end. A process may end while work is pending.
 *
 * Note [Thread safety]
 * Every entry may be called from any thread, also concurrently. An entry that waits may run pending work on
 * the waiting thread.
 */
#ifndef OPENREG_DRIVER_H_
#define OPENREG_DRIVER_H_

#include "openreg/device_code.h"
#include "openreg/types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define OR_DRIVER_VERSION 6
#define OR_DRIVER_OLDEST 1
#define OR_DRIVER_LARGEST 65536 /* bytes of a table; a larger struct_size was not initialized */

typedef struct orDriverStream orDriverStream;
typedef struct orDriverEvent orDriverEvent;
typedef struct orDriverGraph orDriverGraph;
typedef struct orDriverDeferred orDriverDeferred;
typedef struct orDriverModule orDriverModule;
typedef struct orDriverFunction orDriverFunction;

/* Functions of the runtime that a driver may call. */
typedef struct orHost {
  uint32_t struct_size;
  /* Sets the message of the error that the calling entry is about to return. The message is copied. */
  void (*report)(const char* message);
  /* OR_DRIVER_VERSION of the runtime. (since version 5; in an older runtime struct_size ends before it) */
  uint32_t version;
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
  uint32_t struct_size;  /* sizeof(orDriver) */
  uint32_t version;      /* OR_DRIVER_VERSION */
  const char* name;      /* of the driver, in messages; lives as long as the process */
  uint64_t capabilities; /* OR_CAP_* */

  /* ---- Devices -------------------------------------------------------------------------------------- */

  /* Called once, before any other entry. Reads the configuration; opens nothing and starts no thread, so that
   * a process can fork after it. If it fails, no other entry is called. */
  orError_t (*init)(const orHost* host);
  /* 0 to OR_MAX_DEVICES. On a machine with more, report the first ones: the runtime uses none if there are
   * too many. */
  orError_t (*device_count)(int* count);
  orError_t (*device_properties)(int device, orDeviceProperties* properties);
  /* Called once before the first use of the device, and again after device_close. */
  orError_t (*device_open)(int device);
  /* Called after all streams and events are destroyed and all memory is freed. */
  orError_t (*device_close)(int device);
  /* (optional) The offset from a device pointer to its address in the kernel view. The device is open.
   * Without it: no OR_CAP_HOST_EXECUTABLE. 0: unified memory. With another offset, an address that was device
   * memory once never becomes host memory, so that the runtime can reject stale pointers. */
  orError_t (*kernel_view_offset)(int device, ptrdiff_t* offset);

  /* ---- Memory --------------------------------------------------------------------------------------- */

  /* `size` and the returned address are multiples of allocation_granularity, a power of two. Returns
   * orErrorOutOfMemory if no block is free. */
  orError_t (*memory_alloc)(int device, size_t size, void** ptr);
  /* All submitted work that uses the memory has finished. */
  orError_t (*memory_free)(int device, void* ptr, size_t size);
  orError_t (*memory_info)(int device, size_t* free, size_t* total);
  /* (optional, both or none) Pinned host memory, aligned to 64 bytes or more. Without it: page-aligned
   * pageable memory. */
  orError_t (*host_alloc)(size_t size, void** ptr);
  orError_t (*host_free)(void* ptr, size_t size);

  /* ---- Streams -------------------------------------------------------------------------------------- */

  /* `id` identifies the stream in error messages and traces. */
  orError_t (*stream_create)(int device, int priority, uint64_t id, orDriverStream** stream);
  /* Returns immediately; submitted work still runs. */
  orError_t (*stream_destroy)(orDriverStream* stream);
  /* Returns orErrorNotReady, or when all submitted work is done: the pending kernel failure, without clearing
   * it, or orSuccess. A driver may leave failures to the synchronizations. */
  orError_t (*stream_query)(orDriverStream* stream);
  /* Waits for all submitted work, then returns and clears the pending kernel failure, if any. */
  orError_t (*stream_synchronize)(orDriverStream* stream);
  orError_t (*stream_wait_event)(orDriverStream* stream, orDriverEvent* event);
  /* Runs a kernel, which is host code. Without OR_CAP_HOST_EXECUTABLE it cannot access device memory; the
   * runtime still uses it for host functions. Copies the argument block. `observer` (may be NULL) is copied
   * and called once when the work is done. */
  orError_t (*stream_launch)(orDriverStream* stream, const orKernel* kernel, const void* args,
                             size_t args_size, const orObserver* observer);
  /* (optional) As orRunKernel. Without it: stream_launch, then stream_synchronize. */
  orError_t (*stream_run)(orDriverStream* stream, const orKernel* kernel, void* args,
                          const orObserver* observer);
  /* `kind` says which side is device memory; it is never orMemcpyDefault. The runtime keeps host memory,
   * pinned or pageable, valid until the copy is done. Peer copies require OR_CAP_PEER_COPY. */
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
  /* As stream_query, for the work before the latest record. */
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

  /* ---- Since version 5 ------------------------------------------------------------------------------ */

  /* (optional) The smallest OR_DRIVER_VERSION of a runtime that can use this driver. 0: any. */
  uint32_t oldest_runtime;
  uint32_t reserved; /* 0 */

  /* (optional, all of the following or none) Device code; see Note [Device code] in device_code.h. Without
   * them: no OR_CAP_DEVICE_CODE.
   *
   * Loads an image, which is copied; the device is open. `image` is NULL: the functions that are built into
   * the driver. An image that the device cannot run returns orErrorInvalidValue.
   *
   * module_load and module_function may be called while streams are captured, by any thread, and do not
   * affect the capture: the first launch of a program may be in a capture. */
  orError_t (*module_load)(int device, const void* image, size_t size, orDriverModule** module);
  /* Submitted launches still run. */
  orError_t (*module_unload)(orDriverModule* module);
  /* Returns orErrorNotSupported if the module has no such function. The function lives as long as the module.
   */
  orError_t (*module_function)(orDriverModule* module, const char* name, orDriverFunction** function);
  /* Copies the argument block. Order, failures, observers and captures as stream_launch. */
  orError_t (*stream_launch_function)(orDriverStream* stream, orDriverFunction* function,
                                      const orLaunchConfig* config, const void* args, size_t args_size,
                                      const orObserver* observer);

  /* (optional) As orStreamGetNativeHandle and orDeviceGetNativeHandle. Without it: orErrorNotSupported. */
  orError_t (*stream_native_handle)(orDriverStream* stream, void** handle);
  orError_t (*device_native_handle)(int device, void** handle);

  /* ---- Since version 6 ------------------------------------------------------------------------------ */

  /* (optional) The stream fails, with `why` in the message, as if a kernel had failed: submitted work that
   * has not started is dropped, and waits for events that were submitted end. Returns immediately. Work that
   * runs and deferred kernels finish as they would otherwise. Without it: the watchdog cannot fail streams.
   */
  orError_t (*stream_abort)(orDriverStream* stream, const char* why);
} orDriver;

/* The only symbol that a driver exports. Returns the same table at each call; the table lives as long as the
 * process and does not change. */
#define OR_DRIVER_SYMBOL "orGetDriver"
typedef const orDriver* (*orGetDriverFunction)(void);
__attribute__((visibility("default"))) const orDriver* orGetDriver(void);

#ifdef __cplusplus
}
#endif

#endif /* OPENREG_DRIVER_H_ */
