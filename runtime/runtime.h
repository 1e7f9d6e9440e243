// The runtime singleton: the driver, its devices, and the live objects on them.
//
// It is created at the first call and leaked: threads and destructors of other libraries may call the runtime
// while the process exits.
//
// Note [Reset]
// A device is closed, open or closing. While it is closing, its handles are invalid and no object can be
// created on it, but calls in progress finish. No lock is held while a thread waits for the device: the wait
// may be for a kernel that allocates.
#pragma once

#include "allocations.h"
#include "entry_points.h"
#include "error.h"
#include "handles.h"
#include "modules.h"
#include "openreg/driver.h"
#include "openreg/kernel_hooks.h"
#include "openreg/openreg.h"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <shared_mutex>

namespace openreg {

struct StreamInfo {
  orDriverStream* driver;
  int device;
  int priority;
  uint64_t id;  // 0: a default stream
};

struct EventInfo {
  orDriverEvent* driver;
  int device;
  unsigned flags;
};

struct GraphInfo {
  orDriverGraph* driver;
  int device;
  size_t nodes;
};

struct DeferredInfo {
  orDriverDeferred* driver;
};

using StreamPin = HandleTable<StreamInfo>::Pin;
using EventPin = HandleTable<EventInfo>::Pin;
using GraphPin = HandleTable<GraphInfo>::Pin;
using DeferredPin = HandleTable<DeferredInfo>::Pin;

struct Device {
  enum class State { kClosed, kOpen, kClosing };

  std::shared_mutex
      state_mutex;  // guards state; calls that create or free objects on the device hold it shared
  State state = State::kClosed;
  std::atomic<uint64_t> default_stream{0};  // 0 unless open
  std::atomic<int> alive{0};                // objects that the driver has not destroyed
  orDeviceProperties properties{};
};

struct Corruption;  // faults.h

class Runtime {
 public:
  /// Returns the runtime, or NULL and sets `error`.
  static Runtime* enter(orError_t& error) {
    error = orSuccess;
    if (Runtime* runtime = enter_ready()) [[likely]]
      return runtime;
    return enter_slow_path(error);
  }
  /// Returns the runtime if it has started and no call is subject to faults, else NULL.
  static Runtime* enter_ready() {
    return state_.load(std::memory_order_acquire) == State::kReady ? instance_ : nullptr;
  }
  /// For a call for which enter_ready returned NULL: applies faults. Returns NULL and sets `error` if the
  /// call must not continue. `corruption` is set if the copy is to be corrupted.
  static Runtime* enter_call(const Call& call, orError_t& error, Corruption* corruption = nullptr);
  /// From now on, calls take the slow path and are subject to faults, or do not. May be called before the
  /// runtime has started.
  static void set_faults(bool present);

  /// True in a child process that was forked after the first use. It must not take a lock of the runtime: a
  /// thread that exists only in the parent may have held it at the fork.
  static bool forked() { return state_.load(std::memory_order_acquire) == State::kForked; }

  const orDriver& driver() const { return driver_; }
  int device_count() const { return device_count_; }
  Device& device(int index) { return devices_[index]; }
  bool has_capability(uint64_t bit) const { return (driver_.capabilities & bit) != 0; }

  [[nodiscard]] orError_t check_device(int index) const;
  /// Fails if `entry` of the driver returned an index that is out of range.
  [[nodiscard]] orError_t check_driver_device(int index, const char* entry) const;
  /// The current device of this thread; fails if it is out of range.
  [[nodiscard]] orError_t current_device(int& index) const;

  /// Opens the device if necessary. The device cannot be reset while `lock` is held.
  [[nodiscard]] orError_t hold_open(int index, std::shared_lock<std::shared_mutex>& lock);
  [[nodiscard]] bool is_open(int index);
  [[nodiscard]] orError_t reset(int index);
  /// Waits for the work of an open device; does not return or clear kernel failures.
  [[nodiscard]] orError_t drain(int index);
  /// Drains every open device: any device may use pinned memory and memory of other processes.
  [[nodiscard]] orError_t drain_all();

  /// The stream, pinned for the duration of a call. NULL is the current device's default stream.
  [[nodiscard]] orError_t pin_stream(orStream_t handle, StreamPin& pin);
  [[nodiscard]] orError_t pin_default_stream(int device, StreamPin& pin);
  /// The live stream with this ID, which orStreamGetId returns. Returns false if there is none.
  [[nodiscard]] bool find_stream(int device, uint64_t id, StreamPin& pin);
  [[nodiscard]] orError_t pin_event(orEvent_t handle, EventPin& pin);
  [[nodiscard]] orError_t pin_graph(orGraph_t handle, GraphPin& pin);
  /// Device and stream of a call; false if its handle is invalid. Opens no device.
  [[nodiscard]] bool locate(const Call& call, CallTarget target, int& device, uint64_t& stream);
  /// True if the stream is captured: submitted work does not run.
  [[nodiscard]] bool captured(const StreamInfo& stream) const {
    orCaptureStatus status = orCaptureNone;
    uint64_t id = 0;
    return driver_.stream_capture_status &&
           driver_.stream_capture_status(stream.driver, &status, &id) == orSuccess && status != orCaptureNone;
  }

  [[nodiscard]] orError_t create_stream(int device, int priority, uint64_t& handle);
  [[nodiscard]] orError_t create_event(int device, unsigned flags, uint64_t& handle);
  /// Opens an event of another process.
  [[nodiscard]] orError_t open_event(const orIpcEventHandle_t& shared, uint64_t& handle);
  [[nodiscard]] orError_t destroy_stream(orStream_t handle);
  [[nodiscard]] orError_t destroy_event(orEvent_t handle);
  [[nodiscard]] orError_t add_graph(const GraphInfo& info, uint64_t& handle);
  [[nodiscard]] orError_t destroy_graph(orGraph_t handle);
  [[nodiscard]] orError_t defer_kernel(uint64_t& handle);
  [[nodiscard]] orError_t finish_kernel(orDeferred_t handle, orError_t result, const char* why);

  [[nodiscard]] orError_t set_schedule(orSchedule schedule, uint64_t seed);
  void schedule(orSchedule& schedule, uint64_t& seed);

  /// Once, and before a device is open; see openreg/kernel_hooks.h.
  [[nodiscard]] orError_t set_kernel_hooks(const orKernelHooks& hooks);

  /// After this call, forked children get orErrorForked.
  void mark_used() { used_.store(true, std::memory_order_relaxed); }

  /// Fails unless the driver has device code.
  [[nodiscard]] orError_t check_device_code(const char* function) const;
  [[nodiscard]] orError_t load_module(int device, const void* image, size_t size, uint64_t& handle);

  Allocations allocations;
  Modules modules;
  /// Held while memory of other processes is opened or closed, so that the state of the driver and
  /// `allocations` change together. No thread waits for work while it holds this lock.
  std::mutex import_mutex;
  /// Set by the first copy between devices. From then on, streams of any device may use the memory of
  /// another.
  std::atomic<bool> peer_copies{false};

 private:
  enum class State { kUnused, kReady, kFaults, kBroken, kForked };

  Runtime();
  static Runtime* enter_slow_path(orError_t& error);
  void start();
  static void update_faults();
  [[nodiscard]] orError_t start_driver();
  [[nodiscard]] orError_t schedule_from_environment();
  [[nodiscard]] orError_t open_locked(int index);
  [[nodiscard]] orError_t make_stream(int device, int priority, uint64_t id, uint64_t& handle);
  [[nodiscard]] orError_t add_event(const EventInfo& info, uint64_t& handle);
  static void before_fork();
  static void after_fork_in_parent();
  static void after_fork_in_child();

  static std::atomic<State> state_;
  static Runtime* instance_;
  static std::mutex start_mutex_;    // guards the start; held during fork
  static std::atomic<bool> faults_;  // calls are subject to faults

  orDriver driver_{};              // a copy; entries that an older, shorter table lacks are NULL
  bool has_kernel_hooks_ = false;  // guarded by start_mutex_
  int device_count_ = 0;
  Device* devices_ = nullptr;
  std::atomic<bool> used_{false};
  std::atomic<uint64_t> next_stream_id_{1};
  HandleTable<StreamInfo> streams_;
  HandleTable<EventInfo> events_;
  HandleTable<GraphInfo> graphs_;
  HandleTable<DeferredInfo> deferred_;
  std::mutex schedule_mutex_;  // guards the two below
  orSchedule schedule_ = orScheduleAsync;
  uint64_t seed_ = 0;
  orError_t broken_code_ = orSuccess;  // error of a failed start; constant afterwards
  char broken_message_[1024] = {};
};

/// The current device of this thread; not checked against the device count.
int& thread_device();

inline orStream_t as_stream(uint64_t handle) {
  return reinterpret_cast<orStream_t>(handle);
}
inline orEvent_t as_event(uint64_t handle) {
  return reinterpret_cast<orEvent_t>(handle);
}
inline orGraph_t as_graph(uint64_t handle) {
  return reinterpret_cast<orGraph_t>(handle);
}
inline orDeferred_t as_deferred(uint64_t handle) {
  return reinterpret_cast<orDeferred_t>(handle);
}

/// Checks the struct_size that the caller set. The struct of a newer caller may be longer.
[[nodiscard]] orError_t check_struct_size(const char* function, const char* type, uint32_t given,
                                          size_t known);

/// Wraps the body of an extern "C" function that uses the runtime.
template <typename Body>
[[nodiscard]] orError_t with_runtime(Call call, Body&& body) noexcept {
  return noexcept_boundary([&]() -> orError_t {
    Runtime* runtime = Runtime::enter_ready();
    if (!runtime) [[unlikely]] {
      orError_t error = orSuccess;
      const Call written = call;  // only here, so that `call` stays in registers
      runtime = Runtime::enter_call(written, error);
      if (!runtime) return error;
    }
    return body(*runtime);
  });
}

}  // namespace openreg
