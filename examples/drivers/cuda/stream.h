// Streams: a CUDA stream, and a queue in front of it.
//
// Note [Held work]
// CUDA runs everything that it was given. Work behind a failed kernel has to be dropped, and a kernel is host
// code whose result is known only after it ran. So work behind a pending kernel is held on the host and given
// to CUDA when the kernel has ended. A wait for an event whose record is held holds its stream, too. Without
// pending kernels, which is almost always, work goes to CUDA at once: then `direct_` is true.
//
// Thread safety: all functions may be called from any thread. Locks are taken in the order: capture, stream,
// record, device.
#pragma once

#include "device.h"
#include "event.h"
#include "host_work.h"
#include "openreg/driver.h"
#include "workspace.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace nv {

class Capture;

/// The failure of a kernel. Streams and records that share it point to it.
struct Failure {
  std::atomic<bool> reported{false};
  std::string text;
};

/// What a graph knows of captured work.
struct WorkInfo {
  orGraphNodeKind kind;
  const char* name;
  size_t size = 0;
  orMemcpyKind copy_kind = orMemcpyDefault;
};

/// Gives work to CUDA, on the native stream of the argument.
using Work = std::function<orError_t(Stream&)>;

/// An operation of a stream.
struct Item {
  enum class Kind { kWork, kKernel, kRecord, kWait };
  Kind kind = Kind::kWork;
  Work work;
  HostKernel kernel;
  std::shared_ptr<Record> record;  // to submit, or to wait for
  orObserver observer{};           // `done` may be NULL
};

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  /// Adds the stream to its device.
  static orError_t create(Device& device, int priority, uint64_t id, std::shared_ptr<Stream>& stream);
  Stream(Device& device, uint64_t id) : device_(device), id_(id) {}
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  static Stream& of(orDriverStream* handle) { return *reinterpret_cast<Stream*>(handle); }
  Device& device() const { return device_; }
  uint64_t id() const { return id_; }
  CUstream native() const { return native_; }
  /// Memory and handles of libraries for the work of this stream. With the lock of the stream, inside Work.
  Workspace& workspace();

  /// `work` is callable as Work. On the direct path nothing is copied or allocated.
  template <typename Callable>
  orError_t submit(const Callable& work, const WorkInfo& info, const orObserver* observer) {
    const Current current(device_);
    std::unique_lock lock(mutex_);
    if (direct_ && !observer) [[likely]] {
      native_idle_ = false;
      return work(*this);
    }
    return submit_indirect(lock, work, info, observer);
  }
  orError_t submit_kernel(HostKernel kernel, const orObserver* observer);
  /// Several items, with nothing between them.
  orError_t submit_items(std::vector<Item> items);
  orError_t record(Event& event);
  orError_t wait_for(Event& event);

  /// Waits for all submitted work; does not report failures.
  orError_t wait();
  /// Returns and clears the pending failure.
  orError_t report();
  /// orSuccess or orErrorNotReady.
  orError_t query();
  bool idle();
  bool destroyed() const { return destroyed_.load(); }
  /// Whether the kernel that runs on this thread is of this stream, and nothing is queued behind it.
  bool only_runs_this_kernel();

  std::shared_ptr<Capture> capture();
  void set_capture(std::shared_ptr<Capture> capture);
  /// The memory that functions report failures to.
  const std::shared_ptr<FailureWords>& failure_words();
  void watch(const std::shared_ptr<FailureWords>& words);
  void destroy();

  // ---- For host_work.cpp
  /// Runs the current kernel, then held work and the kernels in it. On a thread of the executor.
  void run_kernels();
  /// Continues with held work, whose first item may wait for a record that is now submitted.
  void resume();

 private:
  orError_t submit_indirect(std::unique_lock<std::mutex>& lock, Work work, const WorkInfo& info,
                            const orObserver* observer);
  // With the lock. `runnable`: the current kernel can run now, on a thread of the executor.
  orError_t enqueue(Item item, bool& runnable);
  orError_t issue(Item item, bool& runnable);
  orError_t issue_work(const Item& item);
  orError_t issue_wait(const Record& record);
  orError_t start_kernel(Item item, bool& runnable);
  void advance(bool& runnable);
  void update();
  bool poisoned() const { return failure_ && !failure_->reported.load(); }
  void poison(std::string text);
  void run_current(std::unique_lock<std::mutex>& lock);

  Device& device_;
  const uint64_t id_;
  CUstream native_ = nullptr;
  std::atomic<bool> destroyed_{false};

  std::mutex mutex_;  // guards everything below
  std::condition_variable changed_;
  bool direct_ = true;       // no held work, no kernel, no failure, no capture
  bool native_idle_ = true;  // CUDA has no work of this stream that a kernel would have to wait for
  bool kernel_pending_ = false;
  Item current_;           // the kernel
  std::deque<Item> held_;  // see Note [Held work]
  uint64_t queued_ = 0;    // items that were held, and kernels
  uint64_t finished_ = 0;  // of them
  std::shared_ptr<Failure> failure_;
  std::shared_ptr<Capture> capture_;
  std::shared_ptr<Workspace> workspace_;
  std::shared_ptr<FailureWords> words_;
  std::vector<std::shared_ptr<FailureWords>> watched_;  // of graphs that were launched here
};

// Entries of the table.
orError_t stream_create(int index, int priority, uint64_t id, orDriverStream** stream);
orError_t stream_destroy(orDriverStream* stream);
orError_t stream_query(orDriverStream* stream);
orError_t stream_synchronize(orDriverStream* stream);
orError_t stream_wait_event(orDriverStream* stream, orDriverEvent* event);
orError_t stream_native_handle(orDriverStream* stream, void** handle);

}  // namespace nv
