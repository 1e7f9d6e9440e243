#include "memory/routes.h"

#include "graph/capture.h"
#include "memory/pool.h"

#include <algorithm>
#include <mutex>
#include <thread>
#include <vector>

namespace openreg {
namespace {

struct Route {
  c10::DeviceIndex device;
  c10::MempoolId_t pool;
  PrivatePool* to;
  std::function<bool(c10::Stream)> takes;
};

struct Routes {
  std::mutex mutex;  // guards all
  std::vector<Route> all;
};

Routes& routes() {
  static auto* made = new Routes;
  return *made;
}

}  // namespace

void use_pool(c10::DeviceIndex device, c10::MempoolId_t pool) {
  pool_of(device).use_private(pool);
}

void release_pool(c10::DeviceIndex device, c10::MempoolId_t pool) noexcept {
  pool_of(device).release_private(pool);
}

void empty_pool(c10::DeviceIndex device, c10::MempoolId_t pool) {
  if (!capture_underway()) {
    pool_of(device).empty_cache(pool);
  }
}

int pool_users(c10::DeviceIndex device, c10::MempoolId_t pool) {
  return pool_of(device).private_users(pool);
}

void begin_route(c10::DeviceIndex device, c10::MempoolId_t pool, std::function<bool(c10::Stream)> takes) {
  PrivatePool* to = pool_of(device).use_private(pool);
  std::lock_guard<std::mutex> lock(routes().mutex);
  routes().all.push_back({device, pool, to, std::move(takes)});
  routes_now.fetch_add(1);
}

void begin_thread_route(c10::DeviceIndex device, c10::MempoolId_t pool) {
  begin_route(device, pool, [thread = std::this_thread::get_id()](c10::Stream) {
    return std::this_thread::get_id() == thread;
  });
}

void end_route(c10::DeviceIndex device, c10::MempoolId_t pool) noexcept {
  std::lock_guard<std::mutex> lock(routes().mutex);
  auto& all = routes().all;
  const auto found = std::find_if(all.rbegin(), all.rend(), [&](const Route& route) {
    return route.device == device && route.pool == pool;
  });
  if (found != all.rend()) {
    all.erase(std::next(found).base());
    routes_now.fetch_sub(1);
  }
}

PrivatePool* find_route(c10::Stream stream) {
  std::lock_guard<std::mutex> lock(routes().mutex);
  const auto& all = routes().all;
  const auto found = std::find_if(all.rbegin(), all.rend(), [&](const Route& route) {
    return route.device == stream.device_index() && route.takes(stream);
  });
  return found == all.rend() ? nullptr : found->to;
}

}  // namespace openreg
