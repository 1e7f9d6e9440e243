#include "support.h"

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <set>
#include <thread>
#include <vector>

using namespace support;

namespace {

int thread_count() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) ++count;
  return count;
}

struct Seen {
  static orError_t run(void* args, char*, size_t) {
    aligned = reinterpret_cast<uintptr_t>(args) % alignof(std::max_align_t) == 0;
    same = expected.empty() || std::memcmp(args, expected.data(), expected.size()) == 0;
    return orSuccess;
  }
  static inline std::vector<unsigned char> expected;
  static inline bool aligned, same;
};

}  // namespace

TEST(Stream, RunsInOrder) {
  Stream stream;
  std::vector<int> order;  // not atomic: a stream runs one kernel at a time
  for (int i = 0; i < 2000; ++i) ASSERT_OK(launch(stream, [&, i] { order.push_back(i); }));
  ASSERT_OK(orStreamSynchronize(stream));
  ASSERT_EQ(order.size(), 2000u);
  for (int i = 0; i < 2000; ++i) ASSERT_EQ(order[i], i);
}

TEST(Stream, LaunchReturnsBeforeTheWorkRuns) {
  Stream stream;
  Gate gate;
  ASSERT_OK(launch(stream, [&] { gate.wait(); }));
  EXPECT_EQ(orStreamQuery(stream), orErrorNotReady);
  gate.open();
  EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_OK(orStreamQuery(stream));
}

TEST(Stream, PendingCountIsPerStream) {
  Stream stream, other(1);
  Gate gate;
  uint64_t count = 99;
  EXPECT_OK(orStreamGetPending(stream, &count));
  EXPECT_EQ(count, 0u);
  for (int i = 0; i < 5; ++i) ASSERT_OK(launch(stream, [&] { gate.wait(); }));
  EXPECT_OK(orStreamGetPending(stream, &count));
  EXPECT_EQ(count, 5u);
  EXPECT_OK(orStreamGetPending(other, &count));
  EXPECT_EQ(count, 0u);
  gate.open();
  ASSERT_OK(orStreamSynchronize(stream));
  EXPECT_OK(orStreamGetPending(stream, &count));
  EXPECT_EQ(count, 0u);
  EXPECT_FAILS(orErrorInvalidValue, orStreamGetPending(stream, nullptr), "NULL");
}

TEST(Stream, TwoStreamsRunConcurrently) {
  Stream a, b;
  Gate first, second;
  ASSERT_OK(launch(a, [&] {
    first.open();
    second.wait();
  }));
  ASSERT_OK(launch(b, [&] {
    second.open();
    first.wait();
  }));
  EXPECT_OK(orStreamSynchronize(a));
  EXPECT_OK(orStreamSynchronize(b));
}

TEST(Stream, DefaultStreamDoesNotSynchronizeWithOthers) {
  Stream stream;
  Gate gate;
  ASSERT_OK(launch(stream, [&] { gate.wait(); }));
  EXPECT_OK(run(nullptr, [] {}));
  EXPECT_OK(orStreamSynchronize(nullptr));
  gate.open();
  EXPECT_OK(orStreamSynchronize(stream));
}

TEST(Stream, NullIsTheDefaultStreamOfTheCurrentDevice) {
  orStream_t first = nullptr, second = nullptr;
  ASSERT_OK(orStreamGetDefault(&first));
  ASSERT_OK(orSetDevice(1));
  ASSERT_OK(orStreamGetDefault(&second));
  EXPECT_NE(first, second);
  EXPECT_NE(first, nullptr);
  int device = -1;
  uint64_t id = 99;
  EXPECT_OK(orStreamGetDevice(first, &device));
  EXPECT_EQ(device, 0);
  EXPECT_OK(orStreamGetId(first, &id));
  EXPECT_EQ(id, 0u);
  ASSERT_OK(orSetDevice(0));
  std::vector<int> order;
  ASSERT_OK(launch(nullptr, [&] { order.push_back(1); }));
  ASSERT_OK(launch(first, [&] { order.push_back(2); }));
  ASSERT_OK(launch(nullptr, [&] { order.push_back(3); }));
  ASSERT_OK(orStreamSynchronize(first));
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
  EXPECT_FAILS(orErrorNotPermitted, orStreamDestroy(first), "default stream of device 0");
  EXPECT_FAILS(orErrorNotPermitted, orStreamDestroy(nullptr), "default stream");
  EXPECT_FAILS(orErrorInvalidValue, orStreamGetDefault(nullptr), "NULL");
  EXPECT_OK(orStreamQuery(first));
}

TEST(Stream, InvalidHandlesAreRefused) {
  orStream_t stream;
  ASSERT_OK(orStreamCreate(&stream));
  ASSERT_OK(orStreamDestroy(stream));
  orEvent_t event;
  ASSERT_OK(orEventCreate(&event));
  const orKernel kernel = {"nothing", [](void*, char*, size_t) { return orSuccess; }, nullptr};
  for (void* bad : {static_cast<void*>(stream), garbage(1), garbage(0xdeadbeefdeadbeef), garbage(UINTPTR_MAX),
                    static_cast<void*>(event)}) {
    auto* handle = static_cast<orStream_t>(bad);
    int number;
    uint64_t id;
    EXPECT_FAILS(orErrorInvalidHandle, orStreamDestroy(handle), "not a stream");
    EXPECT_FAILS(orErrorInvalidHandle, orStreamQuery(handle), "not a stream");
    EXPECT_FAILS(orErrorInvalidHandle, orStreamSynchronize(handle), "not a stream");
    EXPECT_FAILS(orErrorInvalidHandle, orStreamWaitEvent(handle, event), "not a stream");
    EXPECT_FAILS(orErrorInvalidHandle, orLaunchKernel(handle, &kernel, nullptr, 0), "not a stream");
    EXPECT_FAILS(orErrorInvalidHandle, orRunKernel(handle, &kernel, nullptr), "not a stream");
    EXPECT_FAILS(orErrorInvalidHandle, orLaunchHostFunc(handle, [](void*) {}, nullptr), "not a stream");
    EXPECT_FAILS(orErrorInvalidHandle, orStreamGetDevice(handle, &number), "not a stream");
    EXPECT_FAILS(orErrorInvalidHandle, orStreamGetPriority(handle, &number), "not a stream");
    EXPECT_FAILS(orErrorInvalidHandle, orStreamGetId(handle, &id), "not a stream");
    EXPECT_FAILS(orErrorInvalidHandle, orEventRecord(event, handle), "not a stream");
    EXPECT_FAILS(orErrorInvalidHandle, orMemcpyAsync(nullptr, nullptr, 0, orMemcpyDefault, handle),
                 "not a stream");
    EXPECT_FAILS(orErrorInvalidHandle, orMemsetAsync(nullptr, 0, 0, handle), "not a stream");
  }
  EXPECT_OK(orEventDestroy(event));
}

TEST(Stream, ReusedSlotsDoNotRevalidateOldHandles) {
  orStream_t old;
  ASSERT_OK(orStreamCreate(&old));
  ASSERT_OK(orStreamDestroy(old));
  for (int i = 0; i < 600; ++i) {
    Stream stream;
    ASSERT_NE(static_cast<orStream_t>(stream), old);
    ASSERT_EQ(orStreamQuery(old), orErrorInvalidHandle);
  }
}

TEST(Stream, InvalidArguments) {
  EXPECT_FAILS(orErrorInvalidValue, orStreamCreate(nullptr), "NULL");
  EXPECT_FAILS(orErrorInvalidValue, orStreamGetDevice(nullptr, nullptr), "NULL");
  EXPECT_FAILS(orErrorInvalidValue, orStreamGetPriority(nullptr, nullptr), "NULL");
  EXPECT_FAILS(orErrorInvalidValue, orStreamGetId(nullptr, nullptr), "NULL");
  EXPECT_FAILS(orErrorInvalidValue, orLaunchHostFunc(nullptr, nullptr, nullptr), "NULL");
  EXPECT_FAILS(orErrorInvalidValue, orLaunchKernel(nullptr, nullptr, nullptr, 0), "NULL");
  EXPECT_FAILS(orErrorInvalidValue, orRunKernel(nullptr, nullptr, nullptr), "NULL");
  const orKernel empty = {"hollow", nullptr, nullptr};
  EXPECT_FAILS(orErrorInvalidValue, orLaunchKernel(nullptr, &empty, nullptr, 0), "hollow");
  EXPECT_FAILS(orErrorInvalidValue, orRunKernel(nullptr, &empty, nullptr), "hollow");
  EXPECT_FAILS(orErrorInvalidValue, orLaunchKernel(nullptr, &body_kernel(), nullptr, 8), "args is NULL");
}

TEST(Stream, IdsAreUniqueAndPrioritiesClamped) {
  orDeviceProperties properties{};
  properties.struct_size = sizeof(properties);
  ASSERT_OK(orGetDeviceProperties(&properties, 0));
  std::set<uint64_t> ids;
  for (const auto& [requested, expected] : {std::pair(-100, properties.greatest_priority),
                                            std::pair(100, properties.least_priority), std::pair(-1, -1)}) {
    Stream stream(0, requested);
    int priority = 7;
    EXPECT_OK(orStreamGetPriority(stream, &priority));
    EXPECT_EQ(priority, expected);
    EXPECT_NE(stream.id(), 0u);
    EXPECT_TRUE(ids.insert(stream.id()).second);
  }
  uint64_t id = 5;
  EXPECT_OK(orStreamGetId(nullptr, &id));
  EXPECT_EQ(id, 0u);
}

TEST(Stream, DestroyDoesNotWaitAndQueuedWorkRuns) {
  std::atomic<int> done{0};
  Gate gate;
  Event event;
  {
    Stream stream;
    ASSERT_OK(launch(stream, [&] { gate.wait(); }));
    for (int i = 0; i < 100; ++i) ASSERT_OK(launch(stream, [&] { done.fetch_add(1); }));
    ASSERT_OK(orEventRecord(event, stream));
  }
  EXPECT_EQ(orEventQuery(event), orErrorNotReady);
  gate.open();
  ASSERT_OK(orEventSynchronize(event));
  EXPECT_EQ(done.load(), 100);
}

TEST(Stream, HostFunctionsRunInOrder) {
  Stream stream;
  std::vector<int> order;
  ASSERT_OK(launch(stream, [&] { order.push_back(1); }));
  ASSERT_OK(orLaunchHostFunc(
      stream, [](void* user) { static_cast<std::vector<int>*>(user)->push_back(2); }, &order));
  ASSERT_OK(launch(stream, [&] { order.push_back(3); }));
  ASSERT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST(Stream, ArgumentBlocksAreCopiedAndAligned) {
  const orKernel kernel = {"sizes", &Seen::run, nullptr};
  Stream stream;
  for (const size_t size : {0, 1, 191, 192, 193, 4096, 100000}) {
    Seen::expected.assign(size, 0);
    for (size_t i = 0; i < size; ++i) Seen::expected[i] = static_cast<unsigned char>(i * 13 + 1);
    Seen::aligned = Seen::same = false;
    auto block = Seen::expected;
    ASSERT_OK(orLaunchKernel(stream, &kernel, block.data(), size));
    std::fill(block.begin(), block.end(), 0);
    ASSERT_OK(orStreamSynchronize(stream));
    EXPECT_TRUE(Seen::aligned) << size;
    EXPECT_TRUE(Seen::same) << size;
  }
}

TEST(Stream, ManyStreamsShareFewThreads) {
  in_fresh_process([&] {
    const int before = thread_count();
    std::vector<Stream> streams;
    for (int i = 0; i < 128; ++i) streams.emplace_back(i % 2);
    std::atomic<int> done{0};
    for (int i = 0; i < 1280; ++i) EXPECT_OK(launch(streams[i % 128], [&] { done.fetch_add(1); }));
    for (const Stream& stream : streams) EXPECT_OK(orStreamSynchronize(stream));
    EXPECT_EQ(done.load(), 1280);
    EXPECT_LT(thread_count(), before + 20);
  });
}

TEST(Stream, NoThreadStartsBeforeTheFirstQueuedWork) {
  in_fresh_process([&] {
    const int before = thread_count();
    Stream stream;
    Event event;
    void* memory = allocate(1 << 20);
    EXPECT_OK(run(stream, [] {}));
    EXPECT_OK(orEventRecord(event, stream));
    EXPECT_OK(orStreamWaitEvent(nullptr, event));
    EXPECT_OK(orMemcpy(memory, &memory, sizeof(memory), orMemcpyDefault));
    EXPECT_OK(orFree(memory));
    EXPECT_OK(orDeviceSynchronize());
    EXPECT_EQ(thread_count(), before);
  });
}

// The host does not wait for the streams, which would run their kernels. See Note [Polling] in
// drivers/sim/executor.h.
TEST(Stream, WorkersThatPollPeriodicallyRunEveryStream) {
  Stream a, b;
  std::atomic<int> done{0};
  const auto wait_for = [&](int count) {
    for (int now; (now = done.load()) != count;) done.wait(now);
  };
  const auto finish = [&] {
    done.fetch_add(1);
    done.notify_all();
  };
  for (int i = 0; i < 2000; ++i) ASSERT_OK(launch(a, [&] { done.fetch_add(1); }));
  ASSERT_OK(launch(a, finish));
  wait_for(2001);
  for (int round = 0; round < 300; ++round) {
    const auto opened = std::make_shared<Gate>();
    done.store(0);
    ASSERT_OK(launch(a, finish));
    if (round % 3 == 0) wait_for(1);  // the worker is idle, or about to be
    ASSERT_OK(launch(a, [=] { opened->wait(); }));
    ASSERT_OK(launch(b, [=] { opened->open(); }));
    ASSERT_OK(launch(a, finish));
    ASSERT_OK(launch(b, finish));
    wait_for(3);
  }
}

TEST(Stream, HighPriorityStreamsRunFirst) {
  orDeviceProperties properties{};
  properties.struct_size = sizeof(properties);
  ASSERT_OK(orGetDeviceProperties(&properties, 0));
  // All workers are blocked. Both streams become ready, the low-priority one first; then one worker is
  // unblocked.
  std::vector<Stream> holders;
  Gate one, others;
  std::atomic<int> held{0};
  for (int i = 0; i < properties.multi_processor_count; ++i) {
    holders.emplace_back();
    ASSERT_OK(launch(holders.back(), [&, i] {
      held.fetch_add(1);
      held.notify_all();
      (i == 0 ? one : others).wait();
    }));
  }
  for (int now; (now = held.load()) != properties.multi_processor_count;) held.wait(now);
  Stream low(0, properties.least_priority), high(0, properties.greatest_priority);
  std::atomic<int> clock{0}, low_at{0}, high_at{0};
  Gate done;
  ASSERT_OK(launch(low, [&] { low_at.store(++clock); }));
  ASSERT_OK(launch(high, [&] { high_at.store(++clock); }));
  ASSERT_OK(launch(low, [&] { done.open(); }));
  one.open();
  done.wait();
  others.open();
  ASSERT_OK(orDeviceSynchronize());
  EXPECT_LT(high_at.load(), low_at.load());
}

TEST(Stream, DestroyWhileOtherThreadsUseTheStream) {
  for (int round = 0; round < 100; ++round) {
    orStream_t stream;
    ASSERT_OK(orStreamCreate(&stream));
    std::vector<std::thread> threads;
    std::atomic<int> destroyed{0};
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 20; ++i) {
          const orError_t error = launch(stream, [] {});
          if (error != orSuccess) EXPECT_EQ(error, orErrorInvalidHandle);
          if (i == 10 && t != 0 && orStreamDestroy(stream) == orSuccess) destroyed.fetch_add(1);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(destroyed.load(), 1);
  }
  EXPECT_OK(orDeviceSynchronize());
}
