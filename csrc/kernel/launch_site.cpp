#include "kernel/launch_site.h"

#include <atomic>

namespace openreg {
namespace {

std::atomic<LaunchSiteFunction> registered_function{nullptr};

}  // namespace

void set_launch_site_function(LaunchSiteFunction function) {
  registered_function.store(function, std::memory_order_release);
}

std::string launch_site() {
  const LaunchSiteFunction function = registered_function.load(std::memory_order_acquire);
  return function == nullptr ? std::string() : function();
}

}  // namespace openreg
