/*
 * Types that programs (openreg.h) and drivers (driver.h) share. Plain C, no functions.
 *
 * Structs that may grow begin with struct_size. The writer sets it to the sizeof that it was compiled with;
 * the reader accesses no field beyond it.
 */
#ifndef OPENREG_TYPES_H_
#define OPENREG_TYPES_H_

#include "openreg/error.h"

#include <stddef.h>
#include <stdint.h>

/* The most devices that a driver reports, and a program can use. */
#define OR_MAX_DEVICES 64

/* Properties of a device. Sizes are in bytes. */
typedef struct orDeviceProperties {
  uint32_t struct_size;
  char name[64]; /* UTF-8, zero-terminated */
  size_t total_memory;
  size_t allocation_granularity; /* every allocation is rounded up to a multiple of this */
  int32_t major;                 /* generation of the device */
  int32_t minor;
  int32_t multi_processor_count; /* number of kernels that can run concurrently */
  int32_t least_priority;        /* range of stream priorities; a smaller number is a higher priority */
  int32_t greatest_priority;
  uint64_t capabilities; /* OR_CAP_* bits */
} orDeviceProperties;

/* Capabilities that a driver declares beyond the required entries. */
#define OR_CAP_HOST_EXECUTABLE (1ull << 0) /* kernels can be host code: memory has a kernel view */
#define OR_CAP_PEER_COPY (1ull << 1)       /* copies between devices without staging in host memory */
#define OR_CAP_TIMING (1ull << 2)          /* events can have timing */
#define OR_CAP_PRIORITIES (1ull << 3)      /* stream priorities are respected */
#define OR_CAP_IPC (1ull << 4)             /* memory and events can be shared between processes */

typedef enum orMemoryType OR_INT_ENUM {
  orMemoryTypeUnregistered = 0, /* pageable host memory, unknown to the runtime */
  orMemoryTypeHost = 1,         /* pinned: from orMallocHost or orHostRegister */
  orMemoryTypeDevice = 2
} orMemoryType;

typedef struct orPointerAttributes {
  uint32_t struct_size;
  orMemoryType type;
  int32_t device;    /* for device memory; -1 otherwise */
  void* base;        /* start of the allocation that contains the pointer; NULL if unregistered */
  size_t size;       /* of that allocation */
  void* kernel_view; /* address for kernels; NULL if the device has no kernel view */
} orPointerAttributes;

typedef enum orMemcpyKind OR_INT_ENUM {
  orMemcpyHostToHost = 0,
  orMemcpyHostToDevice = 1,
  orMemcpyDeviceToHost = 2,
  orMemcpyDeviceToDevice = 3,
  orMemcpyDefault = 4 /* derived from the pointers */
} orMemcpyKind;

/*
 * A kernel: a C function that runs in stream order and accesses device memory through kernel-view addresses.
 *
 * `run` gets the copy of the argument block that belongs to the launch. It returns orSuccess. To fail, it
 * writes a message into `why` (zero-terminated, at most `why_size` bytes) and returns another code.
 * `release` (optional) is called exactly once for each accepted launch: after `run`, or instead of it if the
 * launch was dropped. Neither may throw or wait for the device. The orKernel is not copied: it must outlive
 * its launches. A captured launch runs once in each launch of the graph, never concurrently, and is released
 * with the graph.
 */
typedef struct orKernel {
  const char* name;
  orError_t (*run)(void* args, char* why, size_t why_size);
  void (*release)(void* args);
} orKernel;

typedef void (*orHostFunction)(void* user);

/* Which threads must not free memory during a capture, since that waits for the device. See
 * orStreamBeginCapture. */
typedef enum orCaptureMode OR_INT_ENUM {
  orCaptureGlobal = 0,      /* all threads */
  orCaptureThreadLocal = 1, /* the thread that began the capture */
  orCaptureRelaxed = 2      /* no thread */
} orCaptureMode;

typedef enum orCaptureStatus OR_INT_ENUM {
  orCaptureNone = 0,
  orCaptureActive = 1,
  orCaptureBroken = 2 /* invalidated, and not yet ended */
} orCaptureStatus;

typedef enum orGraphNodeKind OR_INT_ENUM {
  orGraphNodeKernel = 0, /* also a host function */
  orGraphNodeMemcpy = 1,
  orGraphNodeMemset = 2,
  orGraphNodeEventWait = 3,
  orGraphNodeEventRecord = 4
} orGraphNodeKind;

/* A node of a graph. The memory that it points to lives as long as the graph. */
typedef struct orGraphNode {
  uint32_t struct_size;
  orGraphNodeKind kind;
  const char* name;
  int32_t device; /* of the captured stream */
  uint64_t stream;
  size_t size; /* bytes copied or set */
  orMemcpyKind copy_kind;
  const uint32_t* after; /* direct dependencies; all have smaller indices */
  size_t after_count;
} orGraphNode;

typedef enum orEventFlags OR_INT_ENUM {
  orEventDefault = 0,
  orEventDisableTiming = 1, /* cheaper; orEventElapsedTime returns an error */
  orEventInterprocess = 2,  /* can be shared with other processes; requires orEventDisableTiming */
  orEventExternal = 4       /* in a capture, records and waits become nodes; see Note [Graphs] */
} orEventFlags;

/* Interprocess handles of memory and of events: opaque bytes to send to another process. See
 * Note [Interprocess sharing] in openreg.h. */
typedef struct orIpcMemHandle_t {
  unsigned char bytes[64];
} orIpcMemHandle_t;

typedef struct orIpcEventHandle_t {
  unsigned char bytes[64];
} orIpcEventHandle_t;

/* When work that is ready runs, and in which order. See orSetSchedule. */
typedef enum orSchedule OR_INT_ENUM {
  orScheduleAsync = 0,      /* as soon as a worker thread is free */
  orScheduleBlocking = 1,   /* before the launching call returns */
  orScheduleAdversarial = 2 /* delayed and interleaved at random, within the ordering rules, from a seed */
} orSchedule;

/* Completion callback of one operation. Times are nanoseconds of CLOCK_MONOTONIC. */
typedef struct orObserver {
  void (*done)(void* user, int64_t start_ns, int64_t end_ns, orError_t result);
  void* user;
} orObserver;

#endif /* OPENREG_TYPES_H_ */
