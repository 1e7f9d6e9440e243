// Device memory, pinned host memory, copies and fills.
//
// Another chip: its allocator of device memory, and of host memory that its copy engine can access. The
// caching allocator of the integration calls these seldom, so they may be slow.
#include "memory.h"

#include "device.h"
#include "stream.h"

#include <bit>

namespace nv {
namespace {

constexpr const char* kCopyNames[] = {"memcpy host to host", "memcpy host to device", "memcpy device to host",
                                      "memcpy device to device"};

CUdeviceptr address(const void* pointer) {
  return std::bit_cast<CUdeviceptr>(pointer);
}

}  // namespace

// Another chip: reserves memory of the device. Too little memory is orErrorOutOfMemory, and leaves the device
// usable.
orError_t memory_alloc(int index, size_t size, void** ptr) {
  return entry([&]() -> orError_t {
    const Device& device = device_at(index);
    if (size > device.memory) {
      return fail(orErrorOutOfMemory, "%zu bytes were requested, and device %d has %zu", size, index,
                  device.memory);
    }
    const Current current(device);
    CUdeviceptr memory = 0;
    NV_RETURN_IF_ERROR(NV_CALL(memory_alloc, &memory, size));
    *ptr = std::bit_cast<void*>(memory);
    return orSuccess;
  });
}

// Another chip: the runtime has waited for the work that uses the memory.
orError_t memory_free(int index, void* ptr, size_t) {
  return entry([&] {
    const Current current(device_at(index));
    return NV_CALL(memory_free, address(ptr));
  });
}

// Another chip: what all processes have left, if it knows; otherwise what this process has left.
orError_t memory_info(int index, size_t* free, size_t* total) {
  return entry([&] {
    const Current current(device_at(index));
    return NV_CALL(memory_info, free, total);
  });
}

// Pinned memory belongs to all devices, but CUDA allocates it in a context: that of device 0 stays open.
orError_t host_alloc(size_t size, void** ptr) {
  return entry([&]() -> orError_t {
    int count = 0;
    NV_RETURN_IF_ERROR(count_devices(&count));
    if (count == 0) return fail(orErrorInvalidDevice, "pinned memory needs a GPU, and there is none");
    Device& device = device_at(0);
    NV_RETURN_IF_ERROR(open_context(device));
    const Current current(device);
    const CUresult result = cuda.host_alloc(ptr, size, kHostPortable);
    if (result == kSuccess) return orSuccess;
    static_cast<void>(close_context(device));
    if (result != kErrorOutOfMemory) return fail_cuda(result, "cuMemHostAlloc");
    return fail(orErrorOutOfHostMemory, "cannot allocate %zu bytes of pinned host memory", size);
  });
}

orError_t host_free(void* ptr, size_t) {
  return entry([&]() -> orError_t {
    Device& device = device_at(0);
    {
      const Current current(device);
      NV_RETURN_IF_ERROR(NV_CALL(host_free, ptr));
    }
    return close_context(device);
  });
}

// CUDA derives the direction from the pointers, also between devices. A copy from or to pageable memory may
// wait in this call.
orError_t stream_copy(orDriverStream* given, void* dst, const void* src, size_t size, orMemcpyKind kind,
                      const orObserver* observer) {
  return entry([&] {
    const auto work = [=](Stream& stream) {
      return NV_CALL(copy, address(dst), address(src), size, stream.native());
    };
    return Stream::of(given).submit(work, {orGraphNodeMemcpy, kCopyNames[kind], size, kind}, observer);
  });
}

// Another chip: a kernel that writes, if its copy engine cannot fill.
orError_t stream_fill(orDriverStream* given, void* ptr, int value, size_t size, const orObserver* observer) {
  return entry([&] {
    const auto work = [=](Stream& stream) {
      return NV_CALL(fill, address(ptr), static_cast<unsigned char>(value), size, stream.native());
    };
    return Stream::of(given).submit(work, {orGraphNodeMemset, "memset", size, orMemcpyDefault}, observer);
  });
}

}  // namespace nv
