/*
 * A complete driver in one C file: host memory, and streams that run all work inside the launching call. It
 * includes only openreg/driver.h, and is built against the previous, the current and a future version of it.
 *
 * Since work is complete when a call returns, only failures have to be remembered until the next
 * synchronization.
 */
#define _XOPEN_SOURCE 700
#include <openreg/driver.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef CAPABILITIES
#define CAPABILITIES (OR_CAP_HOST_EXECUTABLE | OR_CAP_TIMING)
#endif

enum { kGranularity = 256, kMemory = 64 << 20 };

struct orDriverStream {
  pthread_mutex_t
      mutex;         /* held while work runs; recursive, since a kernel may run another one on its stream */
  char failure[512]; /* empty: no failure */
  int references;    /* of the handle, and of events behind its failure */
};

struct orDriverEvent {
  struct orDriverStream* stream; /* of the record behind a failure */
  int64_t time_ns;               /* 0: not recorded */
};

static void release(struct orDriverStream* stream) {
  if (!stream || __atomic_sub_fetch(&stream->references, 1, __ATOMIC_ACQ_REL) != 0) return;
  pthread_mutex_destroy(&stream->mutex);
  free(stream);
}

static const orHost* host;
static struct orDriverStream* device_streams[1024];
static size_t used;

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static orError_t init(const orHost* given) {
  host = given;
  return orSuccess;
}

static orError_t device_count(int* count) {
  *count = 1;
  return orSuccess;
}

static orError_t device_properties(int device, orDeviceProperties* properties) {
  (void)device;
  snprintf(properties->name, sizeof(properties->name), "minimal");
  properties->total_memory = kMemory;
  properties->allocation_granularity = kGranularity;
  properties->major = 1;
  properties->multi_processor_count = 1;
  properties->capabilities = CAPABILITIES;
  return orSuccess;
}

static orError_t device_open(int device) {
  (void)device;
  return orSuccess;
}

static orError_t kernel_view_offset(int device, ptrdiff_t* offset) {
  (void)device;
  *offset = 0;
  return orSuccess;
}

static orError_t memory_alloc(int device, size_t size, void** ptr) {
  (void)device;
  if (size > kMemory || __atomic_add_fetch(&used, size, __ATOMIC_RELAXED) > kMemory) {
    if (size <= kMemory) __atomic_sub_fetch(&used, size, __ATOMIC_RELAXED);
    return orErrorOutOfMemory;
  }
  *ptr = aligned_alloc(kGranularity, size);
  return *ptr ? orSuccess : orErrorOutOfMemory;
}

static orError_t memory_free(int device, void* ptr, size_t size) {
  (void)device;
  free(ptr);
  __atomic_sub_fetch(&used, size, __ATOMIC_RELAXED);
  return orSuccess;
}

static orError_t memory_info(int device, size_t* available, size_t* total) {
  (void)device;
  *available = kMemory - __atomic_load_n(&used, __ATOMIC_RELAXED);
  *total = kMemory;
  return orSuccess;
}

static orError_t stream_create(int device, int priority, uint64_t id, orDriverStream** stream) {
  (void)device, (void)priority, (void)id;
  *stream = calloc(1, sizeof(**stream));
  if (!*stream) return orErrorOutOfHostMemory;
  pthread_mutexattr_t recursive;
  pthread_mutexattr_init(&recursive);
  pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&(*stream)->mutex, &recursive);
  pthread_mutexattr_destroy(&recursive);
  (*stream)->references = 1;
  for (size_t i = 0; i < sizeof(device_streams) / sizeof(*device_streams); ++i) {
    struct orDriverStream* none = NULL;
    if (__atomic_compare_exchange_n(&device_streams[i], &none, *stream, 0, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED)) {
      return orSuccess;
    }
  }
  free(*stream);
  return orErrorOutOfHostMemory;
}

static orError_t stream_destroy(orDriverStream* stream) {
  for (size_t i = 0; i < sizeof(device_streams) / sizeof(*device_streams); ++i) {
    struct orDriverStream* found = stream;
    if (__atomic_compare_exchange_n(&device_streams[i], &found, NULL, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
      break;
  }
  release(stream);
  return orSuccess;
}

static orError_t stream_query(orDriverStream* stream) {
  (void)stream;
  return orSuccess;
}

static orError_t stream_synchronize(orDriverStream* stream) {
  pthread_mutex_lock(&stream->mutex);
  const int failed = stream->failure[0] != 0;
  if (failed) host->report(stream->failure);
  stream->failure[0] = 0;
  pthread_mutex_unlock(&stream->mutex);
  return failed ? orErrorKernelFailed : orSuccess;
}

static orError_t stream_wait_event(orDriverStream* stream, orDriverEvent* event) {
  if (event->stream && event->stream != stream && event->stream->failure[0] && !stream->failure[0]) {
    memcpy(stream->failure, event->stream->failure, sizeof(stream->failure));
  }
  return orSuccess;
}

static orError_t run(orDriverStream* stream, const orKernel* kernel, void* args, const orObserver* observer) {
  const int64_t start = now();
  orError_t result = orErrorKernelFailed; /* dropped: queued behind a failure */
  if (!stream->failure[0]) {
    char why[256] = "";
    result = kernel->run(args, why, sizeof(why));
    if (result != orSuccess) {
      snprintf(stream->failure, sizeof(stream->failure), "kernel '%s' failed: %s", kernel->name, why);
      result = orErrorKernelFailed;
    }
  }
  if (kernel->release) kernel->release(args);
  if (observer) observer->done(observer->user, start, now(), result);
  return orSuccess;
}

static orError_t stream_launch(orDriverStream* stream, const orKernel* kernel, const void* args,
                               size_t args_size, const orObserver* observer) {
  void* copy = malloc(args_size ? args_size : 1);
  if (!copy) return orErrorOutOfHostMemory;
  if (args_size) memcpy(copy, args, args_size);
  pthread_mutex_lock(&stream->mutex);
  const orError_t error = run(stream, kernel, copy, observer);
  pthread_mutex_unlock(&stream->mutex);
  free(copy);
  return error;
}

static orError_t stream_copy(orDriverStream* stream, void* dst, const void* src, size_t size,
                             orMemcpyKind kind, const orObserver* observer) {
  (void)kind;
  const int64_t start = now();
  pthread_mutex_lock(&stream->mutex);
  const int dropped = stream->failure[0] != 0;
  if (!dropped) memmove(dst, src, size);
  pthread_mutex_unlock(&stream->mutex);
  if (observer) observer->done(observer->user, start, now(), dropped ? orErrorKernelFailed : orSuccess);
  return orSuccess;
}

static orError_t stream_fill(orDriverStream* stream, void* ptr, int value, size_t size,
                             const orObserver* observer) {
  const int64_t start = now();
  pthread_mutex_lock(&stream->mutex);
  const int dropped = stream->failure[0] != 0;
  if (!dropped) memset(ptr, value, size);
  pthread_mutex_unlock(&stream->mutex);
  if (observer) observer->done(observer->user, start, now(), dropped ? orErrorKernelFailed : orSuccess);
  return orSuccess;
}

static orError_t device_synchronize(int device) {
  (void)device;
  for (size_t i = 0; i < sizeof(device_streams) / sizeof(*device_streams); ++i) {
    struct orDriverStream* stream = __atomic_load_n(&device_streams[i], __ATOMIC_ACQUIRE);
    if (stream && stream->failure[0]) return stream_synchronize(stream);
  }
  return orSuccess;
}

static orError_t event_create(int device, unsigned flags, orDriverEvent** event) {
  (void)device, (void)flags;
  *event = calloc(1, sizeof(**event));
  return *event ? orSuccess : orErrorOutOfHostMemory;
}

static orError_t event_destroy(orDriverEvent* event) {
  release(event->stream);
  free(event);
  return orSuccess;
}

static orError_t event_record(orDriverEvent* event, orDriverStream* stream) {
  struct orDriverStream* before = event->stream;
  event->stream = stream->failure[0] ? stream : NULL;
  if (event->stream) __atomic_add_fetch(&stream->references, 1, __ATOMIC_RELAXED);
  release(before);
  event->time_ns = now();
  return orSuccess;
}

static orError_t event_query(orDriverEvent* event) {
  (void)event;
  return orSuccess;
}

static orError_t event_synchronize(orDriverEvent* event) {
  return event->stream ? stream_synchronize(event->stream) : orSuccess;
}

static orError_t event_elapsed(orDriverEvent* start, orDriverEvent* end, float* milliseconds) {
  if (!start->time_ns || !end->time_ns) return orErrorInvalidValue;
  *milliseconds = (float)((double)(end->time_ns - start->time_ns) * 1e-6);
  return orSuccess;
}

static const orDriver table = {
    .struct_size = sizeof(orDriver),
    .version = OR_DRIVER_VERSION,
    .name = "minimal",
    .capabilities = CAPABILITIES,
    .init = init,
    .device_count = device_count,
    .device_properties = device_properties,
    .device_open = device_open,
    .device_close = device_open,
    .kernel_view_offset = kernel_view_offset,
    .memory_alloc = memory_alloc,
    .memory_free = memory_free,
    .memory_info = memory_info,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_query = stream_query,
    .stream_synchronize = stream_synchronize,
    .stream_wait_event = stream_wait_event,
    .stream_launch = stream_launch,
    .stream_copy = stream_copy,
    .stream_fill = stream_fill,
    .device_synchronize = device_synchronize,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_query = event_query,
    .event_synchronize = event_synchronize,
    .event_elapsed = event_elapsed,
};

__attribute__((visibility("default"))) const orDriver* orGetDriver(void) {
  return &table;
}
