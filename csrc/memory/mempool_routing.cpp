#include "memory/mempool_routing.h"

#include "common/fork.h"
#include "memory/pool/pool.h"
#include "stream/capture.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

namespace openreg {
namespace {

struct Route {
  RouteId id;
  c10::DeviceIndex device;
  c10::MempoolId_t pool;
  std::function<bool(c10::Stream)> takes;
};

struct Routes {
  std::mutex mutex;  // guards the members below
  std::vector<Route> all;
  RouteId latest = 0;
};

Routes& routes() {
  static auto* made = new Routes;
  return *made;
}

std::atomic<c10::CaptureId_t> last_pool_id{0};

}  // namespace

c10::MempoolId_t graph_pool_handle() {
  return {0, ++last_pool_id};
}

c10::MempoolId_t capture_pool_handle() {
  return {++last_pool_id, 0};
}

void use_pool(c10::DeviceIndex device, c10::MempoolId_t pool) {
  pool_of(device).use_private(pool);
}

void configure_pool(c10::DeviceIndex device, c10::MempoolId_t pool, const PrivateSettings& settings) {
  pool_of(device).configure_private(pool, settings);
}

void release_pool(c10::DeviceIndex device, c10::MempoolId_t pool) noexcept {
  if (!in_forked_child()) {
    pool_of(device).release_private(pool);
  }
}

void empty_pool(c10::DeviceIndex device, c10::MempoolId_t pool) {
  if (!any_capture() && !in_forked_child()) {
    pool_of(device).empty_cache(pool);
  }
}

int pool_users(c10::DeviceIndex device, c10::MempoolId_t pool) {
  return pool_of(device).private_users(pool);
}

RouteId begin_route(c10::DeviceIndex device, c10::MempoolId_t pool, std::function<bool(c10::Stream)> takes) {
  use_pool(device, pool);
  Routes& known = routes();
  std::lock_guard<std::mutex> lock(known.mutex);
  known.all.push_back({++known.latest, device, pool, std::move(takes)});
  active_routes.fetch_add(1);
  return known.latest;
}

RouteId begin_thread_route(c10::DeviceIndex device, c10::MempoolId_t pool) {
  return begin_route(device, pool, [thread = std::this_thread::get_id()](c10::Stream) {
    return std::this_thread::get_id() == thread;
  });
}

void end_route(RouteId id) noexcept {
  if (in_forked_child()) {
    return;
  }
  std::lock_guard<std::mutex> lock(routes().mutex);
  const size_t ended = std::erase_if(routes().all, [id](const Route& route) { return route.id == id; });
  active_routes.fetch_sub(static_cast<int>(ended));
}

c10::MempoolId_t find_route(c10::Stream stream) {
  std::lock_guard<std::mutex> lock(routes().mutex);
  const auto& all = routes().all;
  const auto found = std::find_if(all.rbegin(), all.rend(), [&](const Route& route) {
    return route.device == stream.device_index() && route.takes(stream);
  });
  return found == all.rend() ? c10::MempoolId_t{0, 0} : found->pool;
}

}  // namespace openreg
