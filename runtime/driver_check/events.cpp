// Events: records, waits, timing.
#include "check.h"

#include <cmath>

namespace openreg::check {
namespace {

void unrecorded(const orDriver& driver) {
  const Event event(driver);
  EXPECT(orSuccess, driver.event_query(event));
  EXPECT(orSuccess, driver.event_synchronize(event));
  const Stream stream(driver);
  OK(driver.stream_wait_event(stream, event));
  stream.synchronize();
}

void query(const orDriver& driver) {
  require_asynchronous(driver);
  Gate gate;
  const Stream stream(driver);
  const Event event(driver);
  OK(launch(driver, stream, gate.body()));
  OK(driver.event_record(event, stream));
  EXPECT(orErrorNotReady, driver.event_query(event));
  gate.open();
  EXPECT(orSuccess, driver.event_synchronize(event));
  EXPECT(orSuccess, driver.event_query(event));
}

void synchronize(const orDriver& driver) {
  const Stream stream(driver);
  const Event event(driver);
  std::atomic<bool> done{false};
  OK(launch(driver, stream, slow([&] { done = true; })));
  OK(driver.event_record(event, stream));
  OK(driver.event_synchronize(event));
  REQUIRE(done, "event_synchronize returned before a kernel before the record was done");
  stream.synchronize();
}

// Work behind the record does not delay it.
void position(const orDriver& driver) {
  require_asynchronous(driver);
  Gate gate;
  const Stream stream(driver);
  const Event event(driver);
  OK(driver.event_record(event, stream));
  OK(launch(driver, stream, gate.body()));
  EXPECT(orSuccess, driver.event_synchronize(event));
  gate.open();
  stream.synchronize();
}

void wait(const orDriver& driver) {
  if (asynchronous(driver)) {
    const Stream first(driver), second(driver);
    const Event event(driver);
    Gate gate;
    std::atomic<bool> early{false};
    OK(launch(driver, first, gate.body()));
    OK(driver.event_record(event, first));
    OK(driver.stream_wait_event(second, event));
    OK(launch(driver, second, [&] { return early = true, std::string(); }));
    REQUIRE(!becomes_set(early), "a kernel ran before the event for which its stream waits");
    gate.open();
    second.synchronize();
  }
  for (int round = 0; round < 50; ++round) {
    const Stream first(driver), second(driver);
    const Event event(driver);
    Gate gate;
    std::atomic<bool> done{false};
    bool ordered = false;
    OK(launch(driver, first, gate.body()));
    OK(launch(driver, first, [&] { return done = true, std::string(); }));
    OK(driver.event_record(event, first));
    OK(driver.stream_wait_event(second, event));
    OK(launch(driver, second, [&] { return ordered = done, std::string(); }));
    gate.open();
    second.synchronize();
    REQUIRE(ordered, "a kernel ran before the event for which its stream waits");
  }
}

// A wait uses the record that is the latest at the call, also if the event is recorded again.
void wait_latest(const orDriver& driver) {
  require_asynchronous(driver);
  Gate gate;
  const Memory memory(driver, 64);
  const Stream first(driver), blocked(driver), second(driver);
  const Event event(driver);
  OK(driver.event_record(event, first));
  OK(driver.stream_wait_event(second, event));
  OK(launch(driver, blocked, gate.body()));
  OK(driver.event_record(event, blocked));
  OK(driver.stream_fill(second, memory.get(), 1, 64, nullptr));
  second.synchronize();  // hangs if the wait uses the later record
  EXPECT(orErrorNotReady, driver.event_query(event));
  gate.open();
  OK(driver.event_synchronize(event));
}

void lifetime(const orDriver& driver) {
  Gate gate;
  const Stream first(driver), second(driver);
  std::atomic<bool> done{false};
  bool ordered = false;
  OK(launch(driver, first, gate.body()));
  OK(launch(driver, first, [&] { return done = true, std::string(); }));
  {
    const Event event(driver);
    OK(driver.event_record(event, first));
    OK(driver.stream_wait_event(second, event));
  }  // destroyed while a stream waits for its record
  OK(launch(driver, second, [&] { return ordered = done, std::string(); }));
  gate.open();
  second.synchronize();
  REQUIRE(ordered, "a stream does not wait for the record of an event that was destroyed after the call");
}

void timing(const orDriver& driver) {
  if (!(driver.capabilities & OR_CAP_TIMING)) throw Skipped{"no OR_CAP_TIMING"};
  const Stream stream(driver);
  const Event start(driver, 0, orEventDefault), end(driver, 0, orEventDefault);
  float elapsed = -1;
  if (asynchronous(driver)) {
    Gate gate;
    OK(driver.event_record(start, stream));
    OK(launch(driver, stream, gate.body()));
    OK(driver.event_record(end, stream));
    EXPECT(orErrorNotReady, driver.event_elapsed(start, end, &elapsed));
    gate.open();
    stream.synchronize();
  }
  double inside = 0;
  const int64_t before = now_ns();
  OK(driver.event_record(start, stream));
  OK(launch(driver, stream, [&] {
    const int64_t begin = now_ns();
    while (now_ns() - begin < 2'000'000) {
    }
    inside = static_cast<double>(now_ns() - begin) * 1e-6;
    return std::string();
  }));
  OK(driver.event_record(end, stream));
  stream.synchronize();
  const double around = static_cast<double>(now_ns() - before) * 1e-6;
  OK(driver.event_elapsed(start, end, &elapsed));
  REQUIRE(elapsed > inside * 0.9 - 0.1 && elapsed < around * 1.1 + 0.1,
          "event_elapsed is %f ms around a kernel of %f ms, in %f ms of the host's clock",
          static_cast<double>(elapsed), inside, around);
}

constexpr Check kChecks[] = {
    {"event-unrecorded", "an event without a record is complete", &unrecorded},
    {"event-query", "event_query returns orErrorNotReady until the record is reached", &query},
    {"event-synchronize", "event_synchronize waits for the work before the record", &synchronize},
    {"event-position", "work behind a record does not delay it", &position},
    {"event-wait", "stream_wait_event orders the work of two streams", &wait},
    {"event-wait-latest", "a wait uses the latest record at the call", &wait_latest},
    {"event-lifetime", "a wait survives its event", &lifetime},
    {"event-timing", "event_elapsed measures the work between two records", &timing},
};

}  // namespace

std::span<const Check> event_checks() {
  return kChecks;
}

}  // namespace openreg::check
