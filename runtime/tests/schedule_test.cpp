#include "support.h"

#include <chrono>
#include <thread>
#include <vector>

using namespace support;

TEST(Schedule, SetAndGet) {
  Schedule schedule(orScheduleAdversarial, 5);
  orSchedule now = orScheduleAsync;
  uint64_t seed = 0;
  EXPECT_OK(orGetSchedule(&now, &seed));
  EXPECT_EQ(now, orScheduleAdversarial);
  EXPECT_EQ(seed, 5u);
  EXPECT_FAILS(orErrorInvalidValue, orSetSchedule(static_cast<orSchedule>(3), 0), "3");
}

TEST(Schedule, BlockingRunsBeforeTheLaunchReturns) {
  Schedule schedule(orScheduleBlocking);
  Stream stream, other;
  Event event;
  int value = 0;
  for (int i = 1; i <= 100; ++i) {
    ASSERT_OK(launch(stream, [&] { ++value; }));
    ASSERT_EQ(value, i);
    ASSERT_OK(orStreamQuery(stream));
    ASSERT_OK(orEventRecord(event, stream));
    ASSERT_OK(orEventQuery(event));
    ASSERT_OK(orStreamWaitEvent(other, event));
  }
  void* memory = allocate(512);
  ASSERT_OK(orMemsetAsync(memory, 7, 512, stream));
  EXPECT_OK(orStreamQuery(stream));
  EXPECT_OK(orFree(memory));
}

TEST(Schedule, BlockingWaitsForEventsOfEarlierWork) {
  Stream a, b;
  Event event;
  Gate gate;
  std::atomic<bool> first{false};
  ASSERT_OK(launch(a, [&] {
    gate.wait();
    first.store(true);
  }));
  ASSERT_OK(orEventRecord(event, a));
  ASSERT_OK(orStreamWaitEvent(b, event));
  Schedule schedule(orScheduleBlocking);
  std::thread opener([&] { gate.open(); });
  bool saw = false;
  ASSERT_OK(launch(b, [&] { saw = first.load(); }));
  EXPECT_TRUE(saw);
  opener.join();
  EXPECT_OK(orStreamSynchronize(a));
}

TEST(Schedule, BlockingLaunchInsideAKernelIsQueued) {
  Schedule schedule(orScheduleBlocking);
  Stream stream;
  std::vector<int> order;
  ASSERT_OK(launch(stream, [&] {
    EXPECT_OK(launch(stream, [&] { order.push_back(2); }));
    order.push_back(1);
  }));
  ASSERT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(Schedule, BlockingReportsFailuresAtSynchronization) {
  Schedule schedule(orScheduleBlocking);
  Stream stream;
  EXPECT_OK(launch(stream, [] { return std::string("bad"); }));
  EXPECT_FAILS(orErrorKernelFailed, orStreamSynchronize(stream), "bad");
}

namespace {

// A kernel writes, and a kernel on another stream reads. Returns whether the read came before the write.
bool reads_too_early(bool synchronized) {
  Stream writer, reader;
  Event event;
  std::atomic<int> value{0}, seen{0};
  EXPECT_OK(launch(writer, [&] { value.store(1); }));
  if (synchronized) {
    EXPECT_OK(orEventRecord(event, writer));
    EXPECT_OK(orStreamWaitEvent(reader, event));
  }
  EXPECT_OK(launch(reader, [&] { seen.store(value.load()); }));
  // A query, unlike a synchronization, does not run queued work, so the schedule alone decides the order.
  for (const Stream* stream : {&reader, &writer}) {
    while (orStreamQuery(*stream) == orErrorNotReady) std::this_thread::yield();
  }
  return seen.load() == 0;
}

}  // namespace

TEST(Schedule, AdversarialExposesMissingSynchronization) {
  constexpr int kSeeds = 100;
  int early = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Schedule schedule(orScheduleAdversarial, seed);
    early += reads_too_early(false);
    ASSERT_FALSE(reads_too_early(true)) << "seed " << seed;
  }
  EXPECT_GT(early, kSeeds / 5);
}

TEST(Schedule, AdversarialKeepsStreamOrder) {
  Schedule schedule(orScheduleAdversarial, 11);
  std::vector<Stream> streams(6);
  std::vector<std::vector<int>> orders(6);
  for (int i = 0; i < 200; ++i) {
    for (int s = 0; s < 6; ++s) ASSERT_OK(launch(streams[s], [&orders, s, i] { orders[s].push_back(i); }));
  }
  for (const Stream& stream : streams) ASSERT_OK(orStreamSynchronize(stream));
  for (const auto& order : orders) {
    ASSERT_EQ(order.size(), 200u);
    for (int i = 0; i < 200; ++i) ASSERT_EQ(order[i], i);
  }
}

TEST(Schedule, AdversarialMakesProgressWithoutSynchronization) {
  Schedule schedule(orScheduleAdversarial, 3);
  std::vector<Stream> streams(8);
  std::vector<Event> events(8);
  Gate done;
  for (int round = 0; round < 20; ++round) {
    for (int s = 0; s < 8; ++s) {
      ASSERT_OK(orStreamWaitEvent(streams[s], events[(s + 7) % 8]));
      ASSERT_OK(launch(streams[s], [] {}));
      ASSERT_OK(orEventRecord(events[s], streams[s]));
    }
  }
  ASSERT_OK(launch(streams[7], [&] { done.open(); }));
  done.wait();
}
