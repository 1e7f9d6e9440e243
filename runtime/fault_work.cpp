#include "fault_work.h"

#include "fault_rules.h"
#include "run.h"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <map>
#include <mutex>
#include <pthread.h>
#include <thread>
#include <utility>
#include <vector>

namespace openreg {
namespace {

using Clock = std::chrono::steady_clock;

// The argument block of kHold.
struct HeldStream {
  HoldTime time;
  int device;
  uint64_t stream;
};

// Threads that wait, and deferred kernels, which occupy no thread. Created at first use and leaked. Lock
// order: this lock, then that of FaultRules; at a fork, too.
class Holds {
 public:
  static Holds& instance() {
    static Holds* made = [] {
      FaultRules::instance();  // before: pthread_atfork locks in reverse order
      auto* created = new Holds;
      pthread_atfork([] { instance().mutex_.lock(); }, [] { instance().mutex_.unlock(); },
                     [] { instance().mutex_.unlock(); });
      return created;
    }();
    return *made;
  }

  void wait(HoldTime time) {
    std::unique_lock lock(mutex_);
    if (time.nanoseconds == HoldTime::kUntilReleased) {
      changed_.wait(lock, [&] { return is_released(time); });
      return;
    }
    const auto until = Clock::now() + std::chrono::nanoseconds(time.nanoseconds);
    while (Clock::now() < until) changed_.wait_until(lock, until);
  }

  void add(orDriverDeferred* kernel, const HeldStream& held) {
    const HoldTime& time = held.time;
    std::unique_lock lock(mutex_);
    if (time.nanoseconds != HoldTime::kUntilReleased) {
      timed_.emplace(Clock::now() + std::chrono::nanoseconds(time.nanoseconds), kernel);
      if (!std::exchange(has_timer_, true)) std::thread([this] { run_timer(); }).detach();
      changed_.notify_all();
    } else if (is_released(time)) {
      lock.unlock();
      finish({kernel});
    } else {
      deferred_.push_back({held, kernel});
    }
  }

  void continue_released() {
    std::vector<orDriverDeferred*> ready;
    {
      std::lock_guard lock(mutex_);
      std::erase_if(deferred_, [&](const Deferred& held) {
        if (!is_released(held.stream.time)) return false;
        ready.push_back(held.kernel);
        return true;
      });
      changed_.notify_all();
    }
    finish(ready);
  }

  void fail(int device, uint64_t stream, const std::string& why) {
    std::vector<orDriverDeferred*> failed;
    {
      std::lock_guard lock(mutex_);
      std::erase_if(deferred_, [&](const Deferred& held) {
        if (held.stream.device != device || held.stream.stream != stream) return false;
        failed.push_back(held.kernel);
        return true;
      });
    }
    finish(failed, orErrorKernelFailed, why.c_str());
  }

 private:
  struct Deferred {
    HeldStream stream;
    orDriverDeferred* kernel;
  };

  static bool is_released(const HoldTime& time) {
    return FaultRules::instance().is_released(time.set, time.epoch);
  }

  // The driver continues the streams, and may run their work here, so no lock is held.
  static void finish(const std::vector<orDriverDeferred*>& kernels, orError_t result = orSuccess,
                     const char* why = nullptr) {
    orError_t error;
    Runtime* runtime = Runtime::enter(error);
    if (!runtime) return;
    for (orDriverDeferred* kernel : kernels) {
      static_cast<void>(runtime->driver().kernel_finish(kernel, result, why));
    }
  }

  void run_timer() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (timed_.empty()) {
        changed_.wait(lock);
        continue;
      }
      const auto due = timed_.begin()->first;
      if (Clock::now() < due) {
        changed_.wait_until(lock, due);
        continue;
      }
      orDriverDeferred* kernel = timed_.begin()->second;
      timed_.erase(timed_.begin());
      lock.unlock();
      finish({kernel});
      lock.lock();
    }
  }

  std::mutex mutex_;  // guards everything below; held during fork
  std::condition_variable changed_;
  bool has_timer_ = false;
  std::vector<Deferred> deferred_;
  std::multimap<Clock::time_point, orDriverDeferred*> timed_;
};

// A kernel of orRunKernel and of graphs cannot be deferred, nor can one of a driver without that entry.
orError_t run_hold(void* args, char*, size_t) {
  const auto& held = *static_cast<const HeldStream*>(args);
  orError_t error;
  Runtime* runtime = Runtime::enter(error);
  if (!runtime) return orSuccess;
  orDriverDeferred* deferred = nullptr;
  if (runtime->driver().kernel_defer && runtime->driver().kernel_defer(&deferred) == orSuccess) {
    Holds::instance().add(deferred, held);
    return orSuccess;
  }
  report_from_driver("");  // drops the driver's message: this is not an error
  Holds::instance().wait(held.time);
  return orSuccess;
}

constexpr orKernel kHold = {"fault: held", &run_hold, nullptr};

orError_t run_failing(void* args, char* why, size_t why_size) {
  std::snprintf(why, why_size, "%s", (*static_cast<const std::string**>(args))->c_str());
  return orErrorKernelFailed;
}

void release_failing(void* args) {
  delete *static_cast<const std::string**>(args);
}

// Kernels must outlive their launches, and have the names of those that they replace.
const orKernel& failing_kernel(const char* name) {
  static auto* mutex = new std::mutex;
  static auto* kernels = new std::map<std::string, orKernel>;
  std::lock_guard lock(*mutex);
  const auto [entry, is_new] = kernels->try_emplace(name ? name : "");
  if (is_new) entry->second = {entry->first.c_str(), &run_failing, &release_failing};
  return entry->second;
}

// Bytes on their way between two copies. Kept for ever: a graph may use them at any time.
unsigned char* staging_byte() {
  static auto* mutex = new std::mutex;
  static auto* bytes = new std::deque<unsigned char>;
  std::lock_guard lock(*mutex);
  return &bytes->emplace_back();
}

struct Flip {
  unsigned char* byte;
  unsigned char mask;
};

orError_t run_flip(void* args, char*, size_t) {
  const auto& flip = *static_cast<const Flip*>(args);
  *flip.byte ^= flip.mask;
  return orSuccess;
}

constexpr orKernel kFlip = {"fault: flipped bit", &run_flip, nullptr};

}  // namespace

void hold_thread(HoldTime time) {
  Holds::instance().wait(time);
}

orError_t hold_stream(Runtime& runtime, const StreamInfo& stream, HoldTime time, const char* name) {
  const HeldStream held = {time, stream.device, stream.id};
  const std::string reported = std::string(kHold.name) + " before " + name;
  TracedWork* work = nullptr;
  if (!runtime.captured(stream)) {
    work = TracedWork::begin_watched("a fault rule", reported.c_str(), stream.device, stream.id);
  }
  const orObserver observer = work ? work->observer() : orObserver{};
  const orError_t error = from_driver(
      runtime.driver().stream_launch(stream.driver, &kHold, &held, sizeof(held), work ? &observer : nullptr));
  if (error && work) work->rejected(error);
  return error;
}

void fail_held(int device, uint64_t stream, const std::string& why) {
  Holds::instance().fail(device, stream, why);
}

void continue_released() {
  Holds::instance().continue_released();
}

orError_t submit_failure(Runtime& runtime, const StreamInfo& stream, const char* name,
                         const std::string& why) {
  const auto* args = new std::string(why);
  const orError_t error = from_driver(
      runtime.driver().stream_launch(stream.driver, &failing_kernel(name), &args, sizeof(args), nullptr));
  if (error) delete args;
  return error;
}

orError_t run_failure(Runtime& runtime, const StreamInfo& stream, const char* name, const std::string& why) {
  // The kernel need not outlive the call, and its block is not released if it does not run.
  const orKernel kernel = {name ? name : "", &run_failing, nullptr};
  const std::string* args = &why;
  return run_now(runtime, stream, kernel, &args, nullptr);
}

orError_t flip_bit(Runtime& runtime, const StreamInfo& stream, void* address, unsigned bit, bool on_device) {
  const orDriver& driver = runtime.driver();
  const auto mask = static_cast<unsigned char>(1u << bit);
  if (!on_device) {
    const Flip flip = {static_cast<unsigned char*>(address), mask};
    return from_driver(driver.stream_launch(stream.driver, &kFlip, &flip, sizeof(flip), nullptr));
  }
  const Flip flip = {staging_byte(), mask};
  OR_RETURN_IF_ERROR(
      from_driver(driver.stream_copy(stream.driver, flip.byte, address, 1, orMemcpyDeviceToHost, nullptr)));
  OR_RETURN_IF_ERROR(from_driver(driver.stream_launch(stream.driver, &kFlip, &flip, sizeof(flip), nullptr)));
  return from_driver(driver.stream_copy(stream.driver, address, flip.byte, 1, orMemcpyHostToDevice, nullptr));
}

}  // namespace openreg
