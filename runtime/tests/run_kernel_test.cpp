// orRunKernel, synchronization of streams that never become idle, and runtime calls from inside a kernel.
#include "support.h"

#include <thread>
#include <vector>

using namespace support;

namespace {

/// Keeps a stream busy: each kernel launches the next before it returns, so the stream is never idle.
class Chain {
 public:
  explicit Chain(orStream_t stream) : stream_(stream) { next(); }
  ~Chain() {
    stop_.store(true);
    while (running_.load()) EXPECT_OK(orStreamSynchronize(stream_));
  }
  long length() const { return length_.load(); }

 private:
  void next() {
    EXPECT_OK(launch(stream_, [this] {
      length_.fetch_add(1);
      stop_.load() ? running_.store(false) : next();
    }));
  }
  const orStream_t stream_;
  std::atomic<bool> stop_{false}, running_{true};
  std::atomic<long> length_{0};
};

}  // namespace

TEST(RunKernel, KeepsStreamOrderWithLaunches) {
  Stream stream;
  std::vector<int> order;
  for (int i = 0; i < 500; ++i) {
    ASSERT_OK(launch(stream, [&, i] { order.push_back(2 * i); }));
    ASSERT_OK(run(stream, [&, i] { order.push_back(2 * i + 1); }));
  }
  ASSERT_EQ(order.size(), 1000u);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(order[i], i);
}

TEST(RunKernel, RunsOnTheCallersThreadWithTheCallersArguments) {
  Stream stream;
  ASSERT_OK(orStreamSynchronize(stream));
  std::thread::id where;
  EXPECT_OK(run(stream, [&] { where = std::this_thread::get_id(); }));
  EXPECT_EQ(where, std::this_thread::get_id());
  int block = 1;
  const orKernel kernel = {"increment",
                           [](void* args, char*, size_t) {
                             ++*static_cast<int*>(args);
                             return orSuccess;
                           },
                           nullptr};
  EXPECT_OK(orRunKernel(stream, &kernel, &block));
  EXPECT_EQ(block, 2);
}

TEST(RunKernel, CallsFromManyThreadsAreSerialized) {
  Stream stream;
  int counter = 0;  // not atomic: a stream runs one kernel at a time
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        EXPECT_OK(run(stream, [&] { ++counter; }));
        EXPECT_OK(launch(stream, [&] { ++counter; }));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(counter, 4000);
}

TEST(RunKernel, StreamIsBusyForOtherThreads) {
  Stream stream;
  Gate started, gate;
  std::thread runner([&] {
    EXPECT_OK(run(stream, [&] {
      started.open();
      gate.wait();
    }));
  });
  started.wait();
  EXPECT_EQ(orStreamQuery(stream), orErrorNotReady);
  std::atomic<bool> synchronized{false};
  std::thread waiter([&] {
    EXPECT_OK(orStreamSynchronize(stream));
    synchronized.store(true);
  });
  EXPECT_FALSE(synchronized.load());
  gate.open();
  waiter.join();
  runner.join();
  EXPECT_OK(orStreamQuery(stream));
}

TEST(RunKernel, KernelsMayCallTheRuntime) {
  Stream stream, other;
  std::vector<int> order;
  for (const bool queued : {false, true}) {
    order.clear();
    const auto outer = [&] {
      order.push_back(1);
      EXPECT_OK(run(stream, [&] {
        order.push_back(2);
        EXPECT_OK(run(stream, [&] { order.push_back(3); }));
      }));
      EXPECT_OK(launch(stream, [&] { order.push_back(5); }));
      EXPECT_EQ(orStreamQuery(stream), orErrorNotReady);
      EXPECT_FAILS(orErrorNotPermitted, orStreamSynchronize(stream), "a kernel cannot wait");
      EXPECT_FAILS(orErrorNotPermitted, orDeviceSynchronize(), "a kernel cannot wait");
      EXPECT_OK(run(other, [] {}));
      EXPECT_OK(orStreamSynchronize(other));
      order.push_back(4);
    };
    ASSERT_OK(queued ? launch(stream, outer) : run(stream, outer));
    ASSERT_OK(orStreamSynchronize(stream));
    ASSERT_OK(orStreamSynchronize(stream));  // also for the work that the kernel launched
    EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 4, 5}));
  }
}

// A synchronization waits only for work that was submitted before it, so it ends although the stream never
// becomes idle.
class BusyStream : public ::testing::TestWithParam<orSchedule> {};
INSTANTIATE_TEST_SUITE_P(InEverySchedule, BusyStream,
                         ::testing::Values(orScheduleAsync, orScheduleBlocking, orScheduleAdversarial));

TEST_P(BusyStream, RunKernelUsesTheCallersThread) {
  const Schedule schedule(GetParam());
  Stream stream;
  Chain chain(stream);
  for (int i = 0; i < 20; ++i) {
    std::thread::id where;
    const long before = chain.length();
    ASSERT_OK(run(stream, [&] { where = std::this_thread::get_id(); }));
    EXPECT_EQ(where, std::this_thread::get_id());
    EXPECT_LE(before, chain.length());
    EXPECT_EQ(orStreamQuery(stream), orErrorNotReady);
  }
}

TEST_P(BusyStream, EverySynchronizationReturns) {
  const Schedule schedule(GetParam());
  Stream stream;
  Event event;
  void* memory = allocate(1 << 20);
  std::vector<char> host(1 << 20, 7);
  {
    Chain chain(stream);
    EXPECT_OK(orMemcpyAsync(memory, host.data(), host.size(), orMemcpyDefault, stream));
    EXPECT_OK(orMemcpyAsync(host.data(), memory, host.size(), orMemcpyDefault, stream));
    EXPECT_OK(orStreamSynchronize(stream));
    EXPECT_OK(orEventRecord(event, stream));
    EXPECT_OK(orEventSynchronize(event));
    EXPECT_OK(orDeviceSynchronize());
    EXPECT_OK(orFree(memory));
    EXPECT_EQ(orStreamQuery(stream), orErrorNotReady);
  }
  EXPECT_EQ(host.back(), 7);
}

TEST_P(BusyStream, RunKernelOfManyThreadsIsSerializedInStreamOrder) {
  const Schedule schedule(GetParam());
  Stream stream, other;
  Chain chain(stream);
  int counter = 0;  // not atomic: a stream runs one kernel at a time
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      Event event;
      for (int i = 0; i < 100; ++i) {
        int seen = -1;
        EXPECT_OK(launch(other, [&] { seen = i; }));
        EXPECT_OK(orEventRecord(event, other));
        EXPECT_OK(orStreamWaitEvent(stream, event));
        EXPECT_OK(run(stream, [&] {
          EXPECT_EQ(seen, i);
          ++counter;
        }));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_OK(run(stream, [&] { EXPECT_EQ(counter, 400); }));
}

TEST_P(BusyStream, RefusedRunKernelHasNoEffect) {
  const Schedule schedule(GetParam());
  for (int round = 0; round < 50; ++round) {
    Stream stream, other;
    Event event;
    Gate started, blocked, gate;
    std::atomic<int> ran{0};
    // `other` waits for the kernel that calls orRunKernel on `other`.
    std::thread launcher([&] {
      EXPECT_OK(launch(stream, [&] {
        started.open();
        blocked.wait();
        EXPECT_FAILS(orErrorNotPermitted, run(other, [&] { ran.fetch_add(1); }), "a kernel cannot wait");
      }));
    });
    started.wait();
    std::thread holder([&] { EXPECT_OK(launch(other, [&] { gate.wait(); })); });
    if (GetParam() != orScheduleBlocking) {
      launcher.join();
      holder.join();
    }
    ASSERT_OK(orEventRecord(event, stream));
    ASSERT_OK(orStreamWaitEvent(other, event));
    blocked.open();
    if (round % 2) std::this_thread::yield();
    gate.open();
    EXPECT_OK(orStreamSynchronize(stream));
    EXPECT_OK(run(other, [&] { ran.fetch_add(10); }));
    EXPECT_OK(orStreamSynchronize(other));
    EXPECT_EQ(ran.load(), 10);
    if (GetParam() == orScheduleBlocking) {
      launcher.join();
      holder.join();
    }
  }
}
