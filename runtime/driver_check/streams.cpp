// Streams: order, queries, synchronization, lifetime, threads.
#include "check.h"

#include <memory>
#include <thread>

namespace openreg::check {
namespace {

void order(const orDriver& driver) {
  constexpr int kLaunches = 2000;
  const Stream stream(driver);
  std::vector<int> seen;
  for (int i = 0; i < kLaunches; ++i) {
    OK(launch(driver, stream, [&seen, i] { return seen.push_back(i), std::string(); }));
  }
  stream.synchronize();
  REQUIRE(seen.size() == kLaunches, "%zu of %d kernels ran", seen.size(), kLaunches);
  for (int i = 0; i < kLaunches; ++i) {
    REQUIRE(seen[static_cast<size_t>(i)] == i, "kernel %d ran as number %d", seen[static_cast<size_t>(i)], i);
  }
}

void synchronize(const orDriver& driver) {
  const Stream stream(driver);
  std::atomic<bool> done{false};
  OK(launch(driver, stream, slow([&] { done = true; })));
  stream.synchronize();
  REQUIRE(done, "stream_synchronize returned before the kernel was done");
}

void query(const orDriver& driver) {
  Gate gate;
  const Stream stream(driver);
  EXPECT(orSuccess, driver.stream_query(stream));
  OK(launch(driver, stream, [] { return std::string(); }));
  stream.synchronize();
  EXPECT(orSuccess, driver.stream_query(stream));
  require_asynchronous(driver);
  OK(launch(driver, stream, gate.body()));
  EXPECT(orErrorNotReady, driver.stream_query(stream));
  gate.open();
  stream.synchronize();
  EXPECT(orSuccess, driver.stream_query(stream));
}

void pending(const orDriver& driver) {
  if (!driver.stream_pending) throw Skipped{"no stream_pending"};
  require_asynchronous(driver);
  Gate gate;
  const Stream stream(driver);
  uint64_t count = 99;
  OK(driver.stream_pending(stream, &count));
  REQUIRE(count == 0, "stream_pending of a new stream is %llu", static_cast<unsigned long long>(count));
  OK(launch(driver, stream, gate.body()));
  for (int i = 0; i < 3; ++i) OK(launch(driver, stream, [] { return std::string(); }));
  OK(driver.stream_pending(stream, &count));
  REQUIRE(count == 4, "stream_pending is %llu with 4 unfinished kernels",
          static_cast<unsigned long long>(count));
  gate.open();
  stream.synchronize();
  OK(driver.stream_pending(stream, &count));
  REQUIRE(count == 0, "stream_pending is %llu after stream_synchronize",
          static_cast<unsigned long long>(count));
}

// Fills and copies only: a device may run host functions of all streams on one thread.
void independence(const orDriver& driver) {
  require_asynchronous(driver);
  Gate gate;
  const Memory memory(driver, 4096);
  const Stream blocked(driver), free(driver);
  OK(launch(driver, blocked, gate.body()));
  std::vector<unsigned char> host(4096);
  OK(driver.stream_fill(free, memory.get(), 7, 4096, nullptr));
  OK(driver.stream_copy(free, host.data(), memory.get(), 4096, orMemcpyDeviceToHost, nullptr));
  free.synchronize();
  REQUIRE(host == std::vector<unsigned char>(4096, 7), "work of a stream was lost while another was blocked");
  EXPECT(orErrorNotReady, driver.stream_query(blocked));
}

void destroy(const orDriver& driver) {
  Gate gate;
  std::atomic<int> done{0};
  {
    const Stream stream(driver);
    OK(launch(driver, stream, gate.body()));
    for (int i = 0; i < 50; ++i) OK(launch(driver, stream, [&] { return ++done, std::string(); }));
  }
  gate.open();
  OK(driver.device_synchronize(0));
  REQUIRE(done == 50, "%d of 50 kernels of a destroyed stream ran before device_synchronize returned",
          done.load());
}

void many(const orDriver& driver) {
  std::vector<std::unique_ptr<Stream>> streams;
  std::atomic<int> done{0};
  streams.reserve(200);
  for (int i = 0; i < 200; ++i) streams.push_back(std::make_unique<Stream>(driver));
  for (const auto& stream : streams) OK(launch(driver, *stream, [&] { return ++done, std::string(); }));
  for (const auto& stream : streams) stream->synchronize();
  REQUIRE(done == 200, "%d of 200 streams ran their kernel", done.load());
}

void priorities(const orDriver& driver) {
  const orDeviceProperties properties = properties_of(driver, 0);
  for (int priority = properties.greatest_priority; priority <= properties.least_priority; ++priority) {
    const Stream stream(driver, 0, priority);
    bool done = false;
    OK(launch(driver, stream, [&] { return done = true, std::string(); }));
    stream.synchronize();
    REQUIRE(done, "a stream with priority %d does not run its kernel", priority);
  }
}

// Memory, copies, kernels and events of eight threads at the same time.
void threads(const orDriver& driver) {
  std::vector<std::thread> all;
  all.reserve(8);
  for (unsigned id = 0; id < 8; ++id) {
    all.emplace_back([&, id] {
      const Stream stream(driver), other(driver);
      const Event event(driver);
      for (unsigned round = 0; round < 50; ++round) {
        const Memory memory(driver, 5000);
        const auto bytes = pattern(5000, id * 1000 + round);
        std::vector<unsigned char> back(5000);
        std::atomic<int> ran{0};
        OK(driver.stream_copy(stream, memory.get(), bytes.data(), 5000, orMemcpyHostToDevice, nullptr));
        OK(launch(driver, stream, [&] { return ++ran, std::string(); }));
        OK(driver.event_record(event, stream));
        OK(driver.stream_wait_event(other, event));
        OK(driver.stream_copy(other, back.data(), memory.get(), 5000, orMemcpyDeviceToHost, nullptr));
        other.synchronize();
        REQUIRE(back == bytes && ran == 1, "8 threads with streams of their own: wrong results");
      }
    });
  }
  for (std::thread& thread : all) thread.join();
}

// Several threads launch on one stream: kernels do not overlap, and those of each thread keep their order.
void shared_stream(const orDriver& driver) {
  const Stream stream(driver);
  std::atomic<int> inside{0}, overlaps{0};
  std::vector<int> seen[4];
  std::vector<std::thread> all;
  all.reserve(4);
  std::atomic<int> rejected{0};
  for (auto& mine : seen) {
    all.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        const orError_t error = launch(driver, stream, [&, i] {
          if (inside++ != 0) ++overlaps;
          mine.push_back(i);
          return --inside, std::string();
        });
        if (error != orSuccess) ++rejected;
      }
    });
  }
  for (std::thread& thread : all) thread.join();
  stream.synchronize();
  REQUIRE(overlaps == 0, "%d kernels of one stream ran while another kernel of it was running",
          overlaps.load());
  REQUIRE(rejected == 0, "%d launches of 4 threads on one stream failed", rejected.load());
  for (const auto& mine : seen) {
    REQUIRE(mine.size() == 500, "%zu of 500 kernels of a thread ran", mine.size());
    for (int i = 0; i < 500; ++i) {
      REQUIRE(mine[static_cast<size_t>(i)] == i,
              "kernels that a thread launched on one stream ran in another order");
    }
  }
}

void schedules(const orDriver& driver) {
  if (!driver.set_schedule) throw Skipped{"no set_schedule"};
  OK(driver.set_schedule(orScheduleBlocking, 0));
  {
    const Stream stream(driver);
    std::atomic<bool> done{false};
    OK(launch(driver, stream, slow([&] { done = true; })));
    REQUIRE(done, "under orScheduleBlocking, stream_launch returned before its kernel was done");
  }
  for (uint64_t seed = 0; seed < 5; ++seed) {
    OK(driver.set_schedule(orScheduleAdversarial, seed));
    order(driver);
  }
  OK(driver.set_schedule(orScheduleAsync, 0));
  order(driver);
}

constexpr Check kChecks[] = {
    {"stream-order", "kernels of a stream run in submission order", &order},
    {"stream-synchronize", "stream_synchronize waits for all submitted work", &synchronize},
    {"stream-query", "stream_query returns orErrorNotReady while work is unfinished, and only then", &query},
    {"stream-pending", "stream_pending counts unfinished work", &pending},
    {"stream-independence", "a blocked stream does not delay copies of another", &independence},
    {"stream-destroy", "work of a destroyed stream still runs", &destroy},
    {"stream-many", "200 streams work at the same time", &many},
    {"stream-priorities", "streams of each priority work", &priorities},
    {"stream-schedules", "the schedules blocking and adversarial keep stream order", &schedules},
    {"thread-streams", "eight threads use memory, streams and events at the same time", &threads},
    {"thread-shared-stream", "four threads launch on one stream", &shared_stream},
};

}  // namespace

std::span<const Check> stream_checks() {
  return kChecks;
}

}  // namespace openreg::check
