// Private pools, and who allocates from them.
//
// Note [Private pools]
// A private pool is a part of a device's memory with caches of its own. What is allocated from it returns to
// it, and only those get it for whom there is a route: the streams of a capture, or one thread. A pool has
// users, graphs and MemPool objects; while it has one, nothing of it is given back or handed to others, since
// a graph holds the addresses of memory that no tensor owns any more. When the last user has gone, its free
// segments are given back as all cached memory is: by empty_cache, or before a request fails.
//
// Numbers are c10::MempoolId_t, as for torch.cuda; {0, 0} is the ordinary pool. All functions may be called
// from any thread. An allocation asks for its route only while there are any: one relaxed load.
#pragma once

#include "common/export.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Stream.h>

#include <atomic>
#include <functional>

namespace openreg {

/// The number of a pool for graphs to share. Nothing is allocated yet. As in torch.cuda, the second of the
/// pair counts pools that were asked for, and the first those of one capture.
OPENREG_EXPORT c10::MempoolId_t graph_pool_handle();
c10::MempoolId_t capture_pool_handle();

/// The pool has one user more. It is made if need be.
OPENREG_EXPORT void use_pool(c10::DeviceIndex device, c10::MempoolId_t pool);
/// And one less. Forgives a pool that does not exist.
OPENREG_EXPORT void release_pool(c10::DeviceIndex device, c10::MempoolId_t pool) noexcept;
/// Gives back what is free of a pool without users; not while something is captured.
OPENREG_EXPORT void empty_pool(c10::DeviceIndex device, c10::MempoolId_t pool);
/// How many users it has.
OPENREG_EXPORT int pool_users(c10::DeviceIndex device, c10::MempoolId_t pool);

using RouteId = uint64_t;

/// use_pool; and from now on allocations on the device's streams for which `takes` is true come from the
/// pool. The latest route goes first. Returns the route's number, which is never used again.
RouteId begin_route(c10::DeviceIndex device, c10::MempoolId_t pool, std::function<bool(c10::Stream)> takes);
/// The same for all allocations of the calling thread.
OPENREG_EXPORT RouteId begin_thread_route(c10::DeviceIndex device, c10::MempoolId_t pool);
/// The pool's users stay.
OPENREG_EXPORT void end_route(RouteId id) noexcept;

inline std::atomic<int> routes_now{0};

/// The pool for an allocation of this thread on `stream`.
c10::MempoolId_t find_route(c10::Stream stream);

inline c10::MempoolId_t route(c10::Stream stream) {
  if (C10_LIKELY(routes_now.load(std::memory_order_relaxed) == 0)) {
    return {0, 0};
  }
  return find_route(stream);
}

}  // namespace openreg
