/*
 * The driver of an imaginary chip, "foo": two devices with unified memory, and asynchronous streams.
 *
 * A thread for each stream runs its work in order. One mutex guards everything, and one condition variable
 * says that something has changed: short rather than fast. The rules that it implements are in
 * openreg/driver.h; openreg-driver-check checks them.
 */
#define _XOPEN_SOURCE 700
#include <openreg/driver.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kDevices = 2, kGranularity = 4096 };
static const size_t kMemory = (size_t)1 << 30; /* of each device */

/* The failure of a kernel. Streams and records that share it point to it. Failures are rare and never freed.
 */
struct failure {
  bool reported;
  char text[600];
};

/* One recording of an event. Streams that wait for it keep it alive. */
struct record {
  int references;
  bool done;
  int64_t time_ns;
  struct failure* failure; /* of the stream, when it reached the record */
};

struct orDriverEvent {
  struct record* latest; /* NULL: never recorded */
};

enum kind { kKernel, kCopy, kFill, kRecord, kWait, kTurn };

struct work {
  struct work* next;
  uint64_t number; /* of all work, in the order of submission */
  enum kind kind;
  const orKernel* kernel;
  orObserver observer; /* `done` may be NULL */
  void* dst;
  const void* src;
  int value;
  size_t size;
  struct record* record;
  bool* turn; /* set when the stream has reached the turn of a thread */
  _Alignas(16) char args[];
};

struct orDriverStream {
  struct orDriverStream* next; /* of the same device */
  int device;
  uint64_t id;
  struct work* first;
  struct work* last;
  uint64_t submitted;
  uint64_t completed;
  bool in_turn; /* a thread runs a kernel in its turn */
  bool destroyed;
  struct failure* failure;
};

static const orHost* host;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards everything below, and all fields above */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct orDriverStream* streams[kDevices];
static size_t used[kDevices];
static uint64_t last_number;

/* The streams whose kernels are on the stack of this thread. */
struct frame {
  const struct orDriverStream* stream;
  struct frame* outer;
};
static _Thread_local struct frame* innermost;

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static bool runs_here(const struct orDriverStream* stream) {
  for (const struct frame* frame = innermost; frame; frame = frame->outer) {
    if (frame->stream == stream) return true;
  }
  return false;
}

/* ---- Devices and memory ------------------------------------------------------------------------------- */

static orError_t init(const orHost* given) {
  host = given;
  return orSuccess;
}

static orError_t device_count(int* count) {
  *count = kDevices;
  return orSuccess;
}

static orError_t device_properties(int device, orDeviceProperties* properties) {
  (void)device;
  snprintf(properties->name, sizeof(properties->name), "Foo 1");
  properties->total_memory = kMemory;
  properties->allocation_granularity = kGranularity;
  properties->major = 1;
  properties->multi_processor_count = 1;
  properties->capabilities = OR_CAP_HOST_EXECUTABLE | OR_CAP_PEER_COPY | OR_CAP_TIMING;
  return orSuccess;
}

static orError_t device_open(int device) {
  (void)device;
  return orSuccess;
}

/* Kernels access memory at the addresses that programs see. */
static orError_t kernel_view_offset(int device, ptrdiff_t* offset) {
  (void)device;
  *offset = 0;
  return orSuccess;
}

static orError_t memory_alloc(int device, size_t size, void** ptr) {
  pthread_mutex_lock(&mutex);
  const bool fits = size <= kMemory - used[device];
  if (fits) used[device] += size;
  pthread_mutex_unlock(&mutex);
  if (!fits) return orErrorOutOfMemory;
  *ptr = aligned_alloc(kGranularity, size);
  if (*ptr) return orSuccess;
  pthread_mutex_lock(&mutex);
  used[device] -= size;
  pthread_mutex_unlock(&mutex);
  return orErrorOutOfMemory;
}

static orError_t memory_free(int device, void* ptr, size_t size) {
  free(ptr);
  pthread_mutex_lock(&mutex);
  used[device] -= size;
  pthread_mutex_unlock(&mutex);
  return orSuccess;
}

static orError_t memory_info(int device, size_t* available, size_t* total) {
  pthread_mutex_lock(&mutex);
  *available = kMemory - used[device];
  pthread_mutex_unlock(&mutex);
  *total = kMemory;
  return orSuccess;
}

/* ---- Failures; with the mutex ------------------------------------------------------------------------- */

static bool poisoned(const struct orDriverStream* stream) {
  return stream->failure && !stream->failure->reported;
}

static void poison(struct orDriverStream* stream, const orKernel* kernel, const char* why) {
  struct failure* failure = calloc(1, sizeof(*failure));
  if (!failure) abort();
  snprintf(failure->text, sizeof(failure->text), "kernel '%s' failed on stream %llu of device %d: %s",
           kernel->name ? kernel->name : "", (unsigned long long)stream->id, stream->device, why);
  stream->failure = failure;
}

static orError_t pending(const struct failure* failure) {
  if (!failure || failure->reported) return orSuccess;
  host->report(failure->text);
  return orErrorKernelFailed;
}

static orError_t report(struct failure* failure) {
  const orError_t error = pending(failure);
  if (error) failure->reported = true;
  return error;
}

/* ---- Running work ------------------------------------------------------------------------------------- */

/* Without the mutex. Returns orSuccess, or the kernel's error and `why`. */
static orError_t call(const struct orDriverStream* stream, const orKernel* kernel, void* args, char* why,
                      size_t why_size) {
  struct frame frame = {stream, innermost};
  innermost = &frame;
  why[0] = 0;
  const orError_t result = kernel->run(args, why, why_size);
  innermost = frame.outer;
  if (result && !why[0]) snprintf(why, why_size, "the kernel returned error %d", (int)result);
  return result;
}

/* Kernels, copies and fills. With the mutex, which it releases while the work runs. */
static void run_data(struct orDriverStream* stream, struct work* work) {
  const bool dropped = poisoned(stream);
  pthread_mutex_unlock(&mutex);
  char why[512] = "";
  orError_t result = dropped ? orErrorKernelFailed : orSuccess;
  const int64_t start = now();
  if (!dropped) {
    if (work->kind == kKernel) result = call(stream, work->kernel, work->args, why, sizeof(why));
    if (work->kind == kCopy) memmove(work->dst, work->src, work->size);
    if (work->kind == kFill) memset(work->dst, work->value, work->size);
  }
  const int64_t end = now();
  if (work->kind == kKernel && work->kernel->release) work->kernel->release(work->args);
  if (work->observer.done) {
    work->observer.done(work->observer.user, start, end, result ? orErrorKernelFailed : orSuccess);
  }
  pthread_mutex_lock(&mutex);
  if (result && !dropped) poison(stream, work->kernel, why);
}

static void release(struct record* record) {
  if (record && --record->references == 0) free(record);
}

static void run_work(struct orDriverStream* stream, struct work* work) {
  switch (work->kind) {
    case kRecord:
      work->record->time_ns = now();
      work->record->failure = poisoned(stream) ? stream->failure : NULL;
      work->record->done = true;
      break;
    case kWait:
      while (!work->record->done) pthread_cond_wait(&changed, &mutex);
      if (!poisoned(stream) && work->record->failure) stream->failure = work->record->failure;
      break;
    case kTurn:
      stream->in_turn = true;
      *work->turn = true;
      pthread_cond_broadcast(&changed);
      while (stream->in_turn) pthread_cond_wait(&changed, &mutex);
      break;
    default:
      run_data(stream, work);
  }
  release(work->record);
}

static void* run_stream(void* argument) {
  struct orDriverStream* stream = argument;
  pthread_mutex_lock(&mutex);
  for (;;) {
    while (!stream->first && !stream->destroyed) pthread_cond_wait(&changed, &mutex);
    struct work* work = stream->first;
    if (!work) break;
    run_work(stream, work);
    stream->first = work->next;
    if (!stream->first) stream->last = NULL;
    ++stream->completed;
    pthread_cond_broadcast(&changed);
    free(work);
  }
  struct orDriverStream** link = &streams[stream->device];
  while (*link != stream) link = &(*link)->next;
  *link = stream->next;
  free(stream);
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
  return NULL;
}

/* ---- Streams ------------------------------------------------------------------------------------------ */

static orError_t stream_create(int device, int priority, uint64_t id, orDriverStream** created) {
  (void)priority;
  struct orDriverStream* stream = calloc(1, sizeof(*stream));
  if (!stream) return orErrorOutOfHostMemory;
  stream->device = device;
  stream->id = id;
  pthread_t thread;
  pthread_mutex_lock(&mutex);
  const bool failed = pthread_create(&thread, NULL, run_stream, stream) != 0;
  if (!failed) {
    pthread_detach(thread);
    stream->next = streams[device];
    streams[device] = stream;
  }
  pthread_mutex_unlock(&mutex);
  if (failed) {
    free(stream);
    return orErrorOutOfHostMemory;
  }
  *created = stream;
  return orSuccess;
}

/* The thread of the stream finishes its work and frees it. */
static orError_t stream_destroy(orDriverStream* stream) {
  pthread_mutex_lock(&mutex);
  stream->destroyed = true;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
  return orSuccess;
}

static struct work* make_work(enum kind kind, const orObserver* observer, size_t args_size) {
  struct work* work = calloc(1, sizeof(*work) + args_size);
  if (!work) return NULL;
  work->kind = kind;
  if (observer) work->observer = *observer;
  return work;
}

/* With the mutex. */
static void submit(struct orDriverStream* stream, struct work* work) {
  *(stream->last ? &stream->last->next : &stream->first) = work;
  stream->last = work;
  work->number = ++last_number;
  ++stream->submitted;
  pthread_cond_broadcast(&changed);
}

static orError_t submit_now(struct orDriverStream* stream, struct work* work) {
  pthread_mutex_lock(&mutex);
  submit(stream, work);
  pthread_mutex_unlock(&mutex);
  return orSuccess;
}

static orError_t stream_query(orDriverStream* stream) {
  pthread_mutex_lock(&mutex);
  orError_t result = orErrorNotReady;
  if (stream->completed == stream->submitted) result = pending(stream->failure);
  pthread_mutex_unlock(&mutex);
  return result;
}

/* With the mutex. */
static orError_t wait_for(struct orDriverStream* stream) {
  if (runs_here(stream)) {
    host->report("a kernel cannot wait for its own stream");
    return orErrorNotPermitted;
  }
  const uint64_t last = stream->submitted;
  while (stream->completed < last) pthread_cond_wait(&changed, &mutex);
  return orSuccess;
}

static orError_t stream_synchronize(orDriverStream* stream) {
  pthread_mutex_lock(&mutex);
  orError_t error = wait_for(stream);
  if (!error) error = report(stream->failure);
  pthread_mutex_unlock(&mutex);
  return error;
}

static orError_t stream_wait_event(orDriverStream* stream, orDriverEvent* event) {
  struct work* work = make_work(kWait, NULL, 0);
  if (!work) return orErrorOutOfHostMemory;
  pthread_mutex_lock(&mutex);
  if (event->latest) {
    work->record = event->latest;
    ++work->record->references;
    submit(stream, work);
    work = NULL;
  }
  pthread_mutex_unlock(&mutex);
  free(work);
  return orSuccess;
}

static orError_t stream_launch(orDriverStream* stream, const orKernel* kernel, const void* args,
                               size_t args_size, const orObserver* observer) {
  struct work* work = make_work(kKernel, observer, args_size);
  if (!work) return orErrorOutOfHostMemory;
  work->kernel = kernel;
  if (args_size) memcpy(work->args, args, args_size);
  return submit_now(stream, work);
}

/* On the calling thread, when the stream has reached its turn. */
static orError_t stream_run(orDriverStream* stream, const orKernel* kernel, void* args,
                            const orObserver* observer) {
  const bool nested = runs_here(stream);
  bool turn = false;
  orError_t error = orSuccess;
  if (!nested) {
    struct work* work = make_work(kTurn, NULL, 0);
    if (!work) return orErrorOutOfHostMemory;
    work->turn = &turn;
    pthread_mutex_lock(&mutex);
    submit(stream, work);
    while (!turn) pthread_cond_wait(&changed, &mutex);
    error = report(stream->failure);
    pthread_mutex_unlock(&mutex);
  }
  char why[512] = "";
  const int64_t start = now();
  if (!error) {
    const orError_t result = call(stream, kernel, args, why, sizeof(why));
    if (kernel->release) kernel->release(args);
    if (observer && observer->done)
      observer->done(observer->user, start, now(), result ? orErrorKernelFailed : orSuccess);
    if (result) {
      char text[640];
      snprintf(text, sizeof(text), "kernel '%s' failed: %s", kernel->name ? kernel->name : "", why);
      host->report(text);
      error = orErrorKernelFailed;
    }
  }
  if (!nested) {
    pthread_mutex_lock(&mutex);
    stream->in_turn = false;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
  }
  return error;
}

static orError_t stream_copy(orDriverStream* stream, void* dst, const void* src, size_t size,
                             orMemcpyKind kind, const orObserver* observer) {
  (void)kind;
  struct work* work = make_work(kCopy, observer, 0);
  if (!work) return orErrorOutOfHostMemory;
  work->dst = dst, work->src = src, work->size = size;
  return submit_now(stream, work);
}

static orError_t stream_fill(orDriverStream* stream, void* ptr, int value, size_t size,
                             const orObserver* observer) {
  struct work* work = make_work(kFill, observer, 0);
  if (!work) return orErrorOutOfHostMemory;
  work->dst = ptr, work->value = value, work->size = size;
  return submit_now(stream, work);
}

/* With the mutex. A stream may end while it waits, so it starts again after each wait. */
static orError_t wait_for_device(int device) {
  const uint64_t last = last_number; /* other threads may keep submitting */
  for (struct orDriverStream* stream = streams[device]; stream;) {
    if (runs_here(stream)) return wait_for(stream);
    if (!stream->first || stream->first->number > last) {
      stream = stream->next;
    } else {
      pthread_cond_wait(&changed, &mutex);
      stream = streams[device];
    }
  }
  return orSuccess;
}

static orError_t device_synchronize(int device) {
  pthread_mutex_lock(&mutex);
  orError_t error = wait_for_device(device);
  for (struct orDriverStream* stream = streams[device]; stream && !error; stream = stream->next) {
    error = report(stream->failure);
  }
  pthread_mutex_unlock(&mutex);
  return error;
}

/* ---- Events ------------------------------------------------------------------------------------------- */

static orError_t event_create(int device, unsigned flags, orDriverEvent** event) {
  (void)device, (void)flags;
  *event = calloc(1, sizeof(**event));
  return *event ? orSuccess : orErrorOutOfHostMemory;
}

static orError_t event_destroy(orDriverEvent* event) {
  pthread_mutex_lock(&mutex);
  release(event->latest);
  pthread_mutex_unlock(&mutex);
  free(event);
  return orSuccess;
}

static orError_t event_record(orDriverEvent* event, orDriverStream* stream) {
  struct work* work = make_work(kRecord, NULL, 0);
  struct record* record = calloc(1, sizeof(*record));
  if (!work || !record) {
    free(work);
    free(record);
    return orErrorOutOfHostMemory;
  }
  work->record = record;
  record->references = 2; /* of the event and of the work */
  pthread_mutex_lock(&mutex);
  release(event->latest);
  event->latest = record;
  submit(stream, work);
  pthread_mutex_unlock(&mutex);
  return orSuccess;
}

static orError_t event_query(orDriverEvent* event) {
  pthread_mutex_lock(&mutex);
  const struct record* record = event->latest;
  orError_t result = orSuccess;
  if (record) result = record->done ? pending(record->failure) : orErrorNotReady;
  pthread_mutex_unlock(&mutex);
  return result;
}

static orError_t event_synchronize(orDriverEvent* event) {
  pthread_mutex_lock(&mutex);
  struct record* record = event->latest;
  orError_t error = orSuccess;
  if (record) {
    ++record->references; /* the event may be recorded again meanwhile */
    while (!record->done) pthread_cond_wait(&changed, &mutex);
    error = report(record->failure);
    release(record);
  }
  pthread_mutex_unlock(&mutex);
  return error;
}

static orError_t event_elapsed(orDriverEvent* start, orDriverEvent* end, float* milliseconds) {
  orError_t error = orErrorNotReady;
  pthread_mutex_lock(&mutex);
  if (!start->latest || !end->latest) {
    error = orErrorInvalidValue;
  } else if (start->latest->done && end->latest->done) {
    *milliseconds = (float)((double)(end->latest->time_ns - start->latest->time_ns) * 1e-6);
    error = orSuccess;
  }
  pthread_mutex_unlock(&mutex);
  return error;
}

static const orDriver table = {
    .struct_size = sizeof(orDriver),
    .version = OR_DRIVER_VERSION,
    .name = "foo",
    .capabilities = OR_CAP_HOST_EXECUTABLE | OR_CAP_PEER_COPY | OR_CAP_TIMING,
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
    .stream_run = stream_run,
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

const orDriver* orGetDriver(void) {
  return &table;
}
