// Failed kernels; see Note [Failed kernels] in openreg.h.
#include "check.h"
#include "error.h"

#include <memory>
#include <string_view>
#include <thread>

namespace openreg::check {
namespace {

Body failing(const char* why) {
  return [why] { return std::string(why); };
}

// Expects the failure with its message.
void expect_failure(orError_t code, const char* call, std::string_view why) {
  const orError_t error = from_driver(code);
  REQUIRE(error == orErrorKernelFailed, "%s returned %s after a failed kernel, not orErrorKernelFailed", call,
          orGetErrorName(error));
  const std::string message = orGetLastErrorMessage();
  REQUIRE(message.find(why) != std::string::npos && message.find("check") != std::string::npos,
          "%s: the message is '%s'; it has to contain the name of the kernel, 'check', and its message, '%s'",
          call, message.c_str(), std::string(why).c_str());
}

void report(const orDriver& driver) {
  const Stream stream(driver);
  OK(launch(driver, stream, failing("bad index 7")));
  expect_failure(driver.stream_synchronize(stream), "stream_synchronize", "bad index 7");
  EXPECT(orSuccess, driver.stream_synchronize(stream));
  bool ran = false;
  OK(launch(driver, stream, [&] { return ran = true, std::string(); }));
  EXPECT(orSuccess, driver.stream_synchronize(stream));
  REQUIRE(ran, "work that was submitted after the report of a failure does not run");
}

void drop(const orDriver& driver) {
  Gate gate;
  const Stream stream(driver);
  std::atomic<bool> ran{false};
  auto alive = std::make_shared<int>(1);
  OK(launch(driver, stream, gate.body()));
  OK(launch(driver, stream, failing("bad")));
  OK(launch(driver, stream, [&ran, alive] { return ran = true, std::string(); }));
  const Memory memory(driver, 64);
  std::vector<unsigned char> host(64, 3);
  OK(driver.stream_copy(stream, host.data(), memory.get(), 64, orMemcpyDeviceToHost, nullptr));
  gate.open();
  expect_failure(driver.stream_synchronize(stream), "stream_synchronize", "bad");
  OK(driver.device_synchronize(0));
  REQUIRE(!ran, "a kernel that was queued behind a failed kernel ran");
  REQUIRE(host == std::vector<unsigned char>(64, 3), "a copy that was queued behind a failed kernel ran");
  REQUIRE(alive.use_count() == 1, "a kernel that was dropped behind a failed kernel was not released");
}

void other_stream(const orDriver& driver) {
  const Stream bad(driver), good(driver);
  bool ran = false;
  OK(launch(driver, bad, failing("bad")));
  OK(launch(driver, good, [&] { return ran = true, std::string(); }));
  EXPECT(orSuccess, driver.stream_synchronize(good));
  REQUIRE(ran, "a failure on one stream stops another stream");
  expect_failure(driver.stream_synchronize(bad), "stream_synchronize", "bad");
}

void query(const orDriver& driver) {
  require_asynchronous(driver);
  const Stream stream(driver);
  const Event event(driver);
  OK(launch(driver, stream, failing("bad")));
  OK(driver.event_record(event, stream));
  orError_t result = orErrorNotReady;
  while (result == orErrorNotReady) result = driver.stream_query(stream);
  // Queries may report a failure, and do not clear it.
  REQUIRE(result == orSuccess || result == orErrorKernelFailed, "stream_query returned another error");
  EXPECT(result, driver.event_query(event));
  expect_failure(driver.stream_synchronize(stream), "stream_synchronize", "bad");
}

void device(const orDriver& driver) {
  const Stream stream(driver);
  OK(launch(driver, stream, failing("bad")));
  expect_failure(driver.device_synchronize(0), "device_synchronize", "bad");
  EXPECT(orSuccess, driver.device_synchronize(0));
  EXPECT(orSuccess, driver.stream_synchronize(stream));
}

void drain(const orDriver& driver) {
  if (!driver.device_drain) throw Skipped{"no device_drain"};
  Gate gate;
  const Stream stream(driver);
  std::atomic<bool> ran{false};
  OK(launch(driver, stream, gate.body()));
  OK(launch(driver, stream, [&] { return ran = true, std::string(); }));
  OK(launch(driver, stream, failing("bad")));
  gate.open();
  EXPECT(orSuccess, driver.device_drain(0));
  REQUIRE(ran, "device_drain returned before the work was done");
  expect_failure(driver.stream_synchronize(stream), "stream_synchronize", "bad");
}

void event(const orDriver& driver) {
  const Stream stream(driver);
  const Event record(driver);
  OK(launch(driver, stream, failing("bad")));
  OK(driver.event_record(record, stream));
  expect_failure(driver.event_synchronize(record), "event_synchronize", "bad");
  EXPECT(orSuccess, driver.stream_synchronize(stream));
}

// The stream may be destroyed before the event.
void event_of_destroyed_stream(const orDriver& driver) {
  const Event record(driver);
  {
    const Stream stream(driver);
    OK(launch(driver, stream, failing("bad")));
    OK(driver.event_record(record, stream));
  }
  expect_failure(driver.event_synchronize(record), "event_synchronize", "bad");
  EXPECT(orSuccess, driver.event_synchronize(record));
  static_cast<void>(driver.device_synchronize(0));
}

void waiting_stream(const orDriver& driver) {
  Gate gate;
  const Stream first(driver), second(driver);
  const Event record(driver);
  std::atomic<bool> ran{false};
  OK(launch(driver, first, gate.body()));
  OK(launch(driver, first, failing("bad")));
  OK(driver.event_record(record, first));
  OK(driver.stream_wait_event(second, record));
  OK(launch(driver, second, [&] { return ran = true, std::string(); }));
  gate.open();
  expect_failure(driver.stream_synchronize(second), "stream_synchronize", "bad");
  REQUIRE(!ran, "a kernel ran on a stream that waited for an event behind a failed kernel");
  static_cast<void>(driver.device_synchronize(0));
}

void abort_stream(const orDriver& driver) {
  if (!driver.stream_abort) throw Skipped{"no stream_abort"};
  require_asynchronous(driver);
  Gate gate;
  const Stream blocked(driver), stream(driver);
  const Event record(driver);
  std::atomic<bool> started{false}, ran{false};
  OK(launch(driver, blocked, [&] {
    started = true;
    return gate.wait(), std::string();
  }));
  while (!started) std::this_thread::yield();  // else the thread that synchronizes might run it
  OK(driver.event_record(record, blocked));
  OK(driver.stream_wait_event(stream, record));
  OK(launch(driver, stream, [&] { return ran = true, std::string(); }));
  OK(driver.stream_abort(stream, "out of patience"));
  const orError_t error = from_driver(driver.stream_synchronize(stream));
  REQUIRE(error == orErrorKernelFailed, "stream_synchronize returned %s after stream_abort",
          orGetErrorName(error));
  const std::string message = orGetLastErrorMessage();
  REQUIRE(message.find("out of patience") != std::string::npos,
          "the message after stream_abort is '%s'; it has to contain the reason, 'out of patience'",
          message.c_str());
  REQUIRE(!ran, "work that had not started ran after stream_abort");
  OK(launch(driver, stream, [&] { return ran = true, std::string(); }));
  EXPECT(orSuccess, driver.stream_synchronize(stream));
  REQUIRE(ran, "work that was submitted after the report of stream_abort does not run");
  gate.open();
  EXPECT(orSuccess, driver.stream_synchronize(blocked));
}

constexpr Check kChecks[] = {
    {"failure-report", "a failure is reported once, with the kernel's name and message", &report},
    {"failure-drop", "work behind a failure is dropped, and released", &drop},
    {"failure-other-stream", "a failure does not affect other streams", &other_stream},
    {"failure-query", "queries do not clear failures", &query},
    {"failure-device", "device_synchronize reports a failure and clears it", &device},
    {"failure-drain", "device_drain waits, and does not report or clear failures", &drain},
    {"failure-event", "event_synchronize reports a failure before the record", &event},
    {"failure-destroyed-stream", "the failure of a destroyed stream is reported by an event behind it",
     &event_of_destroyed_stream},
    {"failure-waiting-stream", "a stream that waits for an event behind a failure fails too",
     &waiting_stream},
    {"failure-abort", "stream_abort drops work and ends waits, and the stream works again", &abort_stream},
};

}  // namespace

std::span<const Check> failure_checks() {
  return kChecks;
}

}  // namespace openreg::check
