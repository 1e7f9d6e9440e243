// The thread that watches for records of other processes on behalf of streams that wait for them.
//
// One for the process, started by the first such wait. It sleeps until a doorbell of an IPC registry rings,
// and looks every few milliseconds whether the processes that it waits for still live.
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

  /// The record, which another process has made, is completed here when it is done there.
  void add(Ref<Record> record);

 private:
  void watch();

  std::mutex mutex_;  // guards the two below; nothing is locked under it
  std::vector<Ref<Record>> added_;
  bool started_ = false;
  std::atomic<uint32_t> news_{0};  // goes up with added_
};

}  // namespace openreg::sim
