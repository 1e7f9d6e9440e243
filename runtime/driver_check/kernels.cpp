// Kernels that are host functions: arguments, releases, observers, synchronous and deferred kernels.
#include "check.h"

#include <algorithm>
#include <cstring>

namespace openreg::check {
namespace {

struct Counters {
  std::atomic<int> runs{0};
  std::atomic<int> releases{0};
  std::atomic<int> early_releases{0};  // before the run
};

struct Args {
  Counters* counters;
  unsigned char bytes[1000];
  unsigned char expected;
};

constexpr orKernel kCount = {"count",
                             [](void* given, char* why, size_t) -> orError_t {
                               auto& args = *static_cast<Args*>(given);
                               if (args.counters->releases != 0) ++args.counters->early_releases;
                               ++args.counters->runs;
                               const auto differs = [&](unsigned char byte) { return byte != args.expected; };
                               if (!std::ranges::any_of(args.bytes, differs)) return orSuccess;
                               std::strcpy(why, "the argument block has changed");
                               return orErrorInvalidValue;
                             },
                             [](void* args) { ++static_cast<Args*>(args)->counters->releases; }};

void arguments(const orDriver& driver) {
  Gate gate;
  const Stream stream(driver);
  Counters counters;
  Args args{&counters, {}, 1};
  std::memset(args.bytes, 1, sizeof(args.bytes));
  OK(launch(driver, stream, gate.body()));
  OK(driver.stream_launch(stream, &kCount, &args, sizeof(args), nullptr));
  std::memset(args.bytes, 2, sizeof(args.bytes));  // the launch has a copy
  gate.open();
  EXPECT(orSuccess, driver.stream_synchronize(stream));
  REQUIRE(counters.runs == 1, "the kernel ran %d times", counters.runs.load());
}

void release(const orDriver& driver) {
  const Stream stream(driver);
  Counters counters[100];
  for (Counters& one : counters) {
    Args args{&one, {}, 0};
    OK(driver.stream_launch(stream, &kCount, &args, sizeof(args), nullptr));
  }
  stream.synchronize();
  // A release may follow the end of its kernel; the end of the device's work orders both.
  OK(driver.device_synchronize(0));
  for (const Counters& one : counters) {
    REQUIRE(one.runs == 1 && one.releases == 1 && one.early_releases == 0,
            "a kernel ran %d times and was released %d times, %d times before its run", one.runs.load(),
            one.releases.load(), one.early_releases.load());
  }
}

struct Observed {
  std::atomic<int> calls{0};
  std::atomic<bool> work_done{false};
  std::atomic<bool> before_work{false};
  int64_t start_ns = 0, end_ns = 0;
  orError_t result = orErrorSystem;

  static void done(void* user, int64_t start_ns, int64_t end_ns, orError_t result) {
    auto& seen = *static_cast<Observed*>(user);
    seen.start_ns = start_ns, seen.end_ns = end_ns, seen.result = result;
    if (!seen.work_done) seen.before_work = true;
    ++seen.calls;
  }
};

void observe(const orDriver& driver, const char* what, bool kernel,
             const std::function<orError_t(orDriverStream*, const orObserver*, Observed&)>& submit) {
  const Stream stream(driver);
  Observed seen;
  const int64_t before = now_ns();
  {
    orObserver observer = {&Observed::done, &seen};
    OK(submit(stream, &observer, seen));
    observer = {};  // the driver has a copy
  }
  stream.synchronize();
  OK(driver.device_synchronize(0));
  const int64_t after = now_ns();
  REQUIRE(seen.calls == 1, "%s: the observer was called %d times", what, seen.calls.load());
  REQUIRE(seen.result == orSuccess, "%s: the observer got the code %d", what, static_cast<int>(seen.result));
  REQUIRE(!kernel || !seen.before_work, "%s: the observer was called before the work was done", what);
  REQUIRE(before <= seen.start_ns && seen.start_ns <= seen.end_ns && seen.end_ns <= after,
          "%s: the observer got the times %lld to %lld, outside of %lld to %lld (CLOCK_MONOTONIC)", what,
          static_cast<long long>(seen.start_ns), static_cast<long long>(seen.end_ns),
          static_cast<long long>(before), static_cast<long long>(after));
}

void observers(const orDriver& driver) {
  const Memory memory(driver, 4096);
  const auto bytes = pattern(4096);
  observe(driver, "stream_launch", true,
          [&](orDriverStream* stream, const orObserver* observer, Observed& seen) {
            return launch(driver, stream, [&] { return seen.work_done = true, std::string(); }, observer);
          });
  observe(driver, "stream_copy", false, [&](orDriverStream* stream, const orObserver* observer, Observed&) {
    return driver.stream_copy(stream, memory.get(), bytes.data(), 4096, orMemcpyHostToDevice, observer);
  });
  observe(driver, "stream_fill", false, [&](orDriverStream* stream, const orObserver* observer, Observed&) {
    return driver.stream_fill(stream, memory.get(), 1, 4096, observer);
  });
}

void run(const orDriver& driver) {
  if (!driver.stream_run) throw Skipped{"no stream_run"};
  const Stream stream(driver);
  std::atomic<int> before{0};
  OK(launch(driver, stream, slow([&] { before = 1; })));
  struct {
    std::atomic<int>* before;
    int seen;
  } args = {&before, -1};
  const orKernel kernel = {"run",
                           [](void* given, char*, size_t) {
                             auto* block = static_cast<decltype(args)*>(given);
                             block->seen = *block->before;
                             return orSuccess;
                           },
                           nullptr};
  OK(driver.stream_run(stream, &kernel, &args, nullptr));
  REQUIRE(args.seen == 1, "stream_run %s",
          args.seen < 0 ? "returned before its kernel ran, or copied the arguments"
                        : "ran its kernel before earlier work of the stream");
  const orKernel failing = {"failing",
                            [](void*, char* why, size_t) {
                              std::strcpy(why, "on purpose");
                              return orErrorInvalidValue;
                            },
                            nullptr};
  EXPECT(orErrorKernelFailed, driver.stream_run(stream, &failing, nullptr, nullptr));
  EXPECT(orSuccess, driver.stream_synchronize(stream));  // the failure was returned and does not stay
}

void deferred(const orDriver& driver) {
  if (!driver.kernel_defer) throw Skipped{"no kernel_defer"};
  require_asynchronous(driver);
  const Stream stream(driver);
  std::atomic<orDriverDeferred*> handle{nullptr};
  std::atomic<bool> later{false};
  orError_t error = orErrorSystem;
  OK(launch(driver, stream, [&] {
    orDriverDeferred* made = nullptr;
    error = driver.kernel_defer(&made);
    handle = made;
    handle.notify_all();
    return std::string();
  }));
  OK(launch(driver, stream, [&] { return later = true, std::string(); }));
  handle.wait(nullptr);
  expect(error, orSuccess, "kernel_defer");
  REQUIRE(!becomes_set(later), "work behind a deferred kernel ran before kernel_finish");
  EXPECT(orErrorNotReady, driver.stream_query(stream));
  OK(driver.kernel_finish(handle, orSuccess, nullptr));
  stream.synchronize();
  REQUIRE(later, "work behind a deferred kernel did not run after kernel_finish");
}

constexpr Check kChecks[] = {
    {"kernel-arguments", "a launch copies the argument block", &arguments},
    {"kernel-release", "each kernel runs once, then is released once", &release},
    {"kernel-observer", "the observer is copied, and called once with the times of the work", &observers},
    {"kernel-run", "stream_run runs in stream order, without a copy, and returns the failure", &run},
    {"kernel-deferred", "a deferred kernel ends with kernel_finish", &deferred},
};

}  // namespace

std::span<const Check> kernel_checks() {
  return kChecks;
}

}  // namespace openreg::check
