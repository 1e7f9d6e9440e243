#include "process/receive.h"

#include "common/check.h"
#include "common/fork.h"
#include "device/device.h"
#include "event/event.h"
#include "memory/device_allocator.h"
#include "memory/pool/ipc_hooks.h"
#include "storage/device_storage.h"
#include "stream/capture.h"
#include "stream/checked_stream.h"
#include "stream/stream.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace openreg {
namespace {

struct Received {
  void* ptr;
  c10::DeviceIndex device;
  std::vector<c10::Stream> streams;  // guarded by the mutex of all_received
};

struct AllReceived {
  std::mutex mutex;  // guards the map and the streams of its entries
  std::unordered_map<void*, c10::weak_intrusive_ptr<c10::StorageImpl>> storages;
};

AllReceived& all_received() {
  static auto* all = new AllReceived;
  return *all;
}

void add(std::vector<c10::Stream>& streams, c10::Stream stream) {
  if (std::ranges::find(streams, stream) == streams.end()) {
    streams.push_back(stream);
  }
}

// Closes the handle after the work of all streams that have used the memory. Capturing streams are skipped:
// as for all memory from outside of a graph, the caller keeps the memory alive while the graph is used.
void close_in_stream_order(const Received& received) {
  std::vector<c10::Stream> streams = received.streams;
  add(streams, current_stream(received.device));
  if (any_capture()) {
    std::erase_if(streams, stream_is_capturing);
  }
  const c10::Stream last = streams.empty() ? default_stream(received.device) : streams.back();
  for (const c10::Stream stream : streams) {
    void* event = nullptr;
    if (stream != last &&
        try_record_event(&event, stream)) {  // fails for a destroyed stream, which is skipped
      block_on_event(event, last);
      destroy_event(event);
    }
  }
  OR_CHECK(orIpcCloseMemHandleAsync(received.ptr, stream_handle(last)));
}

void release_received(void* context) {
  const std::unique_ptr<Received> received(static_cast<Received*>(context));
  if (in_forked_child()) {
    return;
  }
  try {
    close_in_stream_order(*received);
  } catch (const std::exception&) {
    // Deleters must not throw. The handle is closed when the process exits.
  }
}

void wait_for_sender(const SharedStorage& shared) {
  for (const std::string& handle : shared.events) {
    void* event = open_event(handle, shared.device);
    block_on_event(event, current_stream(shared.device));
    destroy_event(event);
  }
}

c10::Storage wrap(const SharedStorage& shared, void* ptr) {
  auto* received = new Received{ptr, shared.device, {current_stream(shared.device)}};
  return make_storage(c10::DataPtr(ptr, received, &release_received, c10::Device(kDevice, shared.device)),
                      shared.bytes,
                      /*resizable=*/false);
}

orIpcMemHandle_t handle_of(const SharedStorage& shared) {
  orIpcMemHandle_t handle;
  TORCH_CHECK_VALUE(shared.memory.size() == sizeof(handle.bytes), "invalid IPC memory handle: expected ",
                    sizeof(handle.bytes), " bytes, got ", shared.memory.size());
  std::memcpy(handle.bytes, shared.memory.data(), sizeof(handle.bytes));
  return handle;
}

// Returns the memory of a handle that could not be opened to the sender, if opening and closing it is
// possible now. The message with the handle is lost, so the sender would keep the memory for a receiver that
// never comes.
void discard(const orIpcMemHandle_t& handle) {
  void* ptr = nullptr;
  if (orIpcOpenMemHandle(&ptr, &handle) == orSuccess) {
    (void)!orIpcCloseMemHandle(ptr);
  }
}

void check_length(void* ptr, size_t bytes) {
  orPointerAttributes attributes{};
  attributes.struct_size = sizeof(attributes);
  OR_CHECK(orPointerGetAttributes(&attributes, ptr));
  const size_t offset = static_cast<size_t>(static_cast<char*>(ptr) - static_cast<char*>(attributes.base));
  TORCH_CHECK_VALUE(attributes.type == orMemoryTypeDevice && bytes <= attributes.size - offset,
                    "invalid IPC storage: its size is ", bytes, " bytes, but the shared memory has ",
                    attributes.size - offset, " bytes");
}

}  // namespace

c10::Storage receive_storage(const SharedStorage& shared) {
  const c10::Device device(kDevice, shared.device);
  resolve(device);
  if (shared.memory.empty()) {
    DeviceScope scope(shared.device);
    return make_storage(device_allocator().allocate(0), 0);
  }
  const orIpcMemHandle_t handle = handle_of(shared);
  void* ptr = nullptr;
  const CallSite site = C10_UNLIKELY(races::on()) ? call_site() : 0;  // may take the GIL
  AllReceived& all = all_received();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const orError_t error = orIpcOpenMemHandle(&ptr, &handle);
  if (error == orErrorNotPermitted) {
    const std::string message = orGetLastErrorMessage();
    if (c10::Storage own = find_own(shared)) {
      return own;
    }
    TORCH_CHECK(false, message);
  }
  try {
    OR_CHECK_RESULT(error, orIpcOpenMemHandle);
  } catch (...) {
    discard(handle);
    throw;
  }
  try {
    check_length(ptr, shared.bytes);
    wait_for_sender(shared);
    if (C10_UNLIKELY(races::on()) && !shared.events.empty()) {
      races::received(ptr, shared.bytes, checked_stream(current_stream(shared.device)), site);
    }
  } catch (...) {
    (void)!orIpcCloseMemHandle(ptr);
    throw;
  }
  std::erase_if(all.storages, [](const auto& item) { return item.second.expired(); });
  if (const auto known = all.storages.find(ptr); known != all.storages.end()) {
    if (auto alive = known->second.lock(); alive && alive->nbytes() == shared.bytes) {
      // That storage has its own open handle. Close this one after the wait for the sender.
      OR_CHECK(orIpcCloseMemHandleAsync(ptr, current_stream_handle(shared.device)));
      return c10::Storage(std::move(alive));
    }
  }
  c10::Storage fresh = wrap(shared, ptr);
  all.storages.insert_or_assign(ptr, fresh.getWeakStorageImpl());
  return fresh;
}

bool is_received(const c10::DataPtr& data) {
  return data.get_deleter() == &release_received;
}

namespace {

void record_received(const c10::DataPtr& data, c10::Stream stream) {
  if (is_received(data)) {
    const std::lock_guard<std::mutex> lock(all_received().mutex);
    add(static_cast<Received*>(data.get_context())->streams, stream);
  }
}

[[maybe_unused]] const bool registered = [] {
  ipc_hooks.record_received = &record_received;
  return true;
}();

}  // namespace

}  // namespace openreg
