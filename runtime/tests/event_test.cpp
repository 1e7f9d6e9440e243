#include "support.h"

#include <thread>
#include <vector>

using namespace support;

TEST(Event, UnrecordedEventIsComplete) {
  Event event;
  EXPECT_OK(orEventQuery(event));
  EXPECT_OK(orEventSynchronize(event));
}

TEST(Event, WaitOnAnUnrecordedEventIsANoOp) {
  Stream a, b;
  Event event;
  Gate gate;
  ASSERT_OK(orStreamWaitEvent(b, event));
  ASSERT_OK(launch(a, [&] { gate.wait(); }));
  ASSERT_OK(orEventRecord(event, a));
  EXPECT_OK(run(b, [] {}));
  gate.open();
  EXPECT_OK(orEventSynchronize(event));
}

TEST(Event, QueryReportsTheLatestRecord) {
  Stream stream;
  Event event;
  Gate gate;
  ASSERT_OK(launch(stream, [&] { gate.wait(); }));
  ASSERT_OK(orEventRecord(event, stream));
  EXPECT_EQ(orEventQuery(event), orErrorNotReady);
  gate.open();
  EXPECT_OK(orEventSynchronize(event));
  EXPECT_OK(orEventQuery(event));
}

TEST(Event, SynchronizeIgnoresWorkAfterTheRecord) {
  Stream stream;
  Event event;
  Gate gate;
  std::atomic<bool> before{false};
  ASSERT_OK(launch(stream, [&] { before.store(true); }));
  ASSERT_OK(orEventRecord(event, stream));
  ASSERT_OK(launch(stream, [&] { gate.wait(); }));
  EXPECT_OK(orEventSynchronize(event));
  EXPECT_TRUE(before.load());
  EXPECT_OK(orEventQuery(event));
  EXPECT_EQ(orStreamQuery(stream), orErrorNotReady);
  gate.open();
  EXPECT_OK(orStreamSynchronize(stream));
}

TEST(Event, OrdersStreamsOfDifferentDevices) {
  Stream a(0), b(1);
  Event event(0), back(1);
  int value = 0;  // not atomic: the events order all accesses
  for (int i = 0; i < 200; ++i) {
    ASSERT_OK(launch(a, [&] { ++value; }));
    ASSERT_OK(orEventRecord(event, a));
    ASSERT_OK(orStreamWaitEvent(b, event));
    ASSERT_OK(launch(b, [&] { value *= 1; }));
    ASSERT_OK(orEventRecord(back, b));
    ASSERT_OK(orStreamWaitEvent(a, back));
  }
  ASSERT_OK(orStreamSynchronize(a));
  ASSERT_OK(orStreamSynchronize(b));
  EXPECT_EQ(value, 200);
}

// A wait refers to the latest record at the time of the call, as on CUDA.
TEST(Event, LaterRecordsDoNotAffectEarlierWaits) {
  Stream a, b, c;
  Event event;
  Gate first, second;
  std::atomic<bool> first_done{false};
  ASSERT_OK(launch(a, [&] {
    first.wait();
    first_done.store(true);
  }));
  ASSERT_OK(orEventRecord(event, a));
  ASSERT_OK(orStreamWaitEvent(b, event));
  std::atomic<bool> saw{false};
  ASSERT_OK(launch(b, [&] { saw.store(first_done.load()); }));
  ASSERT_OK(launch(a, [&] { second.wait(); }));
  ASSERT_OK(orEventRecord(event, a));
  EXPECT_EQ(orEventQuery(event), orErrorNotReady);
  EXPECT_EQ(orStreamQuery(b), orErrorNotReady);
  first.open();
  EXPECT_OK(orStreamSynchronize(b));
  EXPECT_TRUE(saw.load());
  EXPECT_EQ(orEventQuery(event), orErrorNotReady);
  ASSERT_OK(orStreamWaitEvent(c, event));
  ASSERT_OK(launch(c, [] {}));
  EXPECT_EQ(orStreamQuery(c), orErrorNotReady);
  second.open();
  EXPECT_OK(orStreamSynchronize(c));
  EXPECT_OK(orEventQuery(event));
}

TEST(Event, ManyStreamsWaitForOneRecord) {
  Stream source;
  Event event;
  Gate gate;
  std::vector<Stream> waiters(40);
  std::atomic<int> done{0};
  int value = 0;
  ASSERT_OK(launch(source, [&] {
    gate.wait();
    value = 5;
  }));
  ASSERT_OK(orEventRecord(event, source));
  for (const Stream& waiter : waiters) {
    ASSERT_OK(orStreamWaitEvent(waiter, event));
    ASSERT_OK(launch(waiter, [&] {
      if (value == 5) done.fetch_add(1);
    }));
  }
  gate.open();
  for (const Stream& waiter : waiters) ASSERT_OK(orStreamSynchronize(waiter));
  EXPECT_EQ(done.load(), 40);
}

TEST(Event, StreamSynchronizeCompletesAChainOfEventWaits) {
  std::vector<Stream> chain(20);
  std::vector<Event> events(20);
  std::vector<int> order;
  for (int i = 0; i < 20; ++i) {
    if (i) ASSERT_OK(orStreamWaitEvent(chain[i], events[i - 1]));
    ASSERT_OK(launch(chain[i], [&, i] { order.push_back(i); }));
    ASSERT_OK(orEventRecord(events[i], chain[i]));
  }
  ASSERT_OK(orStreamSynchronize(chain.back()));
  ASSERT_EQ(order.size(), 20u);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(order[i], i);
}

TEST(Event, DestroyWithWorkPending) {
  Stream a, b;
  Gate gate;
  std::atomic<bool> ran{false};
  {
    Event event;
    ASSERT_OK(launch(a, [&] { gate.wait(); }));
    ASSERT_OK(orEventRecord(event, a));
    ASSERT_OK(orStreamWaitEvent(b, event));
    ASSERT_OK(launch(b, [&] { ran.store(true); }));
  }
  EXPECT_FALSE(ran.load());
  gate.open();
  EXPECT_OK(orStreamSynchronize(b));
  EXPECT_TRUE(ran.load());
}

TEST(Event, ElapsedTime) {
  Stream stream;
  Event start, end;
  float milliseconds = -1;
  ASSERT_OK(orEventRecord(start, stream));
  ASSERT_OK(launch(stream, [] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }));
  ASSERT_OK(orEventRecord(end, stream));
  ASSERT_OK(orStreamSynchronize(stream));
  ASSERT_OK(orEventElapsedTime(&milliseconds, start, end));
  EXPECT_GE(milliseconds, 2.0f);
  float reverse = 1;
  ASSERT_OK(orEventElapsedTime(&reverse, end, start));
  EXPECT_EQ(reverse, -milliseconds);
}

TEST(Event, ElapsedTimeRequiresTimingAndCompleteRecords) {
  Stream stream;
  Event timed, recorded, untimed(0, orEventDisableTiming);
  float milliseconds = 0;
  ASSERT_OK(orEventRecord(recorded, stream));
  ASSERT_OK(orEventRecord(untimed, stream));
  ASSERT_OK(orStreamSynchronize(stream));
  EXPECT_FAILS(orErrorInvalidValue, orEventElapsedTime(&milliseconds, untimed, recorded),
               "start event was created without");
  EXPECT_FAILS(orErrorInvalidValue, orEventElapsedTime(&milliseconds, recorded, untimed),
               "end event was created without");
  EXPECT_FAILS(orErrorInvalidValue, orEventElapsedTime(&milliseconds, recorded, timed), "never recorded");
  EXPECT_FAILS(orErrorInvalidValue, orEventElapsedTime(nullptr, recorded, recorded), "NULL");
  Gate gate;
  ASSERT_OK(launch(stream, [&] { gate.wait(); }));
  ASSERT_OK(orEventRecord(timed, stream));
  EXPECT_EQ(orEventElapsedTime(&milliseconds, recorded, timed), orErrorNotReady);
  gate.open();
  ASSERT_OK(orStreamSynchronize(stream));
  EXPECT_OK(orEventElapsedTime(&milliseconds, recorded, timed));
}

TEST(Event, InvalidArguments) {
  orEvent_t event;
  EXPECT_FAILS(orErrorInvalidValue, orEventCreate(nullptr), "NULL");
  EXPECT_FAILS(orErrorInvalidValue, orEventCreateWithFlags(&event, 8), "0x8");
  ASSERT_OK(orEventCreate(&event));
  ASSERT_OK(orEventDestroy(event));
  Stream stream;
  for (void* bad : {static_cast<void*>(event), static_cast<void*>(nullptr), garbage(1),
                    garbage(0xdeadbeefdeadbeef), static_cast<void*>(static_cast<orStream_t>(stream))}) {
    auto* handle = static_cast<orEvent_t>(bad);
    float milliseconds;
    EXPECT_FAILS(orErrorInvalidHandle, orEventDestroy(handle), "not an event");
    EXPECT_FAILS(orErrorInvalidHandle, orEventQuery(handle), "not an event");
    EXPECT_FAILS(orErrorInvalidHandle, orEventSynchronize(handle), "not an event");
    EXPECT_FAILS(orErrorInvalidHandle, orEventRecord(handle, stream), "not an event");
    EXPECT_FAILS(orErrorInvalidHandle, orStreamWaitEvent(stream, handle), "not an event");
    EXPECT_FAILS(orErrorInvalidHandle, orEventElapsedTime(&milliseconds, handle, handle), "not an event");
  }
  Event on_one(1);
  EXPECT_FAILS(orErrorInvalidValue, orEventRecord(on_one, stream),
               "event belongs to device 1 and the stream to device 0");
  EXPECT_FAILS(orErrorInvalidValue, orEventRecord(on_one, nullptr), "device 1");
}

TEST(Event, ConcurrentRecordsAndWaits) {
  Stream streams[4];
  Event event;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        EXPECT_OK(launch(streams[t], [] {}));
        EXPECT_OK(orEventRecord(event, streams[t]));
        EXPECT_OK(orStreamWaitEvent(streams[(t + i) % 4], event));
        if (i % 16 == 0) EXPECT_OK(orEventSynchronize(event));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Stream& stream : streams) EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_OK(orEventQuery(event));
}
