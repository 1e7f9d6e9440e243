#include "support.h"

#include <cstring>
#include <string>
#include <thread>
#include <vector>

using namespace support;

namespace {

class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() { reset(); }
  void reset() {
    if (handle_) EXPECT_OK(orGraphDestroy(handle_));
    handle_ = nullptr;
  }
  orGraph_t* operator&() { return &handle_; }
  operator orGraph_t() const { return handle_; }
  size_t nodes() const {
    size_t count = 0;
    EXPECT_OK(orGraphGetNodeCount(handle_, &count));
    return count;
  }
  orGraphNode node(size_t index) const {
    orGraphNode node = {};
    node.struct_size = sizeof(node);
    EXPECT_OK(orGraphGetNode(handle_, index, &node));
    return node;
  }

 private:
  orGraph_t handle_ = nullptr;
};

orCaptureStatus status(orStream_t stream) {
  orCaptureStatus status = orCaptureNone;
  EXPECT_OK(orStreamIsCapturing(stream, &status, nullptr));
  return status;
}

void expect_broken_capture(orStream_t stream, const char* part) {
  EXPECT_EQ(status(stream), orCaptureBroken);
  EXPECT_FAILS(orErrorCaptureInvalidated, launch(stream, [] {}), part);
  orGraph_t graph = nullptr;
  EXPECT_FAILS(orErrorCaptureInvalidated, orStreamEndCapture(stream, &graph), part);
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(status(stream), orCaptureNone);
  EXPECT_OK(run(stream, [] {}));  // the stream is usable again
}

}  // namespace

class GraphUnderSchedule : public ::testing::TestWithParam<orSchedule> {
 protected:
  Schedule schedule_{GetParam(), 3};
};

INSTANTIATE_TEST_SUITE_P(AllSchedules, GraphUnderSchedule,
                         ::testing::Values(orScheduleAsync, orScheduleBlocking, orScheduleAdversarial));

TEST_P(GraphUnderSchedule, ReplaysKernelsInCaptureOrder) {
  Stream stream;
  std::string seen;
  ASSERT_OK(orStreamBeginCapture(stream, orCaptureGlobal));
  for (const char letter : std::string("abc")) ASSERT_OK(launch(stream, [&seen, letter] { seen += letter; }));
  EXPECT_EQ(status(stream), orCaptureActive);
  Graph graph;
  ASSERT_OK(orStreamEndCapture(stream, &graph));
  EXPECT_EQ(status(stream), orCaptureNone);
  EXPECT_EQ(seen, "");
  EXPECT_EQ(graph.nodes(), 3u);
  ASSERT_OK(orGraphLaunch(graph, stream));
  ASSERT_OK(launch(stream, [&] { seen += '-'; }));
  ASSERT_OK(orGraphLaunch(graph, stream));
  ASSERT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(seen, "abc-abc");
}

TEST_P(GraphUnderSchedule, ReplaysCopiesAndMemsets) {
  Stream stream;
  void* device = allocate(64);
  void* pinned = nullptr;
  ASSERT_OK(orMallocHost(&pinned, 64));
  auto* host = static_cast<char*>(pinned);
  ASSERT_OK(orMemset(device, 7, 64));
  ASSERT_OK(orStreamBeginCapture(stream, orCaptureGlobal));
  ASSERT_OK(orMemcpyAsync(device, host, 32, orMemcpyHostToDevice, stream));
  ASSERT_OK(orMemsetAsync(static_cast<char*>(device) + 16, 5, 16, stream));
  ASSERT_OK(orMemcpyAsync(host + 32, device, 32, orMemcpyDeviceToHost, stream));
  Graph graph;
  ASSERT_OK(orStreamEndCapture(stream, &graph));
  for (char value = 1; value < 4; ++value) {
    std::memset(host, value, 64);
    ASSERT_OK(orGraphLaunch(graph, stream));
    ASSERT_OK(orStreamSynchronize(stream));
    EXPECT_EQ(host[32], value);
    EXPECT_EQ(host[48], 5);
  }
  EXPECT_EQ(graph.node(0).kind, orGraphNodeMemcpy);
  EXPECT_EQ(graph.node(0).size, 32u);
  EXPECT_EQ(graph.node(1).kind, orGraphNodeMemset);
  EXPECT_EQ(graph.node(2).copy_kind, orMemcpyDeviceToHost);
  ASSERT_OK(orFreeHost(pinned));
  ASSERT_OK(orFree(device));
}

TEST_P(GraphUnderSchedule, ReplaysForkedAndJoinedStreams) {
  Stream a, b;
  Event fork, join;
  std::string seen;
  ASSERT_OK(orStreamBeginCapture(a, orCaptureGlobal));
  ASSERT_OK(launch(a, [&] { seen += '1'; }));
  ASSERT_OK(orEventRecord(fork, a));
  ASSERT_OK(orStreamWaitEvent(b, fork));
  EXPECT_EQ(status(b), orCaptureActive);
  ASSERT_OK(launch(b, [&] { seen += '2'; }));
  ASSERT_OK(orEventRecord(join, b));
  ASSERT_OK(orStreamWaitEvent(a, join));
  ASSERT_OK(launch(a, [&] { seen += '3'; }));
  Graph graph;
  ASSERT_OK(orStreamEndCapture(a, &graph));
  EXPECT_EQ(status(b), orCaptureNone);
  ASSERT_EQ(graph.nodes(), 3u);
  EXPECT_EQ(graph.node(0).after_count, 0u);
  ASSERT_EQ(graph.node(1).after_count, 1u);
  EXPECT_EQ(graph.node(1).after[0], 0u);
  EXPECT_EQ(graph.node(1).stream, b.id());
  ASSERT_EQ(graph.node(2).after_count, 2u);
  ASSERT_OK(orGraphLaunch(graph, b));
  ASSERT_OK(orStreamSynchronize(b));
  EXPECT_EQ(seen, "123");
  EXPECT_OK(run(b, [] {}));
}

TEST_P(GraphUnderSchedule, FailingKernelEndsTheReplayAndIsReportedAtSynchronization) {
  Stream stream;
  int runs = 0;
  bool fail_now = true;
  ASSERT_OK(orStreamBeginCapture(stream, orCaptureGlobal));
  ASSERT_OK(launch(stream, [&] { return std::string(fail_now ? "a bad index" : ""); }));
  ASSERT_OK(launch(stream, [&] { ++runs; }));
  Graph graph;
  ASSERT_OK(orStreamEndCapture(stream, &graph));
  ASSERT_OK(orGraphLaunch(graph, stream));
  EXPECT_FAILS(orErrorKernelFailed, orStreamSynchronize(stream), "'body', node 0 of 2, failed: a bad index");
  EXPECT_EQ(runs, 0);
  fail_now = false;
  ASSERT_OK(orGraphLaunch(graph, stream));
  ASSERT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(runs, 1);
}

// Resources of a node are released once, after the last launch of the graph is complete.
TEST_P(GraphUnderSchedule, OutlivesItsHandleWhileLaunched) {
  Stream stream;
  const auto token = std::make_shared<int>(0);
  {
    Graph graph;
    ASSERT_OK(orStreamBeginCapture(stream, orCaptureGlobal));
    ASSERT_OK(launch(stream, [token] { ++*token; }));
    ASSERT_OK(orStreamEndCapture(stream, &graph));
    for (int i = 0; i < 10; ++i) ASSERT_OK(orGraphLaunch(graph, stream));
  }
  ASSERT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(*token, 10);
  while (token.use_count() != 1) std::this_thread::yield();
}

// `value` is not atomic: the test is free of data races because launches of one graph never overlap.
TEST_P(GraphUnderSchedule, LaunchesOnManyStreamsAreSerialized) {
  std::vector<Stream> streams(4);
  int value = 0;
  Graph graph;
  ASSERT_OK(orStreamBeginCapture(streams[0], orCaptureGlobal));
  for (int i = 0; i < 10; ++i) ASSERT_OK(launch(streams[0], [&] { ++value; }));
  ASSERT_OK(orStreamEndCapture(streams[0], &graph));
  std::vector<std::thread> threads;
  for (Stream& stream : streams) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) EXPECT_OK(orGraphLaunch(graph, stream));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (Stream& stream : streams) ASSERT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(value, 2000);
}

TEST_P(GraphUnderSchedule, ThreadsCaptureAndLaunchConcurrently) {
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([] {
      Stream stream, side;
      Event fork, join;
      for (int round = 0; round < 20; ++round) {
        int value = 0;
        Graph graph;
        EXPECT_OK(orStreamBeginCapture(stream, orCaptureThreadLocal));
        EXPECT_OK(launch(stream, [&] { value += 1; }));
        EXPECT_OK(orEventRecord(fork, stream));
        EXPECT_OK(orStreamWaitEvent(side, fork));
        EXPECT_OK(launch(side, [&] { value *= 2; }));
        EXPECT_OK(orEventRecord(join, side));
        EXPECT_OK(orStreamWaitEvent(stream, join));
        EXPECT_OK(orStreamEndCapture(stream, &graph));
        EXPECT_OK(orGraphLaunch(graph, side));
        EXPECT_OK(orGraphLaunch(graph, stream));
        EXPECT_OK(orStreamSynchronize(stream));
        EXPECT_EQ(value, 6);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(GraphCapture, RefusesSynchronizationAndQueries) {
  const std::pair<const char*, std::function<orError_t(orStream_t, orEvent_t)>> calls[] = {
      {"synchronizing a stream", [](orStream_t s, orEvent_t) { return orStreamSynchronize(s); }},
      {"querying a stream", [](orStream_t s, orEvent_t) { return orStreamQuery(s); }},
      {"synchronizing device 0", [](orStream_t, orEvent_t) { return orDeviceSynchronize(); }},
      {"synchronizing device 0", [](orStream_t, orEvent_t) { return orDeviceReset(); }},
      {"running 'body' synchronously", [](orStream_t s, orEvent_t) { return run(s, [] {}); }},
      {"synchronizing an event", [](orStream_t, orEvent_t e) { return orEventSynchronize(e); }},
      {"querying an event", [](orStream_t, orEvent_t e) { return orEventQuery(e); }},
      {"nonzero", [](orStream_t s, orEvent_t) { return orStreamCheckUncaptured(s, "nonzero"); }},
      {"emptying", [](orStream_t, orEvent_t) { return orDeviceCheckUncaptured("emptying"); }},
  };
  for (const auto& [message, call] : calls) {
    Stream stream;
    Event event;
    ASSERT_OK(orStreamBeginCapture(stream, orCaptureGlobal));
    ASSERT_OK(orEventRecord(event, stream));
    EXPECT_FAILS(orErrorCapture, call(stream, event), message);
    expect_broken_capture(stream, message);
  }
}

TEST(GraphCapture, RefusesPageableMemory) {
  void* device = allocate(1 << 20);
  std::vector<char> host(1 << 20);
  for (const size_t size : {size_t{16}, host.size()}) {
    Stream stream;
    ASSERT_OK(orStreamBeginCapture(stream, orCaptureGlobal));
    EXPECT_FAILS(orErrorCapture, orMemcpyAsync(device, host.data(), size, orMemcpyHostToDevice, stream),
                 "pageable");
    expect_broken_capture(stream, "pageable");
  }
  ASSERT_OK(orFree(device));
}

TEST(GraphCapture, RefusesEventsRecordedOutsideOfTheCapture) {
  Stream stream, other;
  Event event;
  ASSERT_OK(orEventRecord(event, other));
  ASSERT_OK(orStreamBeginCapture(stream, orCaptureGlobal));
  EXPECT_FAILS(orErrorCapture, orStreamWaitEvent(stream, event), "outside of the capture");
  expect_broken_capture(stream, "outside of the capture");
}

TEST(GraphCapture, RefusesToJoinAnotherCapture) {
  Stream a, b;
  Event event;
  ASSERT_OK(orStreamBeginCapture(a, orCaptureGlobal));
  ASSERT_OK(orStreamBeginCapture(b, orCaptureGlobal));
  ASSERT_OK(orEventRecord(event, a));
  EXPECT_FAILS(orErrorCapture, orStreamWaitEvent(b, event), "another capture");
  expect_broken_capture(a, "another capture");
  expect_broken_capture(b, "another capture");
}

TEST(GraphCapture, RequiresForkedStreamsToBeJoined) {
  Stream a, b;
  Event fork;
  ASSERT_OK(orStreamBeginCapture(a, orCaptureGlobal));
  ASSERT_OK(orEventRecord(fork, a));
  ASSERT_OK(orStreamWaitEvent(b, fork));
  ASSERT_OK(launch(b, [] {}));
  orGraph_t graph = nullptr;
  EXPECT_FAILS(orErrorCapture, orStreamEndCapture(a, &graph), "not joined");
  EXPECT_EQ(status(a), orCaptureNone);
  EXPECT_EQ(status(b), orCaptureNone);
  EXPECT_OK(run(b, [] {}));
}

TEST(GraphCapture, EndsOnTheStreamAndThreadWhereItBegan) {
  Stream a, b;
  Event fork;
  orGraph_t graph = nullptr;
  EXPECT_FAILS(orErrorCapture, orStreamEndCapture(a, &graph), "is not being captured");
  ASSERT_OK(orStreamBeginCapture(a, orCaptureGlobal));
  EXPECT_FAILS(orErrorCapture, orStreamBeginCapture(a, orCaptureGlobal), "already");
  ASSERT_OK(orEventRecord(fork, a));
  ASSERT_OK(orStreamWaitEvent(b, fork));
  EXPECT_FAILS(orErrorCapture, orStreamEndCapture(b, &graph), "end the capture on that stream");
  std::thread([&] { EXPECT_FAILS(orErrorCapture, orStreamEndCapture(a, &graph), "another thread"); }).join();
  Graph made;
  ASSERT_OK(orStreamEndCapture(a, &made));
  EXPECT_EQ(made.nodes(), 0u);
  EXPECT_OK(orGraphLaunch(made, a));
  EXPECT_OK(orStreamSynchronize(a));
}

TEST(GraphCapture, EventsOfAnEndedCaptureMustBeRecordedAgain) {
  Stream a, b;
  Event event;
  Graph graph;
  ASSERT_OK(orStreamBeginCapture(a, orCaptureGlobal));
  ASSERT_OK(orEventRecord(event, a));
  ASSERT_OK(orStreamEndCapture(a, &graph));
  EXPECT_FAILS(orErrorCapture, orEventQuery(event), "record it again");
  EXPECT_FAILS(orErrorCapture, orStreamWaitEvent(b, event), "record it again");
  ASSERT_OK(orEventRecord(event, a));
  EXPECT_OK(orEventSynchronize(event));
}

TEST(GraphCapture, ModeDecidesWhichThreadsMayFree) {
  for (const orCaptureMode mode : {orCaptureGlobal, orCaptureThreadLocal, orCaptureRelaxed}) {
    Stream stream;
    void* memory = allocate(4096);
    void* other = allocate(4096, 1);
    ASSERT_OK(orStreamBeginCapture(stream, mode));
    ASSERT_OK(orFree(other));  // another device
    orError_t elsewhere = orSuccess;
    std::thread([&] { elsewhere = orFree(memory); }).join();
    EXPECT_EQ(elsewhere, mode == orCaptureGlobal ? orErrorCapture : orSuccess);
    if (mode == orCaptureGlobal) {
      expect_broken_capture(stream, "freeing memory");
      ASSERT_OK(orFree(memory));
      continue;
    }
    memory = allocate(4096);
    if (mode == orCaptureThreadLocal) {
      EXPECT_FAILS(orErrorCapture, orFree(memory), "freeing memory");
      expect_broken_capture(stream, "freeing memory");
      ASSERT_OK(orFree(memory));
    } else {
      Graph graph;
      ASSERT_OK(orFree(memory));
      std::thread([&] { EXPECT_OK(orStreamEndCapture(stream, &graph)); }).join();
    }
  }
}

TEST(GraphCapture, OtherStreamsAreNotAffected) {
  Stream captured, free;
  Graph graph;
  ASSERT_OK(orStreamBeginCapture(captured, orCaptureGlobal));
  int value = 0;
  ASSERT_OK(launch(free, [&] { value = 1; }));
  ASSERT_OK(orStreamSynchronize(free));
  EXPECT_EQ(value, 1);
  EXPECT_OK(orStreamQuery(free));
  ASSERT_OK(orStreamEndCapture(captured, &graph));
}

TEST(GraphCapture, DestroyingTheStreamDiscardsTheCapture) {
  const auto token = std::make_shared<int>(0);
  Stream other;
  {
    Stream stream;
    Event fork;
    ASSERT_OK(orStreamBeginCapture(stream, orCaptureGlobal));
    ASSERT_OK(launch(stream, [token] {}));
    ASSERT_OK(orEventRecord(fork, stream));
    ASSERT_OK(orStreamWaitEvent(other, fork));
  }
  EXPECT_EQ(token.use_count(), 1);
  EXPECT_OK(run(other, [] {}));
  EXPECT_OK(orDeviceSynchronize());
}

TEST(Graph, InvalidHandlesAreRefused) {
  Stream stream;
  orGraph_t gone = nullptr;
  ASSERT_OK(orStreamBeginCapture(stream, orCaptureGlobal));
  ASSERT_OK(orStreamEndCapture(stream, &gone));
  ASSERT_OK(orGraphDestroy(gone));
  EXPECT_FAILS(orErrorInvalidHandle, orGraphLaunch(gone, stream), "not a graph");
  EXPECT_FAILS(orErrorInvalidHandle, orGraphDestroy(gone), "not a graph");
  EXPECT_FAILS(orErrorInvalidHandle, orGraphLaunch(static_cast<orGraph_t>(garbage(64)), stream),
               "not a graph");
}

TEST(Graph, LaunchOnAnotherDeviceIsRefused) {
  Stream stream, other(1);
  Graph graph;
  ASSERT_OK(orStreamBeginCapture(stream, orCaptureGlobal));
  ASSERT_OK(orStreamEndCapture(stream, &graph));
  EXPECT_FAILS(orErrorInvalidValue, orGraphLaunch(graph, other), "device 1");
}

TEST(Graph, EveryNodeOfEveryLaunchIsTraced) {
  struct Seen {
    std::atomic<int> launched{0}, finished{0};
  } seen;
  ASSERT_OK(orTraceSubscribe(
      [](const orTraceRecord* record, void* user) {
        if (record->kind == orTraceSynchronize) return;
        auto& seen = *static_cast<Seen*>(user);
        if (record->phase == orTraceLaunched) ++seen.launched;
        if (record->phase == orTraceFinished) ++seen.finished;
        EXPECT_STREQ(record->name, "body");
      },
      &seen));
  Stream stream;
  Graph graph;
  bool fail_now = false;
  ASSERT_OK(orStreamBeginCapture(stream, orCaptureGlobal));
  for (int i = 0; i < 3; ++i) ASSERT_OK(launch(stream, [&] { return std::string(fail_now ? "no" : ""); }));
  ASSERT_OK(orStreamEndCapture(stream, &graph));
  EXPECT_EQ(seen.launched, 0);
  ASSERT_OK(orGraphLaunch(graph, stream));
  ASSERT_OK(orGraphLaunch(graph, stream));
  ASSERT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(seen.launched, 6);
  EXPECT_EQ(seen.finished, 6);
  fail_now = true;
  ASSERT_OK(orGraphLaunch(graph, stream));
  EXPECT_EQ(orStreamSynchronize(stream), orErrorKernelFailed);
  EXPECT_EQ(seen.launched, 9);
  EXPECT_EQ(seen.finished, 9);
  ASSERT_OK(orTraceUnsubscribe());
}

TEST_P(GraphUnderSchedule, EachLaunchRecordsExternalEvents) {
  Stream stream, other;
  Event start(0, orEventExternal), end(0, orEventExternal);
  std::atomic<int> runs{0};
  Graph graph;
  ASSERT_OK(orStreamBeginCapture(stream, orCaptureGlobal));
  ASSERT_OK(orEventRecord(start, stream));
  ASSERT_OK(launch(stream, [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ++runs;
  }));
  ASSERT_OK(orEventRecord(end, stream));
  ASSERT_OK(orEventQuery(end));  // permitted: the capture did not record it
  ASSERT_OK(orStreamEndCapture(stream, &graph));
  EXPECT_EQ(graph.node(0).kind, orGraphNodeEventRecord);
  EXPECT_EQ(graph.node(2).after_count, 1u);
  float milliseconds = 0;
  EXPECT_EQ(orEventElapsedTime(&milliseconds, start, end), orErrorInvalidValue);
  for (int i = 1; i <= 3; ++i) {
    ASSERT_OK(orGraphLaunch(graph, stream));
    ASSERT_OK(orStreamWaitEvent(other, end));
    int seen = 0;
    ASSERT_OK(launch(other, [&] { seen = runs.load(); }));
    ASSERT_OK(orEventSynchronize(end));
    EXPECT_EQ(runs, i);
    ASSERT_OK(orEventElapsedTime(&milliseconds, start, end));
    EXPECT_GE(milliseconds, 2);
    ASSERT_OK(orStreamSynchronize(other));
    EXPECT_EQ(seen, i);
  }
}

TEST(Graph, WaitsForAnExternalEventOfItsLaunch) {
  Stream stream, other;
  Graph graph;
  std::atomic<int> runs{0};
  {
    Event event(0, orEventExternal | orEventDisableTiming);
    ASSERT_OK(orStreamBeginCapture(stream, orCaptureGlobal));
    ASSERT_OK(orStreamWaitEvent(stream, event));
    ASSERT_OK(launch(stream, [&] { ++runs; }));
    ASSERT_OK(orStreamEndCapture(stream, &graph));
    EXPECT_EQ(graph.node(0).kind, orGraphNodeEventWait);
    EXPECT_STREQ(graph.node(0).name, "event wait");
    ASSERT_OK(orGraphLaunch(graph, stream));  // the event was never recorded
    ASSERT_OK(orStreamSynchronize(stream));
    EXPECT_EQ(runs, 1);

    Gate gate;
    ASSERT_OK(launch(other, [&] { gate.wait(); }));
    ASSERT_OK(orEventRecord(event, other));
    ASSERT_OK(orGraphLaunch(graph, stream));
    EXPECT_EQ(orStreamQuery(stream), orErrorNotReady);
    EXPECT_EQ(runs, 1);
    gate.open();
    ASSERT_OK(orStreamSynchronize(stream));
    EXPECT_EQ(runs, 2);
  }
  ASSERT_OK(orGraphLaunch(graph, stream));  // the graph keeps the destroyed event
  ASSERT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(runs, 3);
}

TEST(Graph, ExternalEventsOfALaunchAreNotTraced) {
  std::atomic<int> launched{0};
  ASSERT_OK(orTraceSubscribe(
      [](const orTraceRecord* record, void* user) {
        if (record->kind == orTraceKernel && record->phase == orTraceFinished)
          ++*static_cast<std::atomic<int>*>(user);
      },
      &launched));
  Stream stream;
  Event event(0, orEventExternal);
  Graph graph;
  ASSERT_OK(orStreamBeginCapture(stream, orCaptureGlobal));
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK(launch(stream, [] {}));
    ASSERT_OK(orEventRecord(event, stream));
  }
  ASSERT_OK(orStreamEndCapture(stream, &graph));
  ASSERT_OK(orGraphLaunch(graph, stream));
  ASSERT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(launched, 3);
  ASSERT_OK(orTraceUnsubscribe());
}

TEST_P(GraphUnderSchedule, ALaunchWithEventsIsNotDividedByOtherThreads) {
  Stream stream;
  Event event(0, orEventExternal | orEventDisableTiming);
  Graph graph;
  int value = 0;
  int result = 0;
  ASSERT_OK(orStreamBeginCapture(stream, orCaptureGlobal));
  ASSERT_OK(launch(stream, [&] { value = 0; }));
  for (int i = 0; i < 40; ++i) {  // longer than a segment of the queue
    ASSERT_OK(launch(stream, [&] { ++value; }));
    ASSERT_OK(orEventRecord(event, stream));
  }
  ASSERT_OK(launch(stream, [&] { result = value; }));
  ASSERT_OK(orStreamEndCapture(stream, &graph));
  std::atomic<bool> stop{false};
  // Bounded: if the thread launched faster than the stream runs, each synchronization would wait longer than
  // the last.
  constexpr int kMaxPending = 64;
  std::atomic<int> pending{0};
  std::thread other([&] {
    while (!stop) {
      if (pending.load() >= kMaxPending) {
        std::this_thread::yield();
        continue;
      }
      ++pending;
      EXPECT_OK(launch(stream, [&] {
        value += 1000;
        --pending;
      }));
    }
  });
  for (int i = 0; i < 100; ++i) {
    EXPECT_OK(orGraphLaunch(graph, stream));
    EXPECT_OK(orEventSynchronize(event));
    EXPECT_OK(orStreamSynchronize(stream));
    EXPECT_EQ(result, 40);
  }
  stop = true;
  other.join();
  ASSERT_OK(orStreamSynchronize(stream));
}

TEST(Graph, AFailedNodeDropsTheRestOfALaunchWithEvents) {
  Stream stream;
  Event event(0, orEventExternal);
  Graph graph;
  std::atomic<int> runs{0};
  ASSERT_OK(orStreamBeginCapture(stream, orCaptureGlobal));
  ASSERT_OK(launch(stream, [] { return std::string("no"); }));
  for (int i = 0; i < 20; ++i) {
    ASSERT_OK(orEventRecord(event, stream));
    ASSERT_OK(launch(stream, [&] { ++runs; }));
  }
  ASSERT_OK(orStreamEndCapture(stream, &graph));
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) static_cast<void>(orStreamSynchronize(stream));
  });
  for (int i = 0; i < 200; ++i) EXPECT_OK(orGraphLaunch(graph, stream));
  stop = true;
  other.join();
  static_cast<void>(orStreamSynchronize(stream));
  EXPECT_EQ(runs, 0);
}

TEST(Event, WaitsAndCapturesOfOneEventMayRace) {
  Stream captured, waiting;
  Event event;
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop)
      static_cast<void>(orStreamWaitEvent(waiting, event));  // an error, if the record is captured
  });
  for (int i = 0; i < 2000; ++i) {
    if (orStreamBeginCapture(captured, orCaptureRelaxed) != orSuccess) continue;
    static_cast<void>(orEventRecord(event, captured));
    Graph graph;
    static_cast<void>(orStreamEndCapture(captured, &graph));
    static_cast<void>(orEventRecord(event, captured));
  }
  stop = true;
  other.join();
  EXPECT_OK(orStreamSynchronize(captured));
  orCaptureStatus status = orCaptureNone;
  EXPECT_OK(orStreamIsCapturing(waiting, &status, nullptr));
  EXPECT_EQ(status, orCaptureNone);
  EXPECT_OK(orStreamSynchronize(waiting));
}

TEST(GraphCapture, AStreamFollowsTheEventsThatItHasJoined) {
  Stream stream, side;
  Event fork, before, after;
  const auto follows = [&](orEvent_t event) {
    int result = -1;
    EXPECT_OK(orStreamFollowsEvent(stream, event, &result));
    return result;
  };
  ASSERT_OK(orEventRecord(before, side));
  EXPECT_EQ(follows(before), 0);  // not captured
  ASSERT_OK(orStreamBeginCapture(stream, orCaptureGlobal));
  ASSERT_OK(launch(stream, [] {}));
  ASSERT_OK(orEventRecord(fork, stream));
  EXPECT_EQ(follows(fork), 1);
  ASSERT_OK(orStreamWaitEvent(side, fork));
  ASSERT_OK(launch(side, [] {}));
  ASSERT_OK(orEventRecord(before, side));
  ASSERT_OK(launch(side, [] {}));
  ASSERT_OK(orEventRecord(after, side));
  EXPECT_EQ(follows(before), 0);
  ASSERT_OK(orStreamWaitEvent(stream, before));
  EXPECT_EQ(follows(before), 1);
  EXPECT_EQ(follows(after), 0);
  ASSERT_OK(orStreamWaitEvent(stream, after));
  EXPECT_EQ(follows(after), 1);
  Graph graph;
  ASSERT_OK(orStreamEndCapture(stream, &graph));
  EXPECT_EQ(follows(after), 0);
}
