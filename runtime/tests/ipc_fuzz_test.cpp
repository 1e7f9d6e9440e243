// Corrupted IPC handles and corrupted shared memory. Every call returns success or an error with a message,
// and memory that was opened is readable. The seeds are fixed.
#include "drivers/sim/ipc_layout.h"
#include "handle_text.h"
#include "peer_process.h"
#include "support.h"

#include <cstring>
#include <random>
#include <sys/mman.h>
#include <thread>
#include <vector>

using namespace support;
using openreg::sim::EventEntry;
using openreg::sim::IpcRegistry;
using openreg::sim::MemoryEntry;
using openreg::sim::WireHandle;

namespace {

constexpr size_t kBytes = 1 << 16;

template <typename Handle>
WireHandle unpack(const Handle& handle) {
  WireHandle wire;
  std::memcpy(&wire, &handle, sizeof(wire));
  return wire;
}

template <typename Handle>
Handle pack(const WireHandle& wire) {
  Handle handle;
  std::memcpy(&handle, &wire, sizeof(handle));
  return handle;
}

void expect_message(orError_t error) {
  if (error != orSuccess && error != orErrorNotReady) EXPECT_STRNE(orGetLastErrorMessage(), "");
  static_cast<void>(orGetLastError());
}

// Opened memory is device memory and readable up to its last byte.
void read_and_close(void* ptr) {
  orPointerAttributes attributes{};
  attributes.struct_size = sizeof(attributes);
  ASSERT_OK(orPointerGetAttributes(&attributes, ptr));
  ASSERT_EQ(attributes.type, orMemoryTypeDevice);
  const char* last = static_cast<const char*>(attributes.base) + attributes.size - 1;
  char byte = 0;
  EXPECT_OK(orMemcpy(&byte, ptr, 1, orMemcpyDeviceToHost));
  EXPECT_OK(orMemcpy(&byte, last, 1, orMemcpyDeviceToHost));
  EXPECT_OK(orIpcCloseMemHandle(ptr));
}

void open_and_read(const orIpcMemHandle_t& handle) {
  void* ptr = nullptr;
  const orError_t error = orIpcOpenMemHandle(&ptr, &handle);
  expect_message(error);
  if (error == orSuccess) read_and_close(ptr);
}

void open_event(const orIpcEventHandle_t& handle) {
  orEvent_t event = nullptr;
  const orError_t error = orIpcOpenEventHandle(&event, &handle);
  expect_message(error);
  if (error == orSuccess) EXPECT_OK(orEventDestroy(event));
}

// Maps the IPC registry of a handle for writing, as any process of the same user can.
class MappedRegistry {
 public:
  explicit MappedRegistry(const WireHandle& handle) {
    const std::string path = "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.file);
    const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
    EXPECT_GE(file, 0) << path;
    void* address = mmap(nullptr, sizeof(IpcRegistry), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    EXPECT_NE(address, MAP_FAILED);
    close(file);
    registry_ = static_cast<IpcRegistry*>(address);
  }
  ~MappedRegistry() { munmap(registry_, sizeof(IpcRegistry)); }
  IpcRegistry* operator->() const { return registry_; }

 private:
  IpcRegistry* registry_;
};

class Fuzz {
 public:
  explicit Fuzz(uint64_t seed) : random_(seed) {}

  uint64_t below(uint64_t limit) { return random_() % limit; }
  uint64_t word() {
    static constexpr uint64_t kEdges[] = {0,         1,          63,        64,
                                          4095,      4096,       kBytes,    kBytes + 1,
                                          INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX - 4095,
                                          UINT64_MAX};
    return below(2) ? kEdges[below(std::size(kEdges))] : random_() >> below(64);
  }
  /// Changes a few words of the object, none before `first`.
  void overwrite(void* object, size_t size, size_t first = 0) {
    for (uint64_t changes = 1 + below(3); changes > 0; --changes) {
      const uint64_t value = word();
      const size_t width = below(2) ? 8 : 4;
      const size_t place = first + below((size - first - width) / 4 + 1) * 4;
      std::memcpy(static_cast<char*>(object) + place, &value, width);
    }
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace

TEST(IpcFuzz, ArbitraryBytesReturnErrors) {
  Fuzz fuzz(1);
  void* memory = allocate(kBytes);
  orIpcMemHandle_t own;
  ASSERT_OK(orIpcGetMemHandle(&own, memory, kBytes));
  for (int round = 0; round < 5000; ++round) {
    WireHandle wire{};
    for (size_t i = 0; i < sizeof(wire) / 8; ++i) {
      const uint64_t word = fuzz.word();
      std::memcpy(reinterpret_cast<char*>(&wire) + 8 * i, &word, 8);
    }
    if (round % 2) wire.kind = round % 4 == 1 ? WireHandle::kMemory : WireHandle::kEvent;
    if (round % 8 > 3) {
      wire.process = getpid();
      wire.inode = unpack(own).inode;
    }
    if (round % 16 > 7) std::memset(wire.reserved, 0, sizeof(wire.reserved));
    const auto handle = pack<orIpcMemHandle_t>(wire);
    void* ptr = nullptr;
    const orError_t opened = orIpcOpenMemHandle(&ptr, &handle);
    EXPECT_NE(opened, orSuccess);
    expect_message(opened);
    const orError_t retired = orIpcRetireMemHandle(&handle);
    EXPECT_NE(retired, orSuccess);
    expect_message(retired);
    open_event(pack<orIpcEventHandle_t>(wire));
  }
  EXPECT_OK(orFree(memory));
}

TEST(IpcFuzz, CorruptedHandlesAreSafe) {
  Fuzz fuzz(2);
  Peer peer;
  const auto memory = from_hex<orIpcMemHandle_t>(peer.get("export " + peer.get("alloc 65536 7") + " 65536"));
  const auto event = from_hex<orIpcEventHandle_t>(peer.get("export_event " + peer.get("create_event")));
  for (int round = 0; round < 3000; ++round) {
    orIpcMemHandle_t changed = memory;
    fuzz.overwrite(&changed, sizeof(changed));
    open_and_read(changed);
    orIpcEventHandle_t changed_event = event;
    fuzz.overwrite(&changed_event, sizeof(changed_event));
    open_event(changed_event);
  }
  void* ptr = nullptr;
  ASSERT_OK(orIpcOpenMemHandle(&ptr, &memory));
  read_and_close(ptr);
}

TEST(IpcFuzz, CorruptedEntriesAreSafe) {
  Fuzz fuzz(3);
  Peer peer;
  const std::string there = peer.get("alloc 65536 7");
  const auto handle = from_hex<orIpcMemHandle_t>(peer.get("export " + there + " 65536"));
  const auto other = from_hex<orIpcMemHandle_t>(peer.get("export " + there + " 100"));
  const WireHandle wire = unpack(handle);
  MappedRegistry ipc_registry(wire);
  MemoryEntry& entry = ipc_registry->memory[wire.index];
  IpcRegistry::Arena& arena = ipc_registry->arenas[0];
  void* kept = nullptr;
  for (int round = 0; round < 3000; ++round) {
    // With and without an existing mapping of the allocation.
    if (round % 500 == 250) ASSERT_OK(orIpcOpenMemHandle(&kept, &other));
    char entry_before[sizeof(entry)], arena_before[sizeof(arena)];
    std::memcpy(entry_before, &entry, sizeof(entry));
    std::memcpy(arena_before, &arena, sizeof(arena));
    // The secret only rarely: a wrong secret is refused before the other fields are read.
    if (round % 4)
      fuzz.overwrite(&entry, sizeof(entry),
                     round % 16 ? sizeof(openreg::sim::Entry) - sizeof(entry.device) : 0);
    if (round % 3 == 0) fuzz.overwrite(&arena, sizeof(arena));
    open_and_read(handle);
    std::memcpy(static_cast<void*>(&entry), entry_before, sizeof(entry));
    std::memcpy(static_cast<void*>(&arena), arena_before, sizeof(arena));
    if (round % 500 == 499) ASSERT_OK(orIpcCloseMemHandle(kept));
  }
  void* ptr = nullptr;
  ASSERT_OK(orIpcOpenMemHandle(&ptr, &handle));
  read_and_close(ptr);
}

TEST(IpcFuzz, EntriesThatChangeDuringTheCallAreSafe) {
  Peer peer;
  const std::string there = peer.get("alloc 65536 7");
  const auto handle = from_hex<orIpcMemHandle_t>(peer.get("export " + there + " 65536"));
  const auto other = from_hex<orIpcMemHandle_t>(peer.get("export " + there + " 100"));
  const WireHandle wire = unpack(handle);
  MappedRegistry ipc_registry(wire);
  MemoryEntry& entry = ipc_registry->memory[wire.index];
  const uint64_t begin = entry.begin, size = entry.size, base_size = entry.base_size;
  void* kept = nullptr;
  ASSERT_OK(orIpcOpenMemHandle(&kept, &other));
  std::atomic<bool> stop{false};
  std::thread changer([&] {
    for (uint64_t turn = 0; !stop.load(std::memory_order_relaxed); ++turn) {
      __atomic_store_n(&entry.begin, turn % 2 ? begin : begin + (uint64_t{1} << 40), __ATOMIC_RELAXED);
      __atomic_store_n(&entry.size, turn % 4 < 2 ? size : UINT64_MAX - 4095, __ATOMIC_RELAXED);
      __atomic_store_n(&entry.base_size, turn % 8 < 4 ? base_size : uint64_t{1} << 45, __ATOMIC_RELAXED);
      __atomic_store_n(&entry.device, turn % 16 < 8 ? 0 : INT32_MAX, __ATOMIC_RELAXED);
    }
  });
  for (int round = 0; round < 3000; ++round) open_and_read(handle);
  stop.store(true);
  changer.join();
  EXPECT_OK(orIpcCloseMemHandle(kept));
}

TEST(IpcFuzz, OwnerIgnoresItsCorruptedRegistry) {
  Fuzz fuzz(4);
  void* memory = allocate(kBytes);
  orEvent_t event = nullptr;
  ASSERT_OK(orEventCreateWithFlags(&event, orEventDisableTiming | orEventInterprocess));
  orIpcEventHandle_t event_handle, again;
  ASSERT_OK(orIpcGetEventHandle(&event_handle, event));
  MappedRegistry ipc_registry(unpack(event_handle));
  for (int round = 0; round < 1000; ++round) {
    void* fresh = allocate(4096);
    orIpcMemHandle_t first, second;
    ASSERT_OK(orIpcGetMemHandle(&first, memory, kBytes));
    ASSERT_OK(orIpcGetMemHandle(&second, fresh, 100));
    for (const orIpcMemHandle_t& handle : {first, second}) {
      MemoryEntry& entry = ipc_registry->memory[unpack(handle).index];
      fuzz.overwrite(&entry, sizeof(entry));
      // Only received handles can be retired.
      entry.state.store(openreg::sim::EntryState::kReceived);
    }
    EXPECT_OK(orIpcRetireMemHandle(&first));
    EXPECT_FAILS(orErrorInvalidHandle, orIpcRetireMemHandle(&first), "does not refer to memory");
    EXPECT_OK(orFree(fresh));  // also retires its handles
    EXPECT_FAILS(orErrorInvalidHandle, orIpcRetireMemHandle(&second), "does not refer to memory");
    EventEntry& shared = ipc_registry->events[unpack(event_handle).index];
    fuzz.overwrite(&shared, sizeof(shared));
    EXPECT_OK(orIpcGetEventHandle(&again, event));
    EXPECT_EQ(to_hex(again), to_hex(event_handle));
  }
  EXPECT_OK(orEventDestroy(event));
  EXPECT_OK(orFree(memory));
}

TEST(IpcFuzz, CorruptedEventsComplete) {
  Fuzz fuzz(5);
  Peer peer;
  const auto handle = from_hex<orIpcEventHandle_t>(peer.get("export_event " + peer.get("create_event")));
  const WireHandle wire = unpack(handle);
  MappedRegistry ipc_registry(wire);
  EventEntry& entry = ipc_registry->events[wire.index];
  orEvent_t event = nullptr;
  ASSERT_OK(orIpcOpenEventHandle(&event, &handle));
  Stream stream;
  for (int round = 0; round < 200; ++round) {
    // No process can have this id, so its records count as complete.
    entry.latest.store(fuzz.word() << EventEntry::kProcessBits | 0xc00000 | fuzz.below(0x100000));
    for (auto& done : entry.done) done.store(fuzz.word());
    for (auto& process : entry.process) process.store(static_cast<int32_t>(fuzz.word()) | 0x40000000);
    expect_message(orEventQuery(event));
    EXPECT_OK(orStreamWaitEvent(stream, event));
    EXPECT_OK(orStreamSynchronize(stream));
    EXPECT_OK(orEventRecord(event, stream));
    EXPECT_OK(orStreamSynchronize(stream));
    open_event(handle);
  }
  EXPECT_OK(orEventDestroy(event));
}
