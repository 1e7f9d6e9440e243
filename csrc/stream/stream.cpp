#include "stream/stream.h"

#include "common/check.h"
#include "common/fork.h"
#include "common/gil_release.h"
#include "device/device.h"
#include "stream/checked_stream.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

namespace openreg {
namespace {

constexpr int kNumbers = 1 + kPools * kStreamsPerPool;

// The streams of one device. Created on first use, never destroyed.
struct DeviceStreams {
  std::array<std::atomic<orStream_t>, kNumbers> handles{};
  std::array<std::atomic<uint32_t>, kPools> next{};
  std::mutex mutex;  // guards the creation of handles
};

DeviceStreams& streams_of(c10::DeviceIndex device) {
  static auto* all = new std::array<DeviceStreams, kMaxDevices>();
  TORCH_CHECK_VALUE(device >= 0 && device < kMaxDevices, "invalid device index ", static_cast<int>(device));
  return (*all)[static_cast<size_t>(device)];
}

// The number of the current stream, by device.
thread_local std::array<c10::StreamId, kMaxDevices> current_numbers{};

c10::Stream make_stream(c10::DeviceIndex device, c10::StreamId number) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kDevice, device), number);
}

// Sleeps and does not spin: it occupies the stream, but no CPU core. A synchronizing host thread may run it.
orError_t run_sleep(void* args, char*, size_t) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(*static_cast<const int64_t*>(args)));
  return orSuccess;
}

constexpr orKernel kSleep{"sleep", run_sleep, nullptr};

orStream_t make_handle(c10::DeviceIndex device, c10::StreamId number) {
  check_not_forked();
  DeviceStreams& streams = streams_of(device);
  std::lock_guard<std::mutex> lock(streams.mutex);
  auto& slot = streams.handles[static_cast<size_t>(number)];
  orStream_t handle = slot.load(std::memory_order_relaxed);
  if (handle == nullptr) {
    DeviceScope scope(device);
    if (number == 0) {
      OR_CHECK(orStreamGetDefault(&handle));
    } else {
      OR_CHECK(orStreamCreateWithPriority(&handle, -static_cast<int>((number - 1) / kStreamsPerPool)));
    }
    slot.store(handle, std::memory_order_release);
  }
  return handle;
}

orStream_t handle_of(c10::DeviceIndex device, c10::StreamId number) {
  if (C10_UNLIKELY(number >= kNumbers)) {
    return reinterpret_cast<orStream_t>(number);
  }
  TORCH_CHECK(number >= 0, "invalid stream id ", number);
  const orStream_t handle =
      streams_of(device).handles[static_cast<size_t>(number)].load(std::memory_order_acquire);
  return C10_LIKELY(handle != nullptr) ? handle : make_handle(device, number);
}

}  // namespace

c10::Stream default_stream(c10::DeviceIndex device) {
  return make_stream(device, 0);
}

c10::Stream current_stream(c10::DeviceIndex device) {
  const auto row = static_cast<size_t>(device);
  return make_stream(device, C10_LIKELY(row < kMaxDevices) ? current_numbers[row] : 0);
}

c10::Stream exchange_stream(c10::Stream stream) {
  const c10::DeviceIndex device = resolve(stream.device());
  const c10::Stream before = current_stream(device);
  current_numbers[static_cast<size_t>(device)] = stream.id();
  return before;
}

c10::Stream stream_from_pool(c10::DeviceIndex device, int priority) {
  const auto pool = static_cast<int>(std::clamp<int64_t>(-static_cast<int64_t>(priority), 0, kPools - 1));
  const uint32_t turn = streams_of(device).next[static_cast<size_t>(pool)].fetch_add(1);
  const c10::Stream stream = make_stream(device, 1 + pool * kStreamsPerPool + turn % kStreamsPerPool);
  stream_handle(stream);
  return stream;
}

orStream_t stream_handle(c10::Stream stream) {
  return handle_of(stream.device_index(), stream.id());
}

orStream_t current_stream_handle(c10::DeviceIndex device) {
  return handle_of(device, current_numbers[static_cast<size_t>(device)]);
}

c10::Stream external_stream(orStream_t handle) {
  int device = 0;
  OR_CHECK(orStreamGetDevice(handle, &device));
  return make_stream(static_cast<c10::DeviceIndex>(device), reinterpret_cast<c10::StreamId>(handle));
}

c10::StreamId number_of_stream(c10::DeviceIndex device, uint64_t id) {
  if (id == 0) {
    return 0;
  }
  const auto& handles = streams_of(device).handles;
  for (size_t number = 1; number < handles.size(); ++number) {
    const orStream_t handle = handles[number].load(std::memory_order_acquire);
    uint64_t candidate = 0;
    if (handle != nullptr && orStreamGetId(handle, &candidate) == orSuccess && candidate == id) {
      return static_cast<c10::StreamId>(number);
    }
  }
  return -1;
}

bool query_stream(c10::Stream stream) {
  orError_t error = orStreamQuery(stream_handle(stream));
  if (error == orErrorNotReady) {
    return false;
  }
  if (error == orErrorKernelFailed) {
    // Clears the failure that is raised. Does not wait: later work of a failed stream is dropped.
    error = orStreamSynchronize(stream_handle(stream));
  }
  OR_CHECK_RESULT(error, orStreamQuery);
  return true;
}

void synchronize_stream(c10::Stream stream) {
  const GilRelease waiting;
  OR_CHECK(orStreamSynchronize(stream_handle(stream)));
  if (C10_UNLIKELY(races::on())) {
    races::host_waited_for_stream(checked_stream(stream));
  }
}

void sleep_on_stream(c10::Stream stream, int64_t cycles) {
  OR_CHECK(orLaunchKernel(stream_handle(stream), &kSleep, &cycles, sizeof(cycles)));
}

int stream_priority(c10::Stream stream) {
  int priority = 0;
  OR_CHECK(orStreamGetPriority(stream_handle(stream), &priority));
  return priority;
}

}  // namespace openreg
