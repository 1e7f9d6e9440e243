// The runtime's one object: the driver, its devices, and what is alive on them.
//
// It is created at the first call, leaked, and never torn down: threads and other libraries' destructors may
// still call while the process exits.
//
// Note [Reset]
// A device is closed, open or closing. While it is closing its handles are unknown and nothing new can be
// made on it, but calls that are in flight finish. No lock is held while something waits for the device: what
// is waited for may be a kernel that allocates.
#pragma once

#include "allocations.h"
#include "error.h"
#include "handles.h"
#include "openreg/driver.h"
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

using StreamPin = HandleTable<StreamInfo>::Pin;
using EventPin = HandleTable<EventInfo>::Pin;
using GraphPin = HandleTable<GraphInfo>::Pin;

struct Device {
  enum class State { kClosed, kOpen, kClosing };

  std::shared_mutex state_mutex;  // guards state; shared by calls that make or free something on the device
  State state = State::kClosed;
  std::atomic<uint64_t> default_stream{0};  // 0 unless open
  std::atomic<int> alive{0};                // streams, events and graphs that the driver still has
  orDeviceProperties properties{};
};

class Runtime {
 public:
  static constexpr int kMaxDevices = 256;

  /// The runtime, if calls may proceed; else an error is left in `error`.
  static Runtime* enter(orError_t& error) {
    error = orSuccess;
    if (state_.load(std::memory_order_acquire) == State::kReady) [[likely]]
      return instance_;
    return enter_slowly(error);
  }

  /// A child that was forked after the first use. No lock of ours may be taken there: a thread that the child
  /// does not have may have held it.
  static bool forked() { return state_.load(std::memory_order_acquire) == State::kForked; }

  const orDriver& driver() const { return driver_; }
  int device_count() const { return device_count_; }
  Device& device(int index) { return devices_[index]; }
  bool has_capability(uint64_t bit) const { return (driver_.capabilities & bit) != 0; }

  [[nodiscard]] orError_t check_device(int index) const;
  /// This thread's current device, which exists.
  [[nodiscard]] orError_t current_device(int& index) const;

  /// Holds the device open: it is opened if need be, and cannot be reset while the lock is held.
  [[nodiscard]] orError_t hold_open(int index, std::shared_lock<std::shared_mutex>& lock);
  [[nodiscard]] bool is_open(int index);
  [[nodiscard]] orError_t reset(int index);
  /// Waits for the open device's work, and leaves its failures to those who synchronize.
  [[nodiscard]] orError_t drain(int index);
  /// As above, for every open device: pinned memory and memory of other processes belong to no one of them.
  [[nodiscard]] orError_t drain_all();

  /// The stream, pinned for the duration of a call. NULL is the current device's default stream.
  [[nodiscard]] orError_t pin_stream(orStream_t handle, StreamPin& pin);
  [[nodiscard]] orError_t pin_default_stream(int device, StreamPin& pin);
  [[nodiscard]] orError_t pin_event(orEvent_t handle, EventPin& pin);
  [[nodiscard]] orError_t pin_graph(orGraph_t handle, GraphPin& pin);
  /// Whether what the stream is given is captured and does not run.
  [[nodiscard]] bool captured(const StreamInfo& stream) const {
    orCaptureStatus status = orCaptureNone;
    uint64_t id = 0;
    return driver_.stream_capture_status &&
           driver_.stream_capture_status(stream.driver, &status, &id) == orSuccess && status != orCaptureNone;
  }

  [[nodiscard]] orError_t create_stream(int device, int priority, uint64_t& handle);
  [[nodiscard]] orError_t create_event(int device, unsigned flags, uint64_t& handle);
  /// An event of another process, for this one.
  [[nodiscard]] orError_t open_event(const orIpcEventHandle_t& shared, uint64_t& handle);
  [[nodiscard]] orError_t destroy_stream(orStream_t handle);
  [[nodiscard]] orError_t destroy_event(orEvent_t handle);
  [[nodiscard]] orError_t adopt_graph(const GraphInfo& info, uint64_t& handle);
  [[nodiscard]] orError_t destroy_graph(orGraph_t handle);

  [[nodiscard]] orError_t set_schedule(orSchedule schedule, uint64_t seed);
  void schedule(orSchedule& schedule, uint64_t& seed);

  /// From here on a forked child is refused.
  void mark_used() { used_.store(true, std::memory_order_relaxed); }

  Allocations allocations;
  /// Held over what opens or closes memory of other processes: the driver's knowledge of it and ours change
  /// together. Nothing waits under it.
  std::mutex import_mutex;
  /// Set by the first copy between devices: from then on memory may be in use by another device's streams.
  std::atomic<bool> peer_copies{false};

 private:
  enum class State { kUnused, kReady, kBroken, kForked };

  Runtime();
  static Runtime* enter_slowly(orError_t& error);
  void start();
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
  static std::mutex start_mutex_;  // guards the start, and forks against it

  orDriver driver_{};  // a copy: what an older driver's shorter table lacks is NULL
  int device_count_ = 0;
  Device* devices_ = nullptr;
  std::atomic<bool> used_{false};
  std::atomic<uint64_t> next_stream_id_{1};
  HandleTable<StreamInfo> streams_;
  HandleTable<EventInfo> events_;
  HandleTable<GraphInfo> graphs_;
  std::mutex schedule_mutex_;  // guards the two below
  orSchedule schedule_ = orScheduleAsync;
  uint64_t seed_ = 0;
  orError_t broken_code_ = orSuccess;  // why the start failed; constant afterwards
  char broken_words_[1024] = {};
};

/// This thread's current device; not checked against the number of devices.
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

/// Callers set struct_size to the sizeof that they were compiled with, which may be a later and longer one.
[[nodiscard]] orError_t check_struct_size(const char* function, const char* type, uint32_t given,
                                          size_t known);

/// The body of an extern "C" function that uses the runtime.
template <typename Body>
[[nodiscard]] orError_t with_runtime(Body&& body) noexcept {
  return noexcept_boundary([&]() -> orError_t {
    orError_t error;
    Runtime* runtime = Runtime::enter(error);
    return runtime ? body(*runtime) : error;
  });
}

}  // namespace openreg
