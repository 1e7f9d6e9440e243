#include "diagnostics/watched_launch.h"

#include <torch/csrc/autograd/function.h>

#include <utility>

namespace openreg {
namespace {

thread_local const WatchedLaunch* innermost = nullptr;

}  // namespace

void watch_launches(bool on) {
  debug_flags::set(debug_flags::kWatchdog, on);
}

WatchedLaunch::WatchedLaunch(std::string arguments, std::string site)
    : arguments_(std::move(arguments)), site_(std::move(site)), outer_(std::exchange(innermost, this)) {}

WatchedLaunch::~WatchedLaunch() {
  innermost = outer_;
}

std::string watched_arguments() {
  return innermost == nullptr ? std::string() : innermost->arguments_;
}

std::string watched_site() {
  if (innermost != nullptr && !innermost->site_.empty()) {
    return innermost->site_;
  }
  return call_site_text(call_site_of_scope());
}

CallSite site_of_call() {
  if (const CallSite site = call_site(); site != 0) {
    return site;
  }
  const auto node = torch::autograd::get_current_node();
  return node == nullptr ? 0 : intern_call_site("backward of " + node->name());
}

}  // namespace openreg
