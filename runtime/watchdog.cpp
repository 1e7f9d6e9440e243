#include "watchdog.h"

#include "fault_work.h"
#include "trace.h"
#include "watched_streams.h"

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <thread>

namespace openreg {
namespace {

using Clock = WatchedStreams::Clock;

class Watchdog {
 public:
  static Watchdog& instance() {
    static auto* made = new Watchdog;
    return *made;
  }

  orWatchdogOptions set(const orWatchdogOptions& options) {
    std::lock_guard lock(mutex_);
    const orWatchdogOptions before = options_;
    options_ = options;
    ++changes_;
    const bool on = options.limit_ns != 0;
    if (on != (before.limit_ns != 0)) {
      WatchedStreams::instance().restart(on);
      watch_traced_work(on);
    } else {
      WatchedStreams::instance().report_again();
    }
    changed_.notify_all();
    return before;
  }

  void set_hooks(const orWatchdogHooks& hooks) {
    std::lock_guard lock(hooks_mutex_);
    hooks_ = hooks;
  }
  orWatchdogHooks hooks() {
    std::lock_guard lock(hooks_mutex_);
    return hooks_;
  }

  void ensure_thread() {
    if (has_thread_.load(std::memory_order_relaxed) || has_thread_.exchange(true)) return;
    std::thread([this] { run(); }).detach();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (options_.limit_ns == 0) {
        changed_.wait(lock);
        continue;
      }
      const std::chrono::nanoseconds period(options_.limit_ns / 8);
      const uint64_t changes = changes_;
      changed_.wait_for(
          lock, std::clamp<Clock::duration>(period, std::chrono::milliseconds(5), std::chrono::seconds(1)));
      if (changes_ != changes) continue;
      const std::chrono::nanoseconds limit(options_.limit_ns);
      const bool fail_streams = options_.fail_streams != 0;
      lock.unlock();
      check(limit, fail_streams);
      lock.lock();
      if (changes_ != changes) WatchedStreams::instance().report_again();  // with the new options
    }
  }

  void check(Clock::duration limit, bool fail_streams) {
    orError_t error;
    Runtime* runtime = Runtime::enter(error);
    if (!runtime) return;
    const std::vector<StalledStream> stalled = WatchedStreams::instance().stalled(limit, *runtime);
    if (stalled.empty()) return;
    std::string text;
    for (const StalledStream& stream : stalled) {
      text += std::string(orGetDeviceName()) + ": watchdog: " + stream.text;
    }
    const orWatchdogHooks installed = hooks();
    if (installed.report) {
      installed.report(text.c_str());
    } else {
      std::fputs(text.c_str(), stderr);
    }
    if (!fail_streams) return;
    for (const StalledStream& stream : stalled) fail_stream(*runtime, stream);
  }

  static void fail_stream(Runtime& runtime, const StalledStream& stalled) {
    const std::string why = "failed by the watchdog: " + stalled.text.substr(0, stalled.text.size() - 1);
    StreamPin pin;
    if (runtime.driver().stream_abort && runtime.find_stream(stalled.device, stalled.stream, pin) &&
        runtime.driver().stream_abort(pin->driver, why.c_str()) == orSuccess) {
      WatchedStreams::instance().waits_abandoned(stalled.device, stalled.stream);
    }
    fail_held(stalled.device, stalled.stream, why);
  }

  std::mutex mutex_;  // guards options_ and changes_
  std::condition_variable changed_;
  orWatchdogOptions options_{sizeof(orWatchdogOptions), 0, 0};
  uint64_t changes_ = 0;    // of options_
  std::mutex hooks_mutex_;  // guards hooks_
  orWatchdogHooks hooks_{};
  std::atomic<bool> has_thread_{false};
};

}  // namespace

std::string hooked_text(void (*orWatchdogHooks::*hook)(char*, size_t)) {
  char text[512] = "";
  const orWatchdogHooks hooks = Watchdog::instance().hooks();
  if (hooks.*hook) (hooks.*hook)(text, sizeof(text));
  return text;
}

void ensure_watchdog_thread() {
  Watchdog::instance().ensure_thread();
}

}  // namespace openreg

using namespace openreg;

extern "C" {

orError_t orWatchdogSet(const orWatchdogOptions* options, orWatchdogOptions* before) {
  if (!options) return fail(orErrorInvalidValue, "orWatchdogSet: options is NULL");
  return noexcept_boundary([&]() -> orError_t {
    OR_RETURN_IF_ERROR(check_struct_size("orWatchdogSet", "orWatchdogOptions", options->struct_size,
                                         sizeof(orWatchdogOptions)));
    if (before) {
      OR_RETURN_IF_ERROR(check_struct_size("orWatchdogSet", "orWatchdogOptions", before->struct_size,
                                           sizeof(orWatchdogOptions)));
    }
    orWatchdogOptions known = *options;
    known.struct_size = sizeof(known);
    known.limit_ns = std::min<uint64_t>(known.limit_ns, INT64_MAX / 2);  // as a duration
    const orWatchdogOptions previous = Watchdog::instance().set(known);
    if (before) *before = previous;
    return orSuccess;
  });
}

orError_t orWatchdogSetHooks(const orWatchdogHooks* hooks) {
  return noexcept_boundary([&]() -> orError_t {
    if (hooks) {
      OR_RETURN_IF_ERROR(check_struct_size("orWatchdogSetHooks", "orWatchdogHooks", hooks->struct_size,
                                           sizeof(orWatchdogHooks)));
    }
    Watchdog::instance().set_hooks(hooks ? *hooks : orWatchdogHooks{});
    return orSuccess;
  });
}

}  // extern "C"
