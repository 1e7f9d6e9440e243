#include "support.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

using namespace support;

namespace {

class Tracer {
 public:
  Tracer() { EXPECT_OK(orTraceSubscribe(&Tracer::callback, this)); }
  ~Tracer() {
    if (subscribed_) EXPECT_OK(orTraceUnsubscribe());
  }
  void unsubscribe() {
    subscribed_ = false;
    EXPECT_OK(orTraceUnsubscribe());
  }
  std::vector<orTraceRecord> records(orTracePhase phase, int kind = -1) {
    std::lock_guard lock(mutex_);
    std::vector<orTraceRecord> selected;
    for (const orTraceRecord& record : records_) {
      if (record.phase == phase && (kind < 0 || record.kind == kind)) selected.push_back(record);
    }
    return selected;
  }

 private:
  static void callback(const orTraceRecord* record, void* user) {
    auto* self = static_cast<Tracer*>(user);
    std::lock_guard lock(self->mutex_);
    self->records_.push_back(*record);
  }
  bool subscribed_ = true;
  std::mutex mutex_;
  std::vector<orTraceRecord> records_;
};

}  // namespace

TEST(Trace, EveryLaunchHasLaunchedAndFinishedRecords) {
  Tracer tracer;
  Stream a, b;
  void* memory = allocate(4096);
  void* pinned = nullptr;
  ASSERT_OK(orMallocHost(&pinned, 4096));
  char host[100] = {};
  for (int i = 0; i < 50; ++i) {
    ASSERT_OK(launch(a, [] {}));
    ASSERT_OK(run(b, [] {}));
  }
  ASSERT_OK(orMemcpyAsync(memory, pinned, 4096, orMemcpyHostToDevice, a));
  ASSERT_OK(orMemcpyAsync(memory, host, 100, orMemcpyHostToDevice, a));
  ASSERT_OK(orMemsetAsync(memory, 0, 512, a));
  ASSERT_OK(orLaunchHostFunc(a, [](void*) {}, nullptr));
  ASSERT_OK(orStreamSynchronize(a));
  ASSERT_OK(orDeviceSynchronize());

  const auto launched = tracer.records(orTraceLaunched);
  const auto finished = tracer.records(orTraceFinished);
  ASSERT_EQ(launched.size(), finished.size());
  std::map<uint64_t, orTraceRecord> by_correlation;
  for (const orTraceRecord& record : launched) {
    EXPECT_EQ(record.struct_size, sizeof(orTraceRecord));
    EXPECT_EQ(record.start_ns, 0);
    EXPECT_TRUE(by_correlation.emplace(record.correlation, record).second);
  }
  std::map<uint64_t, std::vector<std::pair<int64_t, int64_t>>> spans;
  for (const orTraceRecord& record : finished) {
    ASSERT_EQ(by_correlation.count(record.correlation), 1u);
    const orTraceRecord& begin = by_correlation[record.correlation];
    EXPECT_EQ(begin.kind, record.kind);
    EXPECT_STREQ(begin.name, record.name);
    EXPECT_EQ(begin.stream, record.stream);
    EXPECT_EQ(begin.size, record.size);
    EXPECT_GT(record.start_ns, 0);
    EXPECT_LE(record.start_ns, record.end_ns);
    EXPECT_EQ(record.result, orSuccess);
    by_correlation.erase(record.correlation);
    if (record.kind != orTraceSynchronize) spans[record.stream].emplace_back(record.start_ns, record.end_ns);
  }
  for (auto& [stream, list] : spans) {
    std::sort(list.begin(), list.end());
    for (size_t i = 1; i < list.size(); ++i) EXPECT_LE(list[i - 1].second, list[i].first);
  }
  EXPECT_EQ(tracer.records(orTraceFinished, orTraceKernel).size(), 100u);
  EXPECT_EQ(tracer.records(orTraceFinished, orTraceMemset).at(0).size, 512u);
  EXPECT_EQ(tracer.records(orTraceFinished, orTraceHostFunc).size(), 1u);
  EXPECT_EQ(tracer.records(orTraceFinished, orTraceSynchronize).size(), 2u);
  const auto copies = tracer.records(orTraceFinished, orTraceMemcpy);
  ASSERT_EQ(copies.size(), 2u);
  EXPECT_EQ(copies[0].copy_kind, orMemcpyHostToDevice);
  EXPECT_EQ(copies[0].size, 4096u);
  EXPECT_EQ(copies[0].stream, a.id());
  EXPECT_EQ(copies[0].device, 0);
  EXPECT_OK(orFreeHost(pinned));
  EXPECT_OK(orFree(memory));
}

TEST(Trace, FinishedRecordsArriveAfterUnsubscribe) {
  Stream stream;
  Gate gate;
  Tracer tracer;
  ASSERT_OK(launch(stream, [&] { gate.wait(); }));
  ASSERT_OK(launch(stream, [] {}));
  tracer.unsubscribe();
  ASSERT_OK(launch(stream, [] {}));
  gate.open();
  ASSERT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(tracer.records(orTraceLaunched).size(), 2u);
  EXPECT_EQ(tracer.records(orTraceFinished).size(), 2u);
}

TEST(Trace, FailedAndDroppedWorkIsTraced) {
  Stream stream;
  Tracer tracer;
  ASSERT_OK(launch(stream, [] { return std::string("bad"); }));
  ASSERT_OK(launch(stream, [] {}));
  EXPECT_EQ(run(stream, [] {}), orErrorKernelFailed);
  EXPECT_EQ(run(stream, [] { return std::string("worse"); }), orErrorKernelFailed);
  (void)orGetLastError();
  const auto finished = tracer.records(orTraceFinished, orTraceKernel);
  ASSERT_EQ(finished.size(), 4u);
  for (const orTraceRecord& record : finished) EXPECT_EQ(record.result, orErrorKernelFailed);
  EXPECT_EQ(finished[1].start_ns, finished[1].end_ns);
}

TEST(Trace, OnlyOneSubscriberIsAllowed) {
  Tracer tracer;
  EXPECT_FAILS(orErrorNotPermitted, orTraceSubscribe([](const orTraceRecord*, void*) {}, nullptr),
               "only one");
  tracer.unsubscribe();
  EXPECT_FAILS(orErrorNotPermitted, orTraceUnsubscribe(), "no trace subscriber");
  EXPECT_FAILS(orErrorInvalidValue, orTraceSubscribe(nullptr, nullptr), "NULL");
  EXPECT_OK(orTraceSubscribe([](const orTraceRecord*, void*) {}, nullptr));
  EXPECT_OK(orTraceUnsubscribe());
}

// A record of orTraceReturned has the times of the API call, which include work that the call waited for.
TEST(Trace, ReturnedRecordsHaveTheTimesOfTheApiCall) {
  Stream stream;
  Gate gate;
  Tracer tracer;
  ASSERT_OK(launch(stream, [&] { gate.wait(); }));
  void* memory = allocate(4096);
  ASSERT_OK(orMemsetAsync(memory, 1, 4096, stream));
  const auto before = tracer.records(orTraceReturned);
  gate.open();
  ASSERT_OK(run(stream, [] {}));
  ASSERT_OK(orStreamSynchronize(stream));

  EXPECT_EQ(before.size(), 2u);
  EXPECT_STREQ(before.at(0).function, "orLaunchKernel");
  EXPECT_STREQ(before.at(1).function, "orMemsetAsync");
  const auto returned = tracer.records(orTraceReturned);
  const auto finished = tracer.records(orTraceFinished);
  ASSERT_EQ(returned.size(), 3u);
  ASSERT_EQ(finished.size(), 4u);
  EXPECT_EQ(finished[3].kind, orTraceSynchronize);
  EXPECT_STREQ(finished[3].function, "orStreamSynchronize");
  for (size_t i = 0; i < returned.size(); ++i) {
    EXPECT_EQ(returned[i].correlation, finished[i].correlation);
    EXPECT_LE(returned[i].start_ns, finished[i].start_ns);
    EXPECT_LE(returned[i].start_ns, returned[i].end_ns);
  }
  EXPECT_LE(returned[0].end_ns, finished[0].end_ns);
  EXPECT_STREQ(returned[2].function, "orRunKernel");
  EXPECT_GE(returned[2].end_ns, finished[2].end_ns);
  EXPECT_OK(orFree(memory));
}
