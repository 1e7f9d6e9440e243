#include "kernel/launch_site.h"

#include <atomic>

namespace openreg {
namespace {

std::atomic<LaunchSiteFunction> ask{nullptr};

}  // namespace

void set_launch_site_function(LaunchSiteFunction function) {
  ask.store(function, std::memory_order_release);
}

std::string launch_site() {
  const LaunchSiteFunction function = ask.load(std::memory_order_acquire);
  return function == nullptr ? std::string() : function();
}

}  // namespace openreg
