#include "process/share.h"

#include "common/check.h"
#include "device/device.h"
#include "event/event.h"
#include "memory/device_allocator.h"
#include "memory/kernel_view.h"
#include "memory/pool/ipc_hooks.h"
#include "process/receive.h"
#include "storage/device_storage.h"
#include "stream/checked_stream.h"
#include "stream/stream.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace openreg {
namespace {

// One send of a storage.
struct Sent {
  orIpcMemHandle_t handle;
  std::vector<void*> events;
};

struct SharedBlock {
  std::vector<Sent> sent;
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  size_t bytes;
  int owners = 1;  // storages of this process; 0: kept only for other processes
};

struct Shared {
  std::mutex mutex;  // guards the map; lock order: before the pool's mutex
  std::unordered_map<Block*, SharedBlock> blocks;
};

Shared& all_shared() {
  static auto* shared = new Shared;
  return *shared;
}

std::string bytes_of(const orIpcMemHandle_t& handle) {
  return std::string(reinterpret_cast<const char*>(handle.bytes), sizeof(handle.bytes));
}

// Removes the sends whose handles are retired; returns whether none is left.
bool retire(SharedBlock& block) {
  std::erase_if(block.sent, [](const Sent& sent) {
    if (orIpcRetireMemHandle(&sent.handle) == orErrorNotReady) {
      return false;
    }
    std::ranges::for_each(sent.events, destroy_event);
    return true;
  });
  return block.sent.empty();
}

// Removes the blocks that no other process uses any more, and returns those without an owner in this process.
// The caller frees them without the lock, because a free may wait for the GIL or for the device.
std::vector<Block*> collect_locked(Shared& shared) {
  std::vector<Block*> unused;
  for (auto item = shared.blocks.begin(); item != shared.blocks.end();) {
    auto& [block, state] = *item;
    if (!retire(state)) {
      ++item;
      continue;
    }
    block->shared = false;
    if (state.owners == 0) {
      unused.push_back(block);
    }
    item = shared.blocks.erase(item);
  }
  return unused;
}

// Whether the receiver need not wait for the stream. The race check does not rely on a stream that happens to
// be idle.
bool is_done(c10::Stream stream) {
  return query_stream(stream) &&
         (C10_LIKELY(!races::on()) || races::host_follows_stream(checked_stream(stream)));
}

// Adds an event after the work of the stream; no effect if the stream is idle.
void add_event(SharedStorage& shared, Sent& sent, c10::Stream stream) {
  if (is_done(stream)) {
    return;
  }
  void* event = make_event(stream.device_index(), orEventDisableTiming | orEventInterprocess);
  sent.events.push_back(event);
  record_event(&event, stream, stream.device_index(), c10::EventFlag::PYTORCH_DEFAULT);
  shared.events.push_back(event_ipc_handle(event));
}

}  // namespace

SharedStorage share_storage(const c10::Storage& storage) {
  c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
  TORCH_CHECK(impl->device_type() == kDevice, "expected a ", orGetDeviceName(),
              " storage to share, but got a storage on ", impl->device());
  SharedStorage result;
  result.device = impl->device().index();
  result.bytes = impl->nbytes();
  materialize_cow(impl);
  if (result.bytes == 0) {
    return result;
  }
  TORCH_CHECK(!is_received(impl->data_ptr()), "this tensor", quoted_name(*impl),
              " was received from another process, and only the process that made it can send it; send a "
              "clone()");
  Block* block = block_of(impl->data_ptr());
  TORCH_CHECK(block != nullptr, "this tensor", quoted_name(*impl), " does not own its memory (", result.bytes,
              " bytes, for instance from from_blob), which could be freed while another process uses it; "
              "send a clone()");
  Sent sent;
  try {
    const c10::Stream current = current_stream(result.device);
    add_event(result, sent, current);
    if (block->stream != current.id()) {
      // multiprocessing.Queue pickles on its own thread, whose current stream is not the program's.
      add_event(result, sent, c10::Stream(c10::Stream::UNSAFE, impl->device(), block->stream));
    }
    collect_shared();
    Shared& shared = all_shared();
    const std::lock_guard<std::mutex> lock(shared.mutex);
    OR_CHECK(orIpcGetMemHandle(&sent.handle, block->ptr, result.bytes));
    auto [entry, added] =
        shared.blocks.try_emplace(block, SharedBlock{{}, storage.getWeakStorageImpl(), result.bytes});
    block->shared = true;
    result.memory = bytes_of(sent.handle);
    entry->second.sent.push_back(std::move(sent));
  } catch (...) {
    std::ranges::for_each(sent.events, destroy_event);
    throw;
  }
  return result;
}

c10::Storage find_own(const SharedStorage& wanted) {
  Shared& shared = all_shared();
  const std::lock_guard<std::mutex> lock(shared.mutex);
  for (auto& [block, state] : shared.blocks) {
    const auto is_wanted = [&](const Sent& sent) { return bytes_of(sent.handle) == wanted.memory; };
    const auto found = std::ranges::find_if(state.sent, is_wanted);
    if (found == state.sent.end()) {
      continue;
    }
    for (void* event : found->events) {
      block_on_event(event, current_stream(block->device));
    }
    if (auto alive = state.storage.lock(); alive && alive->data_ptr().get() == block->ptr) {
      return c10::Storage(std::move(alive));
    }
    ++state.owners;
    c10::Storage again = make_storage(
        c10::DataPtr(block->ptr, block, &free_block, c10::Device(kDevice, block->device)), state.bytes);
    state.storage = again.getWeakStorageImpl();
    return again;
  }
  return {};
}

void collect_shared() {
  Shared& shared = all_shared();
  std::vector<Block*> unused;
  {
    const std::lock_guard<std::mutex> lock(shared.mutex);
    unused = collect_locked(shared);
  }
  std::ranges::for_each(unused, free_block);
}

namespace {

bool keep_while_shared(Block* block) {
  Shared& shared = all_shared();
  const std::lock_guard<std::mutex> lock(shared.mutex);
  const auto entry = shared.blocks.find(block);
  if (entry == shared.blocks.end()) {
    return false;
  }
  if (--entry->second.owners > 0 || !retire(entry->second)) {
    return true;
  }
  block->shared = false;
  shared.blocks.erase(entry);
  return false;
}

[[maybe_unused]] const bool registered = [] {
  ipc_hooks.keep_while_shared = &keep_while_shared;
  ipc_hooks.collect_shared = &collect_shared;
  return true;
}();

}  // namespace

}  // namespace openreg
