// Tests of Note [Deferred kernels] in openreg.h, and of failures that follow events.
#include "support.h"

#include <chrono>
#include <thread>
#include <vector>

using namespace support;

namespace {

// Launches a kernel that is deferred, and stores its handle.
orError_t launch_deferred(orStream_t stream, std::atomic<orDeferred_t>& handle) {
  return launch(stream, [&handle] {
    orDeferred_t deferred = nullptr;
    EXPECT_OK(orKernelDefer(&deferred));
    handle.store(deferred);
    handle.notify_all();
  });
}

orDeferred_t wait_for(std::atomic<orDeferred_t>& handle) {
  handle.wait(nullptr);
  return handle.load();
}

}  // namespace

TEST(Deferred, StreamContinuesAfterTheFinish) {
  Stream stream;
  std::atomic<orDeferred_t> handle{nullptr};
  std::atomic<bool> ran{false};
  ASSERT_OK(launch_deferred(stream, handle));
  ASSERT_OK(launch(stream, [&] { ran = true; }));
  const orDeferred_t deferred = wait_for(handle);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(ran);
  EXPECT_EQ(orStreamQuery(stream), orErrorNotReady);
  EXPECT_OK(orKernelFinish(deferred, orSuccess, nullptr));
  EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_TRUE(ran);
}

TEST(Deferred, ManyDeferredKernelsOccupyNoThread) {
  std::vector<Stream> streams(64);
  std::vector<std::atomic<orDeferred_t>> handles(streams.size());
  for (size_t i = 0; i < streams.size(); ++i) ASSERT_OK(launch_deferred(streams[i], handles[i]));
  Stream other;
  std::atomic<bool> ran{false};
  ASSERT_OK(launch(other, [&] { ran = true; }));
  EXPECT_OK(orStreamSynchronize(other));
  EXPECT_TRUE(ran);
  for (auto& handle : handles) EXPECT_OK(orKernelFinish(wait_for(handle), orSuccess, nullptr));
  for (Stream& stream : streams) EXPECT_OK(orStreamSynchronize(stream));
}

TEST(Deferred, AnotherThreadFinishesAtAnyTime) {
  for (int i = 0; i < 500; ++i) {
    Stream stream;
    std::atomic<orDeferred_t> handle{nullptr};
    std::atomic<int> ran{0};
    std::thread other([&] { EXPECT_OK(orKernelFinish(wait_for(handle), orSuccess, nullptr)); });
    ASSERT_OK(launch_deferred(stream, handle));
    ASSERT_OK(launch(stream, [&] { ++ran; }));
    EXPECT_OK(orStreamSynchronize(stream));
    EXPECT_EQ(ran, 1);
    other.join();
  }
}

TEST(Deferred, ItsFailureIsReported) {
  Stream stream;
  std::atomic<orDeferred_t> handle{nullptr};
  std::atomic<bool> ran{false};
  ASSERT_OK(launch_deferred(stream, handle));
  ASSERT_OK(launch(stream, [&] { ran = true; }));
  EXPECT_OK(orKernelFinish(wait_for(handle), orErrorKernelFailed, "the peer has closed the connection"));
  EXPECT_FAILS(orErrorKernelFailed, orStreamSynchronize(stream), "the peer has closed the connection");
  EXPECT_FALSE(ran);
  EXPECT_OK(orStreamSynchronize(stream));
}

TEST(Deferred, HandlesAreChecked) {
  Stream stream;
  std::atomic<orDeferred_t> handle{nullptr};
  ASSERT_OK(launch_deferred(stream, handle));
  const orDeferred_t deferred = wait_for(handle);
  EXPECT_OK(orKernelFinish(deferred, orSuccess, nullptr));
  EXPECT_FAILS(orErrorInvalidHandle, orKernelFinish(deferred, orSuccess, nullptr), "finished before");
  EXPECT_FAILS(orErrorInvalidHandle, orKernelFinish(nullptr, orSuccess, nullptr), "not a deferred kernel");
  EXPECT_FAILS(orErrorInvalidValue, orKernelDefer(nullptr), "deferred is NULL");
  orDeferred_t outside = nullptr;
  EXPECT_FAILS(orErrorNotPermitted, orKernelDefer(&outside), "not inside a kernel");
  EXPECT_OK(orStreamSynchronize(stream));
}

TEST(Deferred, OnlyOnceAndOnlyForLaunchedKernels) {
  Stream stream;
  orDeferred_t deferred = nullptr;
  EXPECT_OK(run(stream, [&] {
    EXPECT_FAILS(orErrorNotPermitted, orKernelDefer(&deferred), "runs synchronously or in a graph");
  }));
  ASSERT_OK(launch(stream, [] {
    orDeferred_t first = nullptr, second = nullptr;
    EXPECT_OK(orKernelDefer(&first));
    EXPECT_FAILS(orErrorNotPermitted, orKernelDefer(&second), "already deferred");
    EXPECT_OK(orKernelFinish(first, orSuccess, nullptr));
  }));
  EXPECT_OK(orStreamSynchronize(stream));

  orGraph_t graph = nullptr;
  ASSERT_OK(orStreamBeginCapture(stream, orCaptureRelaxed));
  ASSERT_OK(launch(stream, [] {
    orDeferred_t captured = nullptr;
    EXPECT_FAILS(orErrorNotPermitted, orKernelDefer(&captured), "in a graph");
  }));
  ASSERT_OK(orStreamEndCapture(stream, &graph));
  EXPECT_OK(orGraphLaunch(graph, stream));
  EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_OK(orGraphDestroy(graph));
}

TEST(Deferred, ASynchronousKernelWaitsForItsTurn) {
  Stream stream;
  std::atomic<orDeferred_t> handle{nullptr};
  ASSERT_OK(launch_deferred(stream, handle));
  std::atomic<bool> ran{false};
  std::thread caller([&] { EXPECT_OK(run(stream, [&] { ran = true; })); });
  const orDeferred_t deferred = wait_for(handle);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(ran);
  EXPECT_OK(orKernelFinish(deferred, orSuccess, nullptr));
  caller.join();
  EXPECT_TRUE(ran);
}

TEST(Deferred, BlockingLaunchesDoNotWaitForDeferredKernels) {
  Schedule schedule(orScheduleBlocking);
  Stream stream, waiting;
  Event event;
  std::atomic<orDeferred_t> first{nullptr}, second{nullptr};
  std::atomic<bool> ran{false};
  ASSERT_OK(launch_deferred(stream, first));
  ASSERT_NE(first.load(), nullptr);
  ASSERT_OK(launch_deferred(stream, second));  // queued behind the first
  EXPECT_EQ(second.load(), nullptr);
  ASSERT_OK(orEventRecord(event, stream));
  ASSERT_OK(orStreamWaitEvent(waiting, event));
  std::thread other([&] {
    EXPECT_OK(orKernelFinish(first.load(), orSuccess, nullptr));
    EXPECT_OK(orKernelFinish(wait_for(second), orSuccess, nullptr));
  });
  ASSERT_OK(launch(waiting, [&] { ran = true; }));  // returns when the kernel has run
  EXPECT_TRUE(ran);
  other.join();
}

TEST(Deferred, ObserversSeeTheEndOfTheWork) {
  Stream stream;
  static std::atomic<int64_t> duration_ns{0};
  ASSERT_OK(orTraceSubscribe(
      [](const orTraceRecord* record, void*) {
        if (record->phase == orTraceFinished && record->kind == orTraceKernel) {
          duration_ns = record->end_ns - record->start_ns;
        }
      },
      nullptr));
  std::atomic<orDeferred_t> handle{nullptr};
  ASSERT_OK(launch_deferred(stream, handle));
  const orDeferred_t deferred = wait_for(handle);
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  EXPECT_OK(orKernelFinish(deferred, orSuccess, nullptr));
  EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_OK(orTraceUnsubscribe());
  EXPECT_GE(duration_ns, 3'000'000);
}

TEST(Failure, FollowsEventsToOtherStreams) {
  Stream first, second, third;
  Event failed, passed_on;
  Gate gate;
  std::atomic<bool> ran{false};
  ASSERT_OK(launch(first, [&] { gate.wait(); }));
  ASSERT_OK(launch(first, [] { return std::string("no"); }));
  ASSERT_OK(orEventRecord(failed, first));
  ASSERT_OK(orStreamWaitEvent(second, failed));
  ASSERT_OK(launch(second, [&] { ran = true; }));
  ASSERT_OK(orEventRecord(passed_on, second));
  ASSERT_OK(orStreamWaitEvent(third, passed_on));
  ASSERT_OK(launch(third, [&] { ran = true; }));
  gate.open();
  EXPECT_FAILS(orErrorKernelFailed, orStreamSynchronize(third), "no");
  EXPECT_FALSE(ran);
}

// Three streams, of which the second waits for the first and the third for the second.
struct FailedChain {
  Stream first, second, third;

  FailedChain() {
    Event failed, passed_on;
    EXPECT_OK(launch(first, [] { return std::string("no"); }));
    EXPECT_OK(orEventRecord(failed, first));
    EXPECT_OK(orStreamWaitEvent(second, failed));
    EXPECT_OK(orEventRecord(passed_on, second));
    EXPECT_OK(orStreamWaitEvent(third, passed_on));
    for (orStream_t stream : {orStream_t(first), orStream_t(second), orStream_t(third)}) {
      while (orStreamQuery(stream) == orErrorNotReady) {
      }
    }
  }
};

TEST(Failure, OneReportClearsAllStreams) {
  FailedChain streams;
  EXPECT_FAILS(orErrorKernelFailed, orStreamSynchronize(streams.second), "no");
  std::atomic<int> ran{0};
  for (orStream_t stream :
       {orStream_t(streams.first), orStream_t(streams.second), orStream_t(streams.third)}) {
    ASSERT_OK(launch(stream, [&] { ++ran; }));
    EXPECT_OK(orStreamSynchronize(stream));
  }
  EXPECT_OK(orDeviceSynchronize());
  EXPECT_EQ(ran, 3);
}

TEST(Failure, AnotherThreadGetsTheFailureOfItsStream) {
  FailedChain streams;
  std::thread([&] { EXPECT_FAILS(orErrorKernelFailed, orStreamSynchronize(streams.first), "no"); }).join();
  std::atomic<bool> ran{false};
  ASSERT_OK(launch(streams.second, [&] { ran = true; }));
  EXPECT_FAILS(orErrorKernelFailed, orStreamSynchronize(streams.second), "no");
  EXPECT_TRUE(ran);
  EXPECT_OK(orStreamSynchronize(streams.third));
  EXPECT_OK(orDeviceSynchronize());
}

TEST(Failure, AReportedFailureDoesNotFollowEvents) {
  Stream first, second;
  Event event;
  std::atomic<bool> ran{false};
  ASSERT_OK(launch(first, [] { return std::string("no"); }));
  ASSERT_OK(orEventRecord(event, first));
  EXPECT_FAILS(orErrorKernelFailed, orStreamSynchronize(first), "no");
  ASSERT_OK(orStreamWaitEvent(second, event));
  ASSERT_OK(launch(second, [&] { ran = true; }));
  EXPECT_OK(orStreamSynchronize(second));
  EXPECT_TRUE(ran);
}
