// Tests of Note [Failed kernels] in openreg.h.
#include "support.h"

#include <thread>
#include <vector>

using namespace support;

namespace {

std::string expected_message(const Stream& stream, const char* why) {
  return "kernel 'body' failed on stream " + std::to_string(stream.id()) + " of device 0: " + why;
}

const auto kFails = [] { return std::string("sum is not finite"); };

}  // namespace

TEST(Failure, StreamSynchronizeReportsAndClears) {
  Stream stream;
  std::atomic<int> ran{0};
  ASSERT_OK(launch(stream, [&] { ran.fetch_add(1); }));
  ASSERT_OK(launch(stream, kFails));
  ASSERT_OK(launch(stream, [&] { ran.fetch_add(100); }));
  EXPECT_FAILS(orErrorKernelFailed, orStreamSynchronize(stream),
               expected_message(stream, "sum is not finite"));
  EXPECT_EQ(ran.load(), 1);
  EXPECT_OK(orStreamSynchronize(stream));
  ASSERT_OK(launch(stream, [&] { ran.fetch_add(1); }));
  EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(ran.load(), 2);
}

TEST(Failure, QueryReportsAndDoesNotClear) {
  Stream stream;
  Event before, event;
  ASSERT_OK(orEventRecord(before, stream));
  ASSERT_OK(launch(stream, kFails));
  ASSERT_OK(orEventRecord(event, stream));
  while (orStreamQuery(stream) == orErrorNotReady) {
  }
  EXPECT_OK(orEventQuery(before));
  EXPECT_FAILS(orErrorKernelFailed, orStreamQuery(stream), "sum is not finite");
  EXPECT_FAILS(orErrorKernelFailed, orEventQuery(event), "sum is not finite");
  uint64_t pending = 1;
  ASSERT_OK(orStreamGetPending(stream, &pending));
  EXPECT_EQ(pending, 0u);
  EXPECT_FAILS(orErrorKernelFailed, orStreamSynchronize(stream), "sum is not finite");
  EXPECT_OK(orStreamQuery(stream));
  EXPECT_OK(orEventQuery(event));
}

TEST(Failure, EventSynchronizeReportsAndClears) {
  Stream stream;
  Event before, behind;
  ASSERT_OK(orEventRecord(before, stream));
  ASSERT_OK(launch(stream, kFails));
  ASSERT_OK(orEventRecord(behind, stream));
  EXPECT_OK(orEventSynchronize(before));
  EXPECT_FAILS(orErrorKernelFailed, orEventSynchronize(behind), "sum is not finite");
  EXPECT_OK(orEventSynchronize(behind));
  EXPECT_OK(orStreamSynchronize(stream));
  std::atomic<bool> ran{false};
  EXPECT_OK(run(stream, [&] { ran.store(true); }));
  EXPECT_TRUE(ran.load());
}

TEST(Failure, EventRecordedAfterTheFailureReports) {
  Stream stream;
  Event event;
  ASSERT_OK(launch(stream, kFails));
  while (orStreamQuery(stream) == orErrorNotReady) {
  }
  ASSERT_OK(orEventRecord(event, stream));
  EXPECT_FAILS(orErrorKernelFailed, orEventSynchronize(event), "sum is not finite");
  EXPECT_OK(orStreamSynchronize(stream));
}

// Work that was queued before the error was reported is dropped, even if the stream had not reached it. Work
// that is queued afterwards runs.
TEST(Failure, WorkQueuedBeforeTheReportIsDropped) {
  Stream stream, other;
  Event behind, blocker;
  Gate gate;
  std::atomic<int> dropped{0}, ran{0};
  ASSERT_OK(launch(other, [&] { gate.wait(); }));
  ASSERT_OK(orEventRecord(blocker, other));
  ASSERT_OK(launch(stream, kFails));
  ASSERT_OK(orEventRecord(behind, stream));
  ASSERT_OK(orStreamWaitEvent(stream, blocker));
  ASSERT_OK(launch(stream, [&] { dropped.fetch_add(1); }));
  EXPECT_FAILS(orErrorKernelFailed, orEventSynchronize(behind), "sum is not finite");
  ASSERT_OK(launch(stream, [&] { ran.fetch_add(1); }));
  gate.open();
  EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(dropped.load(), 0);
  EXPECT_EQ(ran.load(), 1);
}

TEST(Failure, DeviceSynchronizeReportsEachFailureOnce) {
  Stream a, b;
  ASSERT_OK(launch(a, [] { return std::string("first"); }));
  ASSERT_OK(launch(b, [] { return std::string("second"); }));
  EXPECT_EQ(orDeviceSynchronize(), orErrorKernelFailed);
  const std::string one = orGetLastErrorMessage();
  EXPECT_EQ(orDeviceSynchronize(), orErrorKernelFailed);
  const std::string two = orGetLastErrorMessage();
  EXPECT_OK(orDeviceSynchronize());
  EXPECT_NE((one + two).find("first"), std::string::npos);
  EXPECT_NE((one + two).find("second"), std::string::npos);
  EXPECT_EQ(orGetLastError(), orErrorKernelFailed);
}

// The runtime may have deleted the stream by then. The test cannot observe that, so it repeats with growing
// delays.
TEST(Failure, DeviceSynchronizeReportsFailuresOfDestroyedStreams) {
  const orKernel last = {"last", [](void*, char*, size_t) { return orSuccess; },
                         [](void* args) { (*static_cast<std::atomic<bool>**>(args))->store(true); }};
  for (int round = 0; round < 50; ++round) {
    std::atomic<bool> reached{false};
    std::atomic<bool>* args = &reached;
    {
      Stream stream;
      ASSERT_OK(launch(stream, kFails));
      ASSERT_OK(orLaunchKernel(stream, &last, &args, sizeof(args)));
    }
    while (!reached.load()) std::this_thread::yield();
    for (int i = 0; i < round; ++i) std::this_thread::yield();
    EXPECT_FAILS(orErrorKernelFailed, orDeviceSynchronize(), "sum is not finite");
    EXPECT_OK(orDeviceSynchronize());
  }
}

TEST(Failure, OtherStreamsAreNotAffected) {
  Stream a, b;
  Event before;
  std::atomic<int> ran{0};
  ASSERT_OK(orEventRecord(before, a));
  ASSERT_OK(launch(a, kFails));
  ASSERT_OK(orStreamWaitEvent(b, before));
  ASSERT_OK(launch(b, [&] { ran.fetch_add(1); }));
  EXPECT_OK(orStreamSynchronize(b));
  EXPECT_EQ(ran.load(), 1);
  EXPECT_FAILS(orErrorKernelFailed, orStreamSynchronize(a), "sum is not finite");
}

TEST(Failure, FailedStreamHonorsEventWaits) {
  Stream a, b;
  Event event;
  Gate gate;
  std::atomic<bool> opened{false}, saw{false};
  ASSERT_OK(launch(a, [&] {
    gate.wait();
    opened.store(true);
  }));
  ASSERT_OK(orEventRecord(event, a));
  Event behind;
  ASSERT_OK(launch(b, kFails));
  ASSERT_OK(orEventRecord(behind, b));
  ASSERT_OK(orStreamWaitEvent(b, event));
  EXPECT_FAILS(orErrorKernelFailed, orEventSynchronize(behind), "sum is not finite");
  ASSERT_OK(launch(b, [&] { saw.store(opened.load()); }));
  gate.open();
  EXPECT_OK(orStreamSynchronize(b));
  EXPECT_TRUE(saw.load());
}

TEST(Failure, RunKernelReturnsItsFailureAndTheStreamStaysUsable) {
  Stream stream;
  EXPECT_FAILS(orErrorKernelFailed, run(stream, kFails), expected_message(stream, "sum is not finite"));
  EXPECT_OK(run(stream, [] {}));
  EXPECT_OK(orStreamSynchronize(stream));
}

TEST(Failure, RunKernelReturnsAnEarlierFailureInsteadOfRunning) {
  Stream stream;
  std::atomic<int> ran{0}, released{0};
  struct Args {
    std::atomic<int>* ran;
    std::atomic<int>* released;
  } args = {&ran, &released};
  const orKernel kernel = {"counted",
                           [](void* block, char*, size_t) {
                             static_cast<Args*>(block)->ran->fetch_add(1);
                             return orSuccess;
                           },
                           [](void* block) { static_cast<Args*>(block)->released->fetch_add(1); }};
  ASSERT_OK(launch(stream, kFails));
  EXPECT_FAILS(orErrorKernelFailed, orRunKernel(stream, &kernel, &args),
               expected_message(stream, "sum is not finite"));
  EXPECT_EQ(ran.load(), 0);
  EXPECT_EQ(released.load(), 0);  // the kernel was not accepted
  EXPECT_OK(orRunKernel(stream, &kernel, &args));
  EXPECT_EQ(ran.load(), 1);
  EXPECT_EQ(released.load(), 1);
}

TEST(Failure, ReleaseIsCalledOnceForEachAcceptedLaunch) {
  static std::atomic<int> ran, released;
  ran = released = 0;
  const orKernel kernel = {"counted",
                           [](void* block, char*, size_t) {
                             ran.fetch_add(1);
                             return *static_cast<int*>(block) == 3 ? orErrorInvalidValue : orSuccess;
                           },
                           [](void*) { released.fetch_add(1); }};
  for (const size_t size : {sizeof(int), size_t{500}}) {
    Stream stream;
    ran = released = 0;
    for (int i = 0; i < 10; ++i) {
      std::vector<int> block(size / sizeof(int), i);
      ASSERT_OK(orLaunchKernel(stream, &kernel, block.data(), size));
    }
    EXPECT_FAILS(orErrorKernelFailed, orStreamSynchronize(stream), "without a message");
    EXPECT_EQ(ran.load(), 4);
    EXPECT_EQ(released.load(), 10);
  }
}

TEST(Failure, ExceptionsLongMessagesAndMissingNamesAreReported) {
  Stream stream;
  const orKernel throws = {"thrower", [](void*, char*, size_t) -> orError_t { throw 1; }, nullptr};
  ASSERT_OK(orLaunchKernel(stream, &throws, nullptr, 0));
  EXPECT_FAILS(orErrorKernelFailed, orStreamSynchronize(stream), "exception");
  EXPECT_FAILS(orErrorKernelFailed, orRunKernel(stream, &throws, nullptr), "exception");
  ASSERT_OK(launch(stream, [] { return std::string(5000, 'x'); }));
  EXPECT_FAILS(orErrorKernelFailed, orStreamSynchronize(stream), "xxxx");
  const orKernel unnamed = {nullptr, [](void*, char*, size_t) { return orErrorSystem; }, nullptr};
  ASSERT_OK(orLaunchKernel(stream, &unnamed, nullptr, 0));
  EXPECT_FAILS(orErrorKernelFailed, orStreamSynchronize(stream), "kernel ''");
}

TEST(Failure, SynchronizingMemcpyReports) {
  void* memory = allocate(64);
  char host[64] = {};
  Stream stream;
  ASSERT_OK(launch(stream, kFails));
  EXPECT_FAILS(orErrorKernelFailed, orMemcpyAsync(host, memory, 64, orMemcpyDeviceToHost, stream),
               "sum is not finite");
  EXPECT_OK(orMemcpyAsync(host, memory, 64, orMemcpyDeviceToHost, stream));
  EXPECT_OK(orFree(memory));
}
