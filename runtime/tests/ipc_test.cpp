// Memory and events shared between processes. The second process is ipc_peer.cpp.
#include "handle_text.h"
#include "peer_process.h"
#include "support.h"

#include <chrono>
#include <cstring>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace support;

namespace {

orIpcMemHandle_t export_memory(void* memory, size_t size) {
  orIpcMemHandle_t handle{};
  EXPECT_OK(orIpcGetMemHandle(&handle, memory, size));
  return handle;
}

int byte_at(const void* memory, size_t offset = 0) {
  unsigned char byte = 0;
  EXPECT_OK(orMemcpy(&byte, static_cast<const char*>(memory) + offset, 1, orMemcpyDeviceToHost));
  return byte;
}

orEvent_t interprocess_event() {
  orEvent_t event = nullptr;
  EXPECT_OK(orEventCreateWithFlags(&event, orEventDisableTiming | orEventInterprocess));
  return event;
}

std::string export_event(orEvent_t event) {
  orIpcEventHandle_t handle{};
  EXPECT_OK(orIpcGetEventHandle(&handle, event));
  return to_hex(handle);
}

// Retries until success or another error: the locks of a peer that ended are released with a delay.
bool retires(const orIpcMemHandle_t& handle) {
  for (int attempt = 0; attempt < 2000; ++attempt) {
    const orError_t error = orIpcRetireMemHandle(&handle);
    if (error != orErrorNotReady) return error == orSuccess;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

}  // namespace

TEST(Ipc, BothProcessesAccessTheSameMemory) {
  Peer peer;
  void* memory = allocate(1 << 16);
  ASSERT_OK(orMemset(memory, 7, 1 << 16));
  const orIpcMemHandle_t handle = export_memory(static_cast<char*>(memory) + 1000, 5000);
  const std::string there = peer.get("open " + to_hex(handle));
  EXPECT_EQ(peer.get("read " + there + " 4999"), "7");
  peer.get("write " + there + " 0 42");
  EXPECT_EQ(byte_at(memory, 1000), 42);
  ASSERT_OK(orMemset(memory, 9, 1 << 16));
  EXPECT_EQ(peer.get("read " + there + " 0"), "9");
  peer.get("close " + there);
  EXPECT_TRUE(retires(handle));
  EXPECT_OK(orFree(memory));
}

TEST(Ipc, MemoryIsAccountedInTheAllocatingProcess) {
  Peer peer;
  const std::string before = peer.get("free_bytes");
  void* memory = allocate(64 << 20);
  const orIpcMemHandle_t handle = export_memory(memory, 64 << 20);
  peer.get("open " + to_hex(handle));
  EXPECT_EQ(peer.get("free_bytes"), before);
  peer.stop();
  EXPECT_TRUE(retires(handle));
  EXPECT_OK(orFree(memory));
}

TEST(Ipc, OpenedMemoryIsDeviceMemoryOfTheSameDevice) {
  Peer peer;
  const std::string there = peer.get("alloc 8192 5");
  const auto handle = from_hex<orIpcMemHandle_t>(peer.get("export " + there + " 8192"));
  void* first = nullptr;
  void* second = nullptr;
  ASSERT_OK(orIpcOpenMemHandle(&first, &handle));
  ASSERT_OK(orIpcOpenMemHandle(&second, &handle));
  EXPECT_EQ(first, second);
  orPointerAttributes attributes{};
  attributes.struct_size = sizeof(attributes);
  ASSERT_OK(orPointerGetAttributes(&attributes, first));
  EXPECT_EQ(attributes.type, orMemoryTypeDevice);
  EXPECT_EQ(attributes.device, 0);
  EXPECT_EQ(attributes.size, 8192u);
  ptrdiff_t offset = 0;
  ASSERT_OK(orGetKernelViewOffset(&offset, 0));
  EXPECT_EQ(attributes.kernel_view, static_cast<char*>(first) + offset);
  EXPECT_EQ(byte_at(first), 5);
  EXPECT_FAILS(orErrorInvalidPointer, orFree(first), "opened with orIpcOpenMemHandle");
  orIpcMemHandle_t again{};
  EXPECT_FAILS(orErrorNotPermitted, orIpcGetMemHandle(&again, first, 8),
               "only the process that allocated it");
  EXPECT_FAILS(orErrorInvalidValue, orMemset(first, 0, 8193), "exceed");
  EXPECT_OK(orIpcCloseMemHandle(first));
  EXPECT_EQ(byte_at(second), 5);
  EXPECT_OK(orIpcCloseMemHandle(second));
  EXPECT_FAILS(orErrorInvalidPointer, orIpcCloseMemHandle(second), "not memory of another process");
  EXPECT_FAILS(orErrorInvalidPointer, orMemset(first, 0, 1), "was freed or never allocated");
}

TEST(Ipc, RangesOfOneAllocationAreClosedSeparately) {
  Peer peer;
  const std::string there = peer.get("alloc 65536 1");
  const auto whole = from_hex<orIpcMemHandle_t>(peer.get("export " + there + " 65536"));
  const auto part = from_hex<orIpcMemHandle_t>(peer.get("export " + there + " 512"));
  void* a = nullptr;
  void* b = nullptr;
  ASSERT_OK(orIpcOpenMemHandle(&a, &whole));
  ASSERT_OK(orIpcOpenMemHandle(&b, &part));
  EXPECT_EQ(a, b);
  EXPECT_OK(orIpcCloseMemHandle(a));
  EXPECT_EQ(byte_at(b), 1);
  EXPECT_FAILS(orErrorInvalidPointer, orIpcCloseMemHandle(static_cast<char*>(b) + 4),
               "did not return this pointer");
  EXPECT_OK(orIpcCloseMemHandle(b));
}

TEST(Ipc, OpenMemoryCannotBeFreedAndUnopenedHandlesCannotBeRetired) {
  Peer peer;
  void* memory = allocate(4096);
  const orIpcMemHandle_t handle = export_memory(memory, 4096);
  EXPECT_EQ(orIpcRetireMemHandle(&handle), orErrorNotReady);
  const std::string there = peer.get("open " + to_hex(handle));
  EXPECT_EQ(orIpcRetireMemHandle(&handle), orErrorNotReady);
  EXPECT_FAILS(orErrorNotPermitted, orFree(memory), "another process holds memory");
  EXPECT_EQ(byte_at(memory), byte_at(memory));
  peer.get("close " + there);
  EXPECT_OK(orFree(memory));
  EXPECT_NE(peer.ask("open " + to_hex(handle)).find("stale or forged"), std::string::npos);
}

TEST(Ipc, KilledConsumerReleasesTheMemory) {
  void* memory = allocate(4096);
  ASSERT_OK(orMemset(memory, 3, 4096));
  const orIpcMemHandle_t handle = export_memory(memory, 4096);
  Peer witness;
  const std::string there = witness.get("open " + to_hex(handle));
  {
    Peer killed;
    killed.get("open " + to_hex(handle));
    killed.kill();
    EXPECT_EQ(orIpcRetireMemHandle(&handle), orErrorNotReady) << "the witness still holds it";
    EXPECT_EQ(witness.get("read " + there + " 0"), "3");
    witness.get("close " + there);
    EXPECT_TRUE(retires(handle));
  }
  EXPECT_OK(orFree(memory));
}

TEST(Ipc, OpenMemoryOutlivesAKilledProducer) {
  Peer peer;
  const std::string there = peer.get("alloc 4096 8");
  const auto held = from_hex<orIpcMemHandle_t>(peer.get("export " + there + " 4096"));
  const auto late = from_hex<orIpcMemHandle_t>(peer.get("export " + there + " 4096"));
  void* memory = nullptr;
  ASSERT_OK(orIpcOpenMemHandle(&memory, &held));
  peer.kill();
  peer.stop();
  EXPECT_EQ(byte_at(memory, 4095), 8);
  EXPECT_OK(orMemset(memory, 1, 4096));
  EXPECT_EQ(byte_at(memory), 1);
  EXPECT_OK(orIpcCloseMemHandle(memory));
  EXPECT_FAILS(orErrorInvalidHandle, orIpcOpenMemHandle(&memory, &late), "has ended or does not exist");
}

TEST(Ipc, ForgedAndStaleHandlesAreRefused) {
  Peer peer;
  void* memory = allocate(4096);
  const orIpcMemHandle_t good = export_memory(memory, 4096);
  orIpcMemHandle_t forged = good;
  for (const size_t byte : {24u, 39u}) {  // of the secret
    forged = good;
    forged.bytes[byte] ^= 1;
    EXPECT_NE(peer.ask("open " + to_hex(forged)).find("orErrorInvalidHandle"), std::string::npos);
  }
  for (size_t byte = 0; byte < 40; ++byte) {
    for (const int flip : {1, 0x80, 0xff}) {
      forged = good;
      forged.bytes[byte] ^= static_cast<unsigned char>(flip);
      const std::string reply = peer.ask("open " + to_hex(forged));
      EXPECT_EQ(reply.substr(0, 6), "error ") << "byte " << byte << ": " << reply;
    }
  }
  std::atomic<pid_t> thread{0};
  Gate gate;
  std::thread other([&] {
    thread = static_cast<pid_t>(syscall(SYS_gettid));
    thread.notify_all();
    gate.wait();
  });
  thread.wait(0);
  forged = good;
  const pid_t number = thread;
  std::memcpy(forged.bytes + 4, &number, sizeof(number));
  EXPECT_NE(peer.ask("open " + to_hex(forged)).find("stale or forged"), std::string::npos);
  gate.open();
  other.join();
  std::memset(&forged, 0, sizeof(forged));
  EXPECT_NE(peer.ask("open " + to_hex(forged)).find("not a memory handle"), std::string::npos);
  EXPECT_NE(peer.ask("open_event " + to_hex(good)).find("not an event handle"), std::string::npos);
  EXPECT_FAILS(orErrorNotPermitted, orIpcOpenMemHandle(&memory, &good), "use its original pointer");
  peer.get("open " + to_hex(good));
  EXPECT_FAILS(orErrorInvalidHandle, orIpcRetireMemHandle(&forged), "does not refer to memory");
}

TEST(Ipc, ProcessesOfOtherUsersAreRefused) {
  if (getuid() != 0) GTEST_SKIP() << "only root can become another user";
  Peer peer;
  void* memory = allocate(4096);
  const orIpcMemHandle_t handle = export_memory(memory, 4096);
  peer.get("set_user 65534");
  const std::string reply = peer.ask("open " + to_hex(handle));
  EXPECT_NE(reply.find("orErrorNotPermitted"), std::string::npos) << reply;
  EXPECT_NE(reply.find("same user"), std::string::npos) << reply;
  EXPECT_OK(orFree(memory));
}

TEST(Ipc, ArgumentsAreChecked) {
  orIpcMemHandle_t handle{};
  int on_host = 0;
  void* memory = allocate(512);
  EXPECT_FAILS(orErrorInvalidPointer, orIpcGetMemHandle(&handle, &on_host, 4), "not device memory");
  EXPECT_FAILS(orErrorInvalidValue, orIpcGetMemHandle(&handle, memory, 513), "exceed");
  EXPECT_FAILS(orErrorInvalidValue, orIpcGetMemHandle(&handle, memory, 0), "size is 0");
  EXPECT_FAILS(orErrorInvalidValue, orIpcGetMemHandle(nullptr, memory, 1), "NULL");
  EXPECT_FAILS(orErrorInvalidPointer, orIpcCloseMemHandle(memory), "not memory of another process");
  EXPECT_FAILS(orErrorInvalidPointer, orIpcCloseMemHandleAsync(memory, nullptr),
               "not memory of another process");
  orEvent_t event = nullptr;
  EXPECT_FAILS(orErrorInvalidValue, orEventCreateWithFlags(&event, orEventInterprocess), "has no timing");
  orIpcEventHandle_t shared{};
  ASSERT_OK(orEventCreateWithFlags(&event, orEventDisableTiming));
  EXPECT_FAILS(orErrorInvalidValue, orIpcGetEventHandle(&shared, event), "without orEventInterprocess");
  EXPECT_OK(orEventDestroy(event));
  EXPECT_OK(orFree(memory));
}

TEST(Ipc, AsyncCloseTakesEffectInStreamOrder) {
  Peer peer;
  const std::string there = peer.get("alloc 4096 6");
  const auto handle = from_hex<orIpcMemHandle_t>(peer.get("export " + there + " 4096"));
  void* memory = nullptr;
  ASSERT_OK(orIpcOpenMemHandle(&memory, &handle));
  support::Stream stream;
  Gate gate;
  ASSERT_OK(launch(stream, [&] { gate.wait(); }));
  unsigned char byte = 0;
  void* pinned = nullptr;
  ASSERT_OK(orMallocHost(&pinned, 8));
  ASSERT_OK(orMemcpyAsync(pinned, memory, 1, orMemcpyDeviceToHost, stream));
  ASSERT_OK(orIpcCloseMemHandleAsync(memory, stream));
  void* again = nullptr;
  ASSERT_OK(orIpcOpenMemHandle(&again, &handle)) << "open until the stream reaches the close";
  EXPECT_EQ(again, memory);
  gate.open();
  ASSERT_OK(orStreamSynchronize(stream));
  std::memcpy(&byte, pinned, 1);
  EXPECT_EQ(byte, 6);
  EXPECT_EQ(byte_at(again), 6);
  EXPECT_OK(orIpcCloseMemHandle(again));
  EXPECT_OK(orFreeHost(pinned));
}

TEST(Ipc, StreamWaitsForARecordOfAnotherProcess) {
  Peer peer;
  void* memory = allocate(512);
  ASSERT_OK(orMemset(memory, 1, 512));
  const std::string there = peer.get("open " + to_hex(export_memory(memory, 512)));
  const std::string made = peer.get("create_event");
  orEvent_t event = nullptr;
  const auto shared = from_hex<orIpcEventHandle_t>(peer.get("export_event " + made));
  ASSERT_OK(orIpcOpenEventHandle(&event, &shared));
  EXPECT_OK(orEventQuery(event));
  peer.get("block");
  peer.get("write_async " + there + " 0 2");
  peer.get("record " + made);
  EXPECT_EQ(orEventQuery(event), orErrorNotReady);
  support::Stream stream;
  void* pinned = nullptr;
  ASSERT_OK(orMallocHost(&pinned, 8));
  ASSERT_OK(orStreamWaitEvent(stream, event));
  ASSERT_OK(orMemcpyAsync(pinned, memory, 1, orMemcpyDeviceToHost, stream));
  EXPECT_EQ(orStreamQuery(stream), orErrorNotReady);
  peer.get("unblock");
  ASSERT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(*static_cast<unsigned char*>(pinned), 2);
  EXPECT_OK(orEventSynchronize(event));
  EXPECT_OK(orEventQuery(event));
  EXPECT_OK(orEventDestroy(event));
  EXPECT_OK(orFreeHost(pinned));
}

TEST(Ipc, BothProcessesRecordOneEventManyTimes) {
  Peer peer;
  orEvent_t event = interprocess_event();
  const std::string there = peer.get("open_event " + export_event(event));
  support::Stream streams[3];
  for (int round = 0; round < 40; ++round) {  // more rounds than the ring has slots
    if (round % 3 == 2) {
      peer.get("record " + there);
      ASSERT_OK(orStreamWaitEvent(streams[0], event));
    } else {
      ASSERT_OK(orEventRecord(event, streams[round % 3]));
      peer.get("wait " + there);
    }
  }
  ASSERT_OK(orStreamSynchronize(streams[0]));
  peer.get("synchronize");
  Gate gate;
  ASSERT_OK(launch(streams[1], [&] { gate.wait(); }));
  for (int round = 0; round < 40; ++round) ASSERT_OK(orEventRecord(event, streams[1]));
  EXPECT_NE(peer.ask("query_event " + there).find("orErrorNotReady"), std::string::npos);
  peer.get("wait " + there);
  EXPECT_NE(peer.ask("query").find("orErrorNotReady"), std::string::npos);
  gate.open();
  peer.get("synchronize");
  peer.get("synchronize_event " + there);
  EXPECT_OK(orEventDestroy(event));
  EXPECT_OK(orStreamSynchronize(streams[1]));
}

TEST(Ipc, RecordsOfAKilledProcessCountAsComplete) {
  Peer peer;
  const std::string made = peer.get("create_event");
  orEvent_t event = nullptr;
  const auto shared = from_hex<orIpcEventHandle_t>(peer.get("export_event " + made));
  ASSERT_OK(orIpcOpenEventHandle(&event, &shared));
  peer.get("block");
  peer.get("record " + made);
  support::Stream stream;
  ASSERT_OK(orStreamWaitEvent(stream, event));
  EXPECT_EQ(orStreamQuery(stream), orErrorNotReady);
  peer.kill();
  EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_OK(orEventSynchronize(event));
  EXPECT_OK(orEventQuery(event));
  EXPECT_OK(orEventDestroy(event));
}

TEST(Ipc, DestroyedEventsCannotBeOpened) {
  Peer peer;
  orEvent_t event = interprocess_event();
  const std::string shared = export_event(event);
  const std::string there = peer.get("open_event " + shared);
  EXPECT_OK(orEventDestroy(event));
  EXPECT_NE(peer.ask("open_event " + shared).find("stale or forged"), std::string::npos);
  peer.get("synchronize_event " + there);
  peer.get("wait " + there);
  peer.get("synchronize");
  orEvent_t another = interprocess_event();  // must not reuse the slot that the peer has open
  Gate gate;
  support::Stream stream;
  ASSERT_OK(launch(stream, [&] { gate.wait(); }));
  ASSERT_OK(orEventRecord(another, stream));
  peer.get("query_event " + there);
  gate.open();
  ASSERT_OK(orStreamSynchronize(stream));
  EXPECT_OK(orEventDestroy(another));
}

TEST(Ipc, InterprocessEventsCannotBeCaptured) {
  Stream stream;
  const orEvent_t event = interprocess_event();
  ASSERT_OK(orStreamBeginCapture(stream, orCaptureGlobal));
  EXPECT_FAILS(orErrorCapture, orEventRecord(event, stream), "recording an interprocess event");
  orGraph_t graph = nullptr;
  EXPECT_NE(orStreamEndCapture(stream, &graph), orSuccess);
  EXPECT_OK(orEventRecord(event, stream));
  EXPECT_OK(orEventDestroy(event));
}
