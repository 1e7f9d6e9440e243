// Private pools, and the routing of allocations to them.
//
// Note [Private pools]
// A private pool is a part of a device's memory with its own caches. Freed blocks return to the pool that
// they came from. Only routed allocations use a private pool: those on the streams of a capture, or those of
// one thread. A pool counts its users: graphs and MemPool objects. While it has a user, its memory is neither
// released nor used by other pools, because a graph holds addresses of memory that no tensor owns any more.
// After the last user has gone, its free segments are released like all cached memory: by empty_cache, or
// before an allocation fails.
//
// Pool ids are c10::MempoolId_t, as in torch.cuda; {0, 0} is the default pool. Thread safety: all functions
// may be called from any thread. An allocation looks up its route only while routes exist: one relaxed load
// otherwise.
#pragma once

#include "common/export.h"
#include "memory/pool/settings.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Stream.h>

#include <atomic>
#include <functional>

namespace openreg {

/// A new pool id. Nothing is allocated yet. As in torch.cuda, graph_pool_handle returns {0, n}, for graphs
/// that share a pool, and capture_pool_handle {n, 0}, for one capture.
OPENREG_EXPORT c10::MempoolId_t graph_pool_handle();
c10::MempoolId_t capture_pool_handle();

/// Increments the use count; creates the pool if it does not exist.
OPENREG_EXPORT void use_pool(c10::DeviceIndex device, c10::MempoolId_t pool);
/// Call after use_pool, before anything is allocated.
OPENREG_EXPORT void configure_pool(c10::DeviceIndex device, c10::MempoolId_t pool,
                                   const PrivateSettings& settings);
/// Decrements the use count; no effect if the pool does not exist.
OPENREG_EXPORT void release_pool(c10::DeviceIndex device, c10::MempoolId_t pool) noexcept;
/// Releases the free segments of a pool without users; no effect during a capture.
OPENREG_EXPORT void empty_pool(c10::DeviceIndex device, c10::MempoolId_t pool);
/// The use count.
OPENREG_EXPORT int pool_users(c10::DeviceIndex device, c10::MempoolId_t pool);

using RouteId = uint64_t;

/// Calls use_pool, and routes allocations on those streams of the device for which `takes` returns true to
/// the pool. The latest matching route applies. Returns the id of the route; ids are not reused.
RouteId begin_route(c10::DeviceIndex device, c10::MempoolId_t pool, std::function<bool(c10::Stream)> takes);
/// The same for all allocations of the calling thread.
OPENREG_EXPORT RouteId begin_thread_route(c10::DeviceIndex device, c10::MempoolId_t pool);
/// Removes the route. Does not change the use count.
OPENREG_EXPORT void end_route(RouteId id) noexcept;

inline std::atomic<int> active_routes{0};

/// The pool for an allocation of this thread on `stream`.
c10::MempoolId_t find_route(c10::Stream stream);

inline c10::MempoolId_t route(c10::Stream stream) {
  if (C10_LIKELY(active_routes.load(std::memory_order_relaxed) == 0)) {
    return {0, 0};
  }
  return find_route(stream);
}

}  // namespace openreg
