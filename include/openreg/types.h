/*
 * The types that a program (openreg.h) and a driver (driver.h) share. Plain C, no function.
 *
 * Structs that may grow begin with struct_size; whoever fills one in sets it to sizeof the struct it was
 * compiled with, and whoever reads one looks at no field beyond it.
 */
#ifndef OPENREG_TYPES_H_
#define OPENREG_TYPES_H_

#include "openreg/error.h"

#include <stddef.h>
#include <stdint.h>

/* What a device is. Sizes in bytes. */
typedef struct orDeviceProperties {
  uint32_t struct_size;
  char name[64];
  size_t total_memory;
  size_t allocation_granularity; /* every allocation is rounded up to a multiple of this */
  int32_t major;                 /* generation of the device */
  int32_t minor;
  int32_t multi_processor_count; /* kernels that can run at the same time */
  int32_t least_priority;        /* the range of stream priorities; a smaller number is more urgent */
  int32_t greatest_priority;
  uint64_t capabilities; /* OR_CAP_* bits */
} orDeviceProperties;

/* Capabilities: what a driver declares that it can do beyond the required entries. */
#define OR_CAP_HOST_EXECUTABLE (1ull << 0) /* host code can be a kernel: memory has a kernel view */
#define OR_CAP_PEER_COPY (1ull << 1)       /* copies between two devices without passing through the host */
#define OR_CAP_TIMING (1ull << 2)          /* events can carry a time */
#define OR_CAP_PRIORITIES (1ull << 3)      /* stream priorities are respected */
#define OR_CAP_IPC (1ull << 4)             /* memory and events can be shared between processes */

typedef enum orMemoryType OR_INT_ENUM {
  orMemoryTypeUnregistered = 0, /* ordinary host memory, unknown to the runtime */
  orMemoryTypeHost = 1,         /* pinned: from orMallocHost, or given to orHostRegister */
  orMemoryTypeDevice = 2
} orMemoryType;

typedef struct orPointerAttributes {
  uint32_t struct_size;
  orMemoryType type;
  int32_t device;    /* for device memory; -1 otherwise */
  void* base;        /* begin of the allocation that holds the pointer; NULL if unregistered */
  size_t size;       /* of that allocation */
  void* kernel_view; /* where a kernel finds this byte; NULL if the device has no kernel view */
} orPointerAttributes;

typedef enum orMemcpyKind OR_INT_ENUM {
  orMemcpyHostToHost = 0,
  orMemcpyHostToDevice = 1,
  orMemcpyDeviceToHost = 2,
  orMemcpyDeviceToDevice = 3,
  orMemcpyDefault = 4 /* derived from the pointers */
} orMemcpyKind;

/*
 * A kernel: a C function that runs in stream order and finds device data through kernel-view addresses.
 *
 * `run` gets the launch's own copy of the argument block. It returns orSuccess, or fails by returning
 * anything else after writing a sentence into `why` (a zero-terminated string of at most `why_size` bytes).
 * `release` (optional) is called exactly once for each launch that was accepted, after `run` or instead of
 * it if the work was dropped. Neither may throw, nor wait for the device. The orKernel itself is not copied:
 * it must outlive its launches. A launch that is captured is run by each launch of the graph, never twice at
 * the same time, and released with the graph.
 */
typedef struct orKernel {
  const char* name;
  orError_t (*run)(void* args, char* why, size_t why_size);
  void (*release)(void* args);
} orKernel;

typedef void (*orHostFunction)(void* user);

/* Whom a capture forbids to free memory, which waits for the device. See orStreamBeginCapture. */
typedef enum orCaptureMode OR_INT_ENUM {
  orCaptureGlobal = 0,      /* every thread */
  orCaptureThreadLocal = 1, /* the thread that began the capture */
  orCaptureRelaxed = 2      /* nobody */
} orCaptureMode;

typedef enum orCaptureStatus OR_INT_ENUM {
  orCaptureNone = 0,
  orCaptureActive = 1,
  orCaptureBroken = 2 /* invalidated, and not yet ended */
} orCaptureStatus;

typedef enum orGraphNodeKind OR_INT_ENUM {
  orGraphNodeKernel = 0, /* also a host function */
  orGraphNodeMemcpy = 1,
  orGraphNodeMemset = 2
} orGraphNodeKind;

/* One piece of a graph's work. What it points to lives as long as the graph. */
typedef struct orGraphNode {
  uint32_t struct_size;
  orGraphNodeKind kind;
  const char* name;
  int32_t device; /* of the stream that was given it */
  uint64_t stream;
  size_t size; /* bytes copied or set */
  orMemcpyKind copy_kind;
  const uint32_t* after; /* the nodes that it follows directly, all of them with smaller numbers */
  size_t after_count;
} orGraphNode;

typedef enum orEventFlags OR_INT_ENUM {
  orEventDefault = 0,
  orEventDisableTiming = 1, /* cheaper; elapsed time is an error */
  orEventInterprocess = 2   /* other processes can wait for it; only with orEventDisableTiming */
} orEventFlags;

/* Names of memory and of events for other processes: bytes to be carried there, without a meaning of their
 * own. See Note [Other processes] in openreg.h. */
typedef struct orIpcMemHandle_t {
  unsigned char bytes[64];
} orIpcMemHandle_t;

typedef struct orIpcEventHandle_t {
  unsigned char bytes[64];
} orIpcEventHandle_t;

/* When and in which order work that may run does run. See orSetSchedule. */
typedef enum orSchedule OR_INT_ENUM {
  orScheduleAsync = 0,      /* as soon as a worker is free */
  orScheduleBlocking = 1,   /* every launch runs before it returns */
  orScheduleAdversarial = 2 /* delayed and interleaved as badly as the ordering rules permit, from a seed */
} orSchedule;

/* What a driver tells of one finished piece of work. Times are nanoseconds of CLOCK_MONOTONIC. */
typedef struct orObserver {
  void (*done)(void* user, int64_t start_ns, int64_t end_ns, orError_t result);
  void* user;
} orObserver;

#endif /* OPENREG_TYPES_H_ */
