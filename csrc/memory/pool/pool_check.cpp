// The blocks of a pool with the memory check; see Note [Checked blocks] in pool.h.
#include "common/gil_release.h"
#include "device/device.h"
#include "memory/pool/pool.h"
#include "memory_check/memory_check.h"
#include "stream/stream.h"

#include <optional>
#include <utility>

namespace openreg {

void Pool::quarantine(Block* block) {
  block->ptr = block->region->base();
  if (block->home != nullptr) {  // graphs may use the memory
    put_into_cache(block);
    return;
  }
  freed_.push_back({block->region, block->region->free(), block->stream});
  quarantine_.push_back(block);
  quarantined_bytes_ += block->region->length();
  empty_quarantine(memory_check::options().quarantine);
}

void Pool::empty_quarantine(size_t limit) {
  while (!quarantine_.empty() && quarantined_bytes_ > limit) {
    Block* block = quarantine_.front();
    quarantine_.pop_front();
    quarantined_bytes_ -= block->region->length();
    put_into_cache(block);
  }
}

// Unlocks meanwhile: the blocking schedule runs the seal, and kernels before it, at the launch.
void Pool::seal_freed(Lock& lock) noexcept {
  const std::vector<Freed> freed = std::exchange(freed_, {});
  if (freed.empty()) {
    return;
  }
  lock.unlock();
  {
    orSchedule schedule = orScheduleAsync;
    uint64_t seed = 0;
    std::optional<GilRelease> waiting;
    if (orGetSchedule(&schedule, &seed) == orSuccess && schedule == orScheduleBlocking) {
      waiting.emplace();
    }
    for (const Freed& one : freed) {
      const c10::Stream stream(c10::Stream::UNSAFE, c10::Device(kDevice, device_), one.stream);
      memory_check::seal_in_order(one.region, one.use, stream_handle(stream));
    }
  }
  lock.lock();
}

}  // namespace openreg
