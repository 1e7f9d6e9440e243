// Tests of openreg/watchdog.h.
#include "handle_text.h"
#include "peer_process.h"
#include "support.h"

#include <openreg/faults.h>
#include <openreg/watchdog.h>

#include <chrono>
#include <mutex>
#include <thread>

using namespace support;

namespace {

constexpr uint64_t kLimitNs = 100'000'000;
constexpr const char* kFailures = "failed by the watchdog";

std::mutex reports_mutex;
std::string reports;

std::string all_reports() {
  std::lock_guard lock(reports_mutex);
  return reports;
}

bool reported(const std::string& part) {
  return all_reports().find(part) != std::string::npos;
}

/// Waits for a report that contains the text.
bool comes(const std::string& part) {
  for (int i = 0; i < 2000 && !reported(part); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return reported(part);
}

/// The watchdog for a scope.
class Watchdog {
 public:
  explicit Watchdog(bool fail_streams = false, uint64_t limit_ns = kLimitNs) {
    reports.clear();
    orWatchdogHooks hooks{};
    hooks.struct_size = sizeof(hooks);
    hooks.site = [](char* buffer, size_t size) { std::snprintf(buffer, size, "%s", site.c_str()); };
    hooks.arguments = [](char* buffer, size_t size) { std::snprintf(buffer, size, "float32[4]"); };
    hooks.report = [](const char* text) {
      std::lock_guard lock(reports_mutex);
      reports += text;
    };
    EXPECT_OK(orWatchdogSetHooks(&hooks));
    const orWatchdogOptions options = {sizeof(orWatchdogOptions), fail_streams, limit_ns};
    EXPECT_OK(orWatchdogSet(&options, nullptr));
  }
  ~Watchdog() {
    const orWatchdogOptions off = {sizeof(orWatchdogOptions), 0, 0};
    EXPECT_OK(orWatchdogSet(&off, nullptr));
    EXPECT_OK(orWatchdogSetHooks(nullptr));
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  static inline thread_local std::string site;
};

std::string name_of(const Stream& stream) {
  return "stream " + std::to_string(stream.id()) + " of openreg:0";
}

/// A rule that holds the next launch of the stream.
uint64_t hang(const Stream& stream) {
  orFaultRule rule = orFaultRuleDefault();
  rule.call = "orLaunchKernel";
  rule.stream = static_cast<int64_t>(stream.id());
  rule.times = 1;
  rule.action = orFaultActionHang;
  uint64_t id = 0;
  EXPECT_OK(orFaultsAdd(&rule, 1, &id));
  return id;
}

}  // namespace

TEST(Watchdog, ReportNamesTheOperationItsArgumentsAndLine) {
  const Watchdog watchdog;
  Stream stream;
  Gate gate;
  Watchdog::site = "train.py:12";
  ASSERT_OK(launch(stream, [&] { gate.wait(); }));
  Watchdog::site = "train.py:13";
  ASSERT_OK(launch(stream, [] {}));
  EXPECT_TRUE(comes(name_of(stream) + ", no progress for ")) << all_reports();
  EXPECT_TRUE(reported("next:  body (float32[4]), submitted by orLaunchKernel at train.py:12"))
      << all_reports();
  EXPECT_TRUE(reported("; 1 behind it")) << all_reports();
  EXPECT_TRUE(reported("waits for no stream that is watched")) << all_reports();
  gate.open();
  ASSERT_OK(orStreamSynchronize(stream));
}

TEST(Watchdog, ReportIsMadeOnceForEachOperation) {
  const Watchdog watchdog(false, 20'000'000);
  Stream stream;
  Gate first;
  Gate second;
  ASSERT_OK(launch(stream, [&] { first.wait(); }));
  ASSERT_OK(launch(stream, [&] { second.wait(); }));
  ASSERT_TRUE(comes("; 1 behind it"));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const std::string before = all_reports();
  EXPECT_EQ(before.find(name_of(stream)), before.rfind(name_of(stream))) << before;
  first.open();
  for (int i = 0; i < 2000 && all_reports().size() == before.size(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_TRUE(all_reports().substr(before.size()).starts_with("openreg: watchdog: " + name_of(stream)));
  second.open();
  ASSERT_OK(orStreamSynchronize(stream));
}

TEST(Watchdog, WaitNamesTheOtherStreamAndTheRecord) {
  const Watchdog watchdog;
  Stream first;
  Stream second;
  Stream third;
  Event event;
  Event other;
  Gate gate;
  ASSERT_OK(launch(first, [&] { gate.wait(); }));
  Watchdog::site = "train.py:20";
  ASSERT_OK(orEventRecord(event, first));
  Watchdog::site = "train.py:21";
  ASSERT_OK(orStreamWaitEvent(second, event));
  ASSERT_OK(orEventRecord(event, second));  // the wait is for the earlier record
  ASSERT_OK(orEventRecord(other, second));
  ASSERT_OK(orStreamWaitEvent(third, other));
  ASSERT_OK(launch(third, [] {}));
  EXPECT_TRUE(comes(name_of(third))) << all_reports();
  EXPECT_TRUE(reported("waits at train.py:21 for an event that was recorded on " + name_of(first) +
                       " at train.py:20"))
      << all_reports();
  EXPECT_TRUE(reported("for an event that was recorded on " + name_of(second) + " at train.py:21"))
      << all_reports();
  gate.open();
  ASSERT_OK(orDeviceSynchronize());
}

TEST(Watchdog, WaitForAnotherProcessIsNamed) {
  const Watchdog watchdog;
  Peer peer;
  const std::string id = peer.get("create_event");
  ASSERT_EQ(peer.ask("block").substr(0, 2), "ok");
  ASSERT_EQ(peer.ask("record " + id).substr(0, 2), "ok");
  orIpcEventHandle_t handle = from_hex<orIpcEventHandle_t>(peer.get("export_event " + id));
  orEvent_t event = nullptr;
  ASSERT_OK(orIpcOpenEventHandle(&event, &handle));
  Stream stream;
  ASSERT_OK(orStreamWaitEvent(stream, event));
  ASSERT_OK(launch(stream, [] {}));
  EXPECT_TRUE(comes("for an event of another process")) << all_reports();
  ASSERT_EQ(peer.ask("unblock").substr(0, 2), "ok");
  ASSERT_OK(orStreamSynchronize(stream));
  ASSERT_OK(orEventDestroy(event));
}

TEST(Watchdog, ProgressIsNotReported) {
  const Watchdog watchdog;
  Stream stream;
  Stream other;
  Event event;
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(6 * kLimitNs);
  while (std::chrono::steady_clock::now() < end) {
    for (int i = 0; i < 20; ++i) {
      ASSERT_OK(launch(stream, [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }));
    }
    ASSERT_OK(orEventRecord(event, stream));
    ASSERT_OK(orStreamWaitEvent(other, event));
    ASSERT_OK(launch(other, [] {}));
    ASSERT_OK(orEventSynchronize(event));
  }
  ASSERT_OK(orDeviceSynchronize());
  std::this_thread::sleep_for(std::chrono::nanoseconds(2 * kLimitNs));
  EXPECT_EQ(all_reports(), "");
}

TEST(Watchdog, StreamThatWaitsForAWorkingStreamIsNotReported) {
  const Watchdog watchdog(true);
  Stream first;
  Stream second;
  Event event;
  std::atomic<bool> ran{false};
  for (int i = 0; i < 40; ++i) {
    ASSERT_OK(launch(first, [] { std::this_thread::sleep_for(std::chrono::milliseconds(10)); }));
  }
  ASSERT_OK(orEventRecord(event, first));
  ASSERT_OK(orStreamWaitEvent(second, event));
  ASSERT_OK(launch(second, [&] { ran = true; }));
  EXPECT_OK(orStreamSynchronize(second));
  EXPECT_TRUE(ran);
  EXPECT_EQ(all_reports(), "");
}

TEST(Watchdog, NewOptionsReportAgain) {
  const Watchdog watchdog;
  Stream stream;
  const uint64_t rules = hang(stream);
  ASSERT_OK(launch(stream, [] {}));
  ASSERT_TRUE(comes(name_of(stream)));
  const orWatchdogOptions failing = {sizeof(orWatchdogOptions), 1, kLimitNs};
  ASSERT_OK(orWatchdogSet(&failing, nullptr));
  EXPECT_FAILS(orErrorKernelFailed, orStreamSynchronize(stream), kFailures);
  EXPECT_OK(orFaultsRemove(rules));
}

TEST(Watchdog, LargestLimitIsNotReached) {
  const Watchdog watchdog(true, UINT64_MAX);
  Stream stream;
  ASSERT_OK(launch(stream, [] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }));
  EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(all_reports(), "");
}

TEST(Watchdog, SuspendedWorkIsNeitherWatchedNorSubjectToRules) {
  const Watchdog watchdog;
  Stream stream;
  Gate gate;
  const uint64_t rules = hang(stream);
  ASSERT_OK(orFaultsSuspend(1));
  ASSERT_OK(launch(stream, [&] { gate.wait(); }));
  ASSERT_OK(orFaultsSuspend(0));
  std::this_thread::sleep_for(std::chrono::nanoseconds(2 * kLimitNs));
  EXPECT_EQ(all_reports(), "");
  uint64_t matched = 9, fired = 9;
  EXPECT_OK(orFaultsGetCounts(rules, 0, &matched, &fired));
  EXPECT_EQ(matched, 0u);
  gate.open();
  EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_OK(orFaultsRemove(rules));
}

TEST(Watchdog, RejectedAndCapturedWorkIsNotWatched) {
  const Watchdog watchdog;
  Stream stream;
  Event event;
  EXPECT_EQ(orLaunchKernel(reinterpret_cast<orStream_t>(garbage(5)), &body_kernel(), nullptr, 0),
            orErrorInvalidHandle);
  ASSERT_OK(orStreamBeginCapture(stream, orCaptureThreadLocal));
  ASSERT_OK(launch(stream, [] {}));
  ASSERT_OK(orEventRecord(event, stream));
  ASSERT_OK(orStreamWaitEvent(stream, event));
  std::this_thread::sleep_for(std::chrono::nanoseconds(2 * kLimitNs));
  orGraph_t graph = nullptr;
  ASSERT_OK(orStreamEndCapture(stream, &graph));
  EXPECT_EQ(all_reports(), "");
  ASSERT_OK(orGraphDestroy(graph));
}

TEST(Watchdog, WorkOfAGraphIsWatched) {
  const Watchdog watchdog;
  Stream stream;
  Gate gate;
  ASSERT_OK(orStreamBeginCapture(stream, orCaptureThreadLocal));
  ASSERT_OK(launch(stream, [&] { gate.wait(); }));
  orGraph_t graph = nullptr;
  ASSERT_OK(orStreamEndCapture(stream, &graph));
  ASSERT_OK(orGraphLaunch(graph, stream));
  EXPECT_TRUE(comes("submitted by orGraphLaunch")) << all_reports();
  gate.open();
  ASSERT_OK(orStreamSynchronize(stream));
  ASSERT_OK(orGraphDestroy(graph));
}

TEST(Watchdog, FailedStreamDropsItsWorkAndGoesOn) {
  const Watchdog watchdog(true);
  Stream first;
  Stream second;
  Event event;
  Gate gate;
  Gate started;
  std::atomic<int> ran{0};
  ASSERT_OK(launch(first, [&] {
    started.open();
    gate.wait();
  }));
  started.wait();  // else the thread that synchronizes might run the kernel
  ASSERT_OK(launch(first, [&] { ++ran; }));
  ASSERT_OK(orEventRecord(event, first));
  ASSERT_OK(orStreamWaitEvent(second, event));
  ASSERT_OK(launch(second, [&] { ++ran; }));
  // The kernel of `first` still runs, but `second` does not wait for it any more.
  EXPECT_FAILS(orErrorKernelFailed, orStreamSynchronize(second), kFailures);
  EXPECT_NE(std::string(orGetLastErrorMessage()).find("recorded on " + name_of(first)), std::string::npos);
  ASSERT_OK(launch(second, [&] { ran += 10; }));
  ASSERT_OK(orStreamSynchronize(second));
  EXPECT_EQ(ran, 10);
  gate.open();
  EXPECT_FAILS(orErrorKernelFailed, orStreamSynchronize(first), kFailures);
  ASSERT_OK(launch(first, [&] { ran += 10; }));
  ASSERT_OK(orStreamSynchronize(first));
  EXPECT_EQ(ran, 20);
}

TEST(Watchdog, HangOfAFaultRuleIsNamedAndFails) {
  const Watchdog watchdog(true);
  Stream stream;
  const uint64_t rules = hang(stream);
  ASSERT_OK(launch(stream, [] {}));
  EXPECT_FAILS(orErrorKernelFailed, orStreamSynchronize(stream), kFailures);
  EXPECT_TRUE(reported("fault: held before body")) << all_reports();
  ASSERT_OK(launch(stream, [] {}));
  EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_OK(orFaultsRemove(rules));
}

TEST(Watchdog, StreamsThatFailManyTimesLoseNoWork) {
  const Watchdog watchdog(true, 5'000'000);
  Stream first;
  Stream second;
  Event event;
  for (int i = 0; i < 20; ++i) {
    const uint64_t rules = hang(first);
    ASSERT_OK(launch(first, [] {}));
    ASSERT_OK(orEventRecord(event, first));
    ASSERT_OK(orStreamWaitEvent(second, event));
    ASSERT_OK(launch(second, [] {}));
    EXPECT_EQ(orStreamSynchronize(second), orErrorKernelFailed);
    static_cast<void>(orStreamSynchronize(first));  // the same failure, or its own
    ASSERT_OK(orFaultsRemove(rules));
    std::atomic<int> ran{0};
    ASSERT_OK(orEventRecord(event, first));
    ASSERT_OK(orStreamWaitEvent(second, event));
    ASSERT_OK(launch(second, [&] { ++ran; }));
    ASSERT_OK(orStreamSynchronize(second));
    EXPECT_EQ(ran, 1);
  }
}

TEST(Watchdog, OptionsAreReturnedAndChecked) {
  const orWatchdogOptions on = {sizeof(orWatchdogOptions), 1, 5};
  const orWatchdogOptions off = {sizeof(orWatchdogOptions), 0, 0};
  orWatchdogOptions before = {sizeof(orWatchdogOptions), 7, 7};
  ASSERT_OK(orWatchdogSet(&on, &before));
  EXPECT_EQ(before.limit_ns, 0u);
  ASSERT_OK(orWatchdogSet(&off, &before));
  EXPECT_EQ(before.limit_ns, 5u);
  EXPECT_EQ(before.fail_streams, 1);
  EXPECT_FAILS(orErrorInvalidValue, orWatchdogSet(nullptr, nullptr), "options is NULL");
  const orWatchdogOptions empty = {0, 0, 0};
  EXPECT_FAILS(orErrorInvalidValue, orWatchdogSet(&empty, nullptr), "struct_size is 0");
}
