#include "distributed/transport/waiters.h"

#include <c10/util/thread_name.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace openreg::distributed {
namespace {

class Waiters {
 public:
  void run(std::function<void()> task) {
    std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    if (idle_ >= tasks_.size()) {
      added_.notify_one();
    } else {
      std::thread([this] { work(); }).detach();
    }
  }

 private:
  void work() {
    c10::setThreadName("openreg_occl");
    std::unique_lock lock(mutex_);
    for (;;) {
      while (tasks_.empty()) {
        ++idle_;
        added_.wait(lock);
        --idle_;
      }
      std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      task = nullptr;  // its resources are released without the lock
      lock.lock();
    }
  }

  std::mutex mutex_;  // guards everything below
  std::condition_variable added_;
  std::deque<std::function<void()>> tasks_;
  size_t idle_ = 0;  // threads in added_.wait; a notified thread counts until it wakes up
};

}  // namespace

void run_on_waiter(std::function<void()> task) {
  static auto* waiters = new Waiters;  // leaked: the threads never end
  waiters->run(std::move(task));
}

}  // namespace openreg::distributed
