// Events that processes share.
//
// Note [Held records of shared events]
// A record that is held (Note [Held work] in stream.h) is unknown to CUDA, and so to other processes. While
// this process has one, it marks the entry of the event. A wait of another process sees the mark, and is held
// until the mark is cleared, or until the process that set it has ended.
#pragma once

#include "cuda_api.h"
#include "handles.h"
#include "openreg/driver.h"

#include <mutex>

namespace nv {

struct Device;

/// An event of CUDA, for all records of a shared event. It keeps the context of its device open.
///
/// Thread safety: all functions may be called from any thread; `create` or `open` is called first.
class SharedEvent {
 public:
  explicit SharedEvent(Device& device) : device_(device) {}
  ~SharedEvent();
  SharedEvent(const SharedEvent&) = delete;
  SharedEvent& operator=(const SharedEvent&) = delete;
  orError_t create();
  /// Takes the entry, which it closes at its end, also after an error.
  orError_t open(const SharedEntry& shared, const OpenEntry& entry);
  CUevent native() const { return native_; }
  Device& device() const { return device_; }

  /// The handle, which is valid until `withdraw`.
  orError_t name(orIpcEventHandle_t& handle);
  void withdraw();

  /// Between them, a record of this process is held.
  void hold();
  void release();
  bool held_elsewhere();
  /// Blocks while another process holds a record.
  void wait_for_others();

 private:
  orError_t close_if(orError_t error);

  Device& device_;
  CUevent native_ = nullptr;
  std::mutex mutex_;  // guards everything below. The lock of the handles is taken while it is held.
  bool opened_ = false;
  bool named_ = false;  // entry_ is valid
  OpenEntry entry_;
  orIpcEventHandle_t handle_{};
  int held_ = 0;
};

}  // namespace nv
