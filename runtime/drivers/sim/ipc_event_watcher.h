// The thread that completes records of other processes, for streams of this process that wait for them.
//
// One thread per process, started by the first such wait. It sleeps until the doorbell of an IPC registry
// changes, and checks every few milliseconds whether the other processes are alive.
#pragma once

#include "event.h"
#include "ref.h"

#include <atomic>
#include <mutex>
#include <vector>

namespace openreg::sim {

class IpcEventWatcher {
 public:
  static IpcEventWatcher& get();

  /// Completes the record when the other process has finished it.
  void add(Ref<Record> record);

 private:
  void watch();

  std::mutex mutex_;  // guards the two below; no lock is taken under it
  std::vector<Ref<Record>> added_;
  bool started_ = false;
  std::atomic<uint32_t> added_count_{0};  // incremented with each addition to added_
};

}  // namespace openreg::sim
