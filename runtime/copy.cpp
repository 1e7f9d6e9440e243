// The copy and fill functions of openreg.h.
//
// Note [Pageable memory]
// Asynchronous work needs host memory that stays valid and unchanged. Callers guarantee this for pinned
// memory. A small pageable source is copied into a staging block (Snapshot), which is freed when the copy is
// done. For a large pageable source, and for every pageable destination, the call waits.
//
// Note [Synchronous copies]
// If kernels are host code, a synchronous copy is a kernel that runs on the calling thread: on an idle stream
// it needs no other thread.
#include "faults.h"
#include "run.h"
#include "runtime.h"
#include "trace.h"

#include <cstdlib>
#include <cstring>
#include <utility>

using namespace openreg;

namespace {

constexpr size_t kLargestSnapshot = 64 * 1024;

struct Side {
  const char* role;  // "source" or "destination"
  const void* pointer;
  PointerInfo info;

  bool on_device() const { return info.known && info.allocation.on_device(); }
  bool pageable() const { return !info.known; }
  int device() const { return on_device() ? info.allocation.device : -1; }
};

const char* describe(const Side& side) {
  if (side.on_device()) return "device memory";
  return side.pageable() ? "pageable host memory" : "pinned host memory";
}

orError_t look_up(Runtime& runtime, const char* function, const char* role, const void* pointer, size_t size,
                  Side& side) {
  if (!pointer) return fail(orErrorInvalidValue, "%s: the %s is NULL", function, role);
  side = {role, pointer, runtime.allocations.find(pointer)};
  if (side.info.freed) {
    return fail(orErrorInvalidPointer, "%s: the %s %p is device memory that was freed or never allocated",
                function, role, pointer);
  }
  if (!side.info.known) return orSuccess;
  const Allocation& allocation = side.info.allocation;
  const size_t offset = reinterpret_cast<uintptr_t>(pointer) - allocation.base;
  if (size <= allocation.size - offset) return orSuccess;
  return fail(orErrorInvalidValue,
              "%s: %zu bytes from offset %zu exceed the %s's allocation of %zu bytes at %p", function, size,
              offset, role, allocation.size, reinterpret_cast<void*>(allocation.base));
}

orMemcpyKind infer(const Side& dst, const Side& src) {
  if (src.on_device()) return dst.on_device() ? orMemcpyDeviceToDevice : orMemcpyDeviceToHost;
  return dst.on_device() ? orMemcpyHostToDevice : orMemcpyHostToHost;
}

constexpr const char* kKindNames[] = {"host to host", "host to device", "device to host", "device to device",
                                      "default"};
constexpr const char* kTraceNames[] = {"memcpy host to host", "memcpy host to device",
                                       "memcpy device to host", "memcpy device to device"};

orError_t check_kind(const char* function, const Side& dst, const Side& src, orMemcpyKind kind,
                     orMemcpyKind& actual) {
  if (kind < orMemcpyHostToHost || kind > orMemcpyDefault) {
    return fail(orErrorInvalidValue, "%s: invalid copy kind %d", function, static_cast<int>(kind));
  }
  actual = infer(dst, src);
  if (kind == actual || kind == orMemcpyDefault) return orSuccess;
  return fail(
      orErrorInvalidValue,
      "%s: the kind is %s, but the source %p is %s and the destination %p is %s; use the right kind or "
      "orMemcpyDefault",
      function, kKindNames[kind], src.pointer, describe(src), dst.pointer, describe(dst));
}

// A staging copy of a pageable source. done() reports to the trace, if there is one, and frees the copy.
struct Snapshot {
  TracedWork* work;

  std::byte* bytes() { return reinterpret_cast<std::byte*>(this + 1); }
  static Snapshot* take(const void* source, size_t size, TracedWork* work) {
    void* block = std::malloc(sizeof(Snapshot) + size);
    if (!block) throw std::bad_alloc();
    auto* snapshot = new (block) Snapshot{work};
    std::memcpy(snapshot->bytes(), source, size);
    return snapshot;
  }
  static void done(void* user, int64_t start_ns, int64_t end_ns, orError_t result) {
    auto* snapshot = static_cast<Snapshot*>(user);
    if (snapshot->work) TracedWork::done(snapshot->work, start_ns, end_ns, result);
    std::free(snapshot);
  }
};

struct CopyNow {
  void* dst;
  const void* src;
  size_t size;
};

orError_t run_copy(void* args, char*, size_t) {
  const auto& copy = *static_cast<const CopyNow*>(args);
  std::memmove(copy.dst, copy.src, copy.size);
  return orSuccess;
}

constexpr orKernel kCopyNow = {"copy", &run_copy, nullptr};

const void* kernel_address(const Side& side, ptrdiff_t offset) {
  return side.on_device() ? static_cast<const char*>(side.pointer) + offset : side.pointer;
}

orError_t copy_now(Runtime& runtime, const char* function, const Side& dst, const Side& src, size_t size,
                   orMemcpyKind kind, const StreamPin& stream) {
  ptrdiff_t to = 0, from = 0;
  auto* offset = runtime.driver().kernel_view_offset;
  if (dst.on_device()) OR_RETURN_IF_ERROR(from_driver(offset(dst.device(), &to)));
  if (src.on_device()) OR_RETURN_IF_ERROR(from_driver(offset(src.device(), &from)));
  CopyNow args = {const_cast<void*>(kernel_address(dst, to)), kernel_address(src, from), size};
  TracedWork* work = begin_traced(runtime, *stream, function, orTraceMemcpy, kTraceNames[kind], size, kind);
  return run_now(runtime, *stream, kCopyNow, &args, work);
}

orError_t submit_copy(Runtime& runtime, const char* function, const StreamPin& stream, void* dst,
                      const void* src, size_t size, orMemcpyKind kind, bool snapshot) {
  TracedWork* work = begin_traced(runtime, *stream, function, orTraceMemcpy, kTraceNames[kind], size, kind);
  const ReturnTrace returned(work);
  orObserver observer = {};
  if (work) observer = work->observer();
  Snapshot* taken = nullptr;
  if (snapshot) {
    taken = Snapshot::take(src, size, work);
    observer = {&Snapshot::done, taken};
    src = taken->bytes();
  }
  const orError_t error = from_driver(runtime.driver().stream_copy(stream->driver, dst, src, size, kind,
                                                                   observer.done ? &observer : nullptr));
  if (error) {
    if (work) work->rejected(error);
    std::free(taken);
  }
  return error;
}

// `wait`: synchronous for all kinds of memory.
orError_t copy(Runtime& runtime, const char* function, const Side& dst, const Side& src, size_t size,
               orMemcpyKind kind, const StreamPin& stream, bool wait) {
  if (kind == orMemcpyDeviceToDevice && dst.device() != src.device()) {
    if (!runtime.has_capability(OR_CAP_PEER_COPY)) {
      return fail(orErrorNotSupported,
                  "%s: the driver '%s' cannot copy from device %d to device %d; copy "
                  "through host memory",
                  function, runtime.driver().name, src.device(), dst.device());
    }
    runtime.peer_copies.store(true, std::memory_order_release);
  }
  const bool from_pageable = !src.on_device() && src.pageable();
  const bool to_pageable = !dst.on_device() && dst.pageable();
  if ((from_pageable || to_pageable) && runtime.captured(*stream)) {
    return from_driver(runtime.driver().stream_check_uncaptured(
        stream->driver, "a copy from or to pageable host memory (pin the memory)"));
  }
  const bool snapshot = from_pageable && !to_pageable && !wait && size <= kLargestSnapshot;
  const bool waits = wait || to_pageable || (from_pageable && !snapshot);
  if (waits && runtime.has_capability(OR_CAP_HOST_EXECUTABLE)) {
    return copy_now(runtime, function, dst, src, size, kind, stream);
  }
  OR_RETURN_IF_ERROR(submit_copy(runtime, function, stream, const_cast<void*>(dst.pointer), src.pointer, size,
                                 kind, snapshot));
  return waits ? from_driver(runtime.driver().stream_synchronize(stream->driver)) : orSuccess;
}

orError_t check_stream_device(const char* function, const StreamInfo& stream, const Side& dst,
                              const Side& src) {
  if (!dst.on_device() && !src.on_device()) return orSuccess;
  if (stream.device == dst.device() || stream.device == src.device()) return orSuccess;
  return fail(orErrorInvalidValue,
              "%s: the stream belongs to device %d, but the %s is on device %d; use a stream of that device",
              function, stream.device, dst.on_device() ? "destination" : "source",
              dst.on_device() ? dst.device() : src.device());
}

orError_t check_peers(const char* function, const Side& dst, int dst_device, const Side& src,
                      int src_device) {
  const std::pair<const Side*, int> sides[] = {{&dst, dst_device}, {&src, src_device}};
  for (const auto& [side, device] : sides) {
    if (!side->on_device()) {
      return fail(orErrorInvalidValue, "%s: the %s %p is %s, not memory of device %d", function, side->role,
                  side->pointer, describe(*side), device);
    }
    if (side->device() != device) {
      return fail(orErrorInvalidValue, "%s: the %s %p is memory of device %d, not of device %d", function,
                  side->role, side->pointer, side->device(), device);
    }
  }
  return orSuccess;
}

orError_t copy_peer(Runtime& runtime, const char* function, void* dst, int dst_device, const void* src,
                    int src_device, size_t size, orStream_t stream, bool wait) {
  OR_RETURN_IF_ERROR(runtime.check_device(dst_device));
  OR_RETURN_IF_ERROR(runtime.check_device(src_device));
  StreamPin pin;
  if (!wait) OR_RETURN_IF_ERROR(runtime.pin_stream(stream, pin));
  if (size == 0) return orSuccess;
  Side to, from;
  OR_RETURN_IF_ERROR(look_up(runtime, function, "destination", dst, size, to));
  OR_RETURN_IF_ERROR(look_up(runtime, function, "source", src, size, from));
  OR_RETURN_IF_ERROR(check_peers(function, to, dst_device, from, src_device));
  if (wait) OR_RETURN_IF_ERROR(runtime.pin_default_stream(src_device, pin));
  OR_RETURN_IF_ERROR(check_stream_device(function, *pin, to, from));
  return copy(runtime, function, to, from, size, orMemcpyDeviceToDevice, pin, wait);
}

orError_t fill(Runtime& runtime, const char* function, void* ptr, int value, size_t size, orStream_t stream,
               bool wait) {
  StreamPin pin;
  if (!wait) OR_RETURN_IF_ERROR(runtime.pin_stream(stream, pin));
  if (size == 0) return orSuccess;
  Side side;
  OR_RETURN_IF_ERROR(look_up(runtime, function, "destination", ptr, size, side));
  if (!side.on_device()) {
    return fail(orErrorInvalidPointer, "%s: %p is %s, not device memory", function, ptr, describe(side));
  }
  if (wait) OR_RETURN_IF_ERROR(runtime.pin_default_stream(side.device(), pin));
  OR_RETURN_IF_ERROR(check_stream_device(function, *pin, side, side));
  TracedWork* work = begin_traced(runtime, *pin, function, orTraceMemset, "memset", size);
  const ReturnTrace returned(work);
  orObserver observer = {};
  if (work) observer = work->observer();
  const orError_t error =
      from_driver(runtime.driver().stream_fill(pin->driver, ptr, value, size, work ? &observer : nullptr));
  if (error && work) work->rejected(error);
  if (error || !wait) return error;
  return from_driver(runtime.driver().stream_synchronize(pin->driver));
}

// As with_runtime, for a copy, which a fault rule may corrupt. `wait`: the copy is done when the body
// returns.
template <typename Body>
orError_t with_copy(Call call, orStream_t stream, void* dst, bool wait, Body&& body) noexcept {
  return noexcept_boundary([&]() -> orError_t {
    orError_t error = orSuccess;
    Corruption corruption;
    Runtime* runtime = Runtime::enter_ready();
    if (!runtime) [[unlikely]] {
      const Call written = call;  // only here, so that `call` stays in registers
      runtime = Runtime::enter_call(written, error, &corruption);
      if (!runtime) return error;
    }
    error = body(*runtime);
    if (!corruption.present || error) [[likely]]
      return error;
    return corrupt_copy(*runtime, corruption, stream, dst, call.size, wait);
  });
}

}  // namespace

extern "C" {

orError_t orMemcpy(void* dst, const void* src, size_t size, orMemcpyKind kind) {
  const Call call = {EntryPoint::orMemcpy, dst, size, src};
  return with_copy(call, nullptr, dst, true, [&](Runtime& runtime) -> orError_t {
    if (size == 0) return orSuccess;
    Side to, from;
    OR_RETURN_IF_ERROR(look_up(runtime, "orMemcpy", "destination", dst, size, to));
    OR_RETURN_IF_ERROR(look_up(runtime, "orMemcpy", "source", src, size, from));
    orMemcpyKind actual;
    OR_RETURN_IF_ERROR(check_kind("orMemcpy", to, from, kind, actual));
    int device = from.on_device() ? from.device() : to.device();
    if (device < 0) OR_RETURN_IF_ERROR(runtime.current_device(device));
    StreamPin pin;
    OR_RETURN_IF_ERROR(runtime.pin_default_stream(device, pin));
    return copy(runtime, "orMemcpy", to, from, size, actual, pin, true);
  });
}

orError_t orMemcpyAsync(void* dst, const void* src, size_t size, orMemcpyKind kind, orStream_t stream) {
  const Call call = {EntryPoint::orMemcpyAsync, stream, size};
  return with_copy(call, stream, dst, false, [&](Runtime& runtime) -> orError_t {
    StreamPin pin;
    OR_RETURN_IF_ERROR(runtime.pin_stream(stream, pin));
    if (size == 0) return orSuccess;
    Side to, from;
    OR_RETURN_IF_ERROR(look_up(runtime, "orMemcpyAsync", "destination", dst, size, to));
    OR_RETURN_IF_ERROR(look_up(runtime, "orMemcpyAsync", "source", src, size, from));
    orMemcpyKind actual;
    OR_RETURN_IF_ERROR(check_kind("orMemcpyAsync", to, from, kind, actual));
    OR_RETURN_IF_ERROR(check_stream_device("orMemcpyAsync", *pin, to, from));
    return copy(runtime, "orMemcpyAsync", to, from, size, actual, pin, false);
  });
}

orError_t orMemcpyPeer(void* dst, int dst_device, const void* src, int src_device, size_t size) {
  const Call call = {EntryPoint::orMemcpyPeer, dst, size, src};
  return with_copy(call, nullptr, dst, true, [&](Runtime& runtime) {
    return copy_peer(runtime, "orMemcpyPeer", dst, dst_device, src, src_device, size, nullptr, true);
  });
}

orError_t orMemcpyPeerAsync(void* dst, int dst_device, const void* src, int src_device, size_t size,
                            orStream_t stream) {
  const Call call = {EntryPoint::orMemcpyPeerAsync, stream, size};
  return with_copy(call, stream, dst, false, [&](Runtime& runtime) {
    return copy_peer(runtime, "orMemcpyPeerAsync", dst, dst_device, src, src_device, size, stream, false);
  });
}

orError_t orMemset(void* ptr, int value, size_t size) {
  return with_runtime({EntryPoint::orMemset, ptr, size}, [&](Runtime& runtime) {
    return fill(runtime, "orMemset", ptr, value, size, nullptr, true);
  });
}

orError_t orMemsetAsync(void* ptr, int value, size_t size, orStream_t stream) {
  return with_runtime({EntryPoint::orMemsetAsync, stream, size}, [&](Runtime& runtime) {
    return fill(runtime, "orMemsetAsync", ptr, value, size, stream, false);
  });
}

}  // extern "C"
