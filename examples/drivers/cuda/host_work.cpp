// Another chip: an interrupt or a polling thread tells the driver that the queue has reached a host function.
// If the chip can run host code on its memory, declare OR_CAP_HOST_EXECUTABLE, and operators run as such
// kernels.
#include "host_work.h"

#include "graph.h"
#include "stream.h"

#include <condition_variable>
#include <cstring>
#include <ctime>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

namespace nv {
namespace {

struct Executor {
  std::mutex mutex;  // guards everything below
  std::condition_variable changed;
  std::deque<std::function<void()>> tasks;
  size_t idle = 0;  // threads that wait for a task
};

Executor& executor() {
  static auto* made = new Executor;  // leaked: its threads run until the process ends
  return *made;
}

void run_tasks() {
  Executor& all = executor();
  std::unique_lock lock(all.mutex);
  for (;;) {
    ++all.idle;
    all.changed.wait(lock, [&] { return !all.tasks.empty(); });
    --all.idle;
    std::function<void()> task = std::move(all.tasks.front());
    all.tasks.pop_front();
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
  }
}

// The streams whose kernels are on the stack of this thread.
struct Frame {
  const Stream* stream;
  Frame* outer;
};
thread_local Frame* innermost = nullptr;

}  // namespace

void run_on_host(std::function<void()> task) {
  Executor& all = executor();
  const std::lock_guard lock(all.mutex);
  all.tasks.push_back(std::move(task));
  if (all.idle < all.tasks.size()) {
    std::thread(&run_tasks).detach();
  }
  all.changed.notify_one();
}

int64_t now_ns() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec;
}

bool inside_kernel() {
  return innermost != nullptr;
}

bool inside_kernel_of(const Stream& stream) {
  for (const Frame* frame = innermost; frame; frame = frame->outer) {
    if (frame->stream == &stream) return true;
  }
  return false;
}

HostKernel copy_kernel(const orKernel* kernel, const void* args, size_t size) {
  HostKernel made;
  made.kernel = kernel;
  made.args.reset(new char[size + 1]);
  if (size) std::memcpy(made.args.get(), args, size);
  return made;
}

std::string run_kernel(const Stream& stream, const HostKernel& kernel, bool dropped) {
  if (!kernel.kernel) return {};
  Frame frame = {&stream, innermost};
  innermost = &frame;
  std::string failure;
  if (!dropped) {
    char why[512] = "";
    const orError_t result = kernel.kernel->run(kernel.args.get(), why, sizeof(why));
    if (result != orSuccess) {
      failure = std::string("kernel '") + (kernel.kernel->name ? kernel.kernel->name : "") + "'";
      if (kernel.graph) {
        failure +=
            ", node " + std::to_string(kernel.node) + " of " + std::to_string(kernel.graph->size()) + ",";
      }
      failure += " failed on stream " + std::to_string(stream.id()) + " of device " +
                 std::to_string(stream.device().index) + ": " +
                 (*why ? why : "it returned error " + std::to_string(static_cast<int>(result)));
    }
  }
  innermost = frame.outer;
  if (kernel.release && kernel.kernel->release) kernel.kernel->release(kernel.args.get());
  return failure;
}

orError_t stream_launch(orDriverStream* given, const orKernel* kernel, const void* args, size_t args_size,
                        const orObserver* observer) {
  return entry(
      [&] { return Stream::of(given).submit_kernel(copy_kernel(kernel, args, args_size), observer); });
}

}  // namespace nv
