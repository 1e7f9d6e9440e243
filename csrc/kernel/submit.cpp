#include "kernel/submit.h"

#include "common/gil_release.h"
#include "device/device.h"
#include "kernel/thread_state.h"
#include "utf8.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace openreg {
namespace {

// Throttling: in a long queue, arguments leave the CPU caches before they are used. So a thread that is
// kBacklogHigh launches ahead of a stream waits until kBacklogLow are left, but at most kMaxWait, since the
// stream may be waiting for this thread. Each thread checks at every kLaunchesPerCheck-th launch. That is a
// prime, so that a thread that uses several streams in turn checks each of them.
constexpr uint64_t kBacklogHigh = 1024;
constexpr uint64_t kBacklogLow = 512;
constexpr unsigned kLaunchesPerCheck = 61;
constexpr auto kMaxWait = std::chrono::milliseconds(2) * kLaunchesPerCheck;

void throttle(orStream_t stream) {
  const auto pending = [stream] {
    uint64_t count = 0;
    return orStreamGetPending(stream, &count) == orSuccess ? count : 0;
  };
  if (C10_UNLIKELY(pending() >= kBacklogHigh)) {
    const GilRelease waiting;
    const auto begin = std::chrono::steady_clock::now();
    while (pending() > kBacklogLow && std::chrono::steady_clock::now() - begin < kMaxWait) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
}

}  // namespace

orError_t submit_kernel(orStream_t stream, const orKernel& kernel, const void* args, size_t args_size,
                        bool captured) {
  // Kernels use libraries that are torn down when the process exits, so exit waits for all devices.
  [[maybe_unused]] static const int registered = std::atexit(&finish_all_devices);
  thread_state.launches = true;
  const orError_t error = orLaunchKernel(stream, &kernel, args, args_size);
  if (C10_UNLIKELY(error != orSuccess || captured)) {
    return error;
  }
  static thread_local unsigned since_check = 0;
  if (C10_UNLIKELY(++since_check == kLaunchesPerCheck)) {
    since_check = 0;
    throttle(stream);
  }
  return orSuccess;
}

void append_context(char* why, size_t why_size, const char* context) {
  const size_t room = why_size - 1;
  const size_t reason = std::strlen(why);
  // A long reason keeps at least half of the buffer.
  const size_t added = length_up_to(context, std::max(room - std::min(reason, room), room / 2));
  const size_t kept = length_up_to({why, reason}, room - added);
  std::memcpy(why + kept, context, added);
  why[kept + added] = '\0';
}

}  // namespace openreg
