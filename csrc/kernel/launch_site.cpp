#include "kernel/launch_site.h"

#include "host_engine/ops/name_match.h"

#include <atomic>
#include <string_view>

namespace openreg {
namespace {

std::atomic<LaunchSiteFunction> ask{nullptr};

constexpr std::string_view kRefusers[] = {
    "index",  "gather",      "scatter",  "embedding", "take",    "put",       "nll",
    "linalg", "lu",          "cholesky", "solve",     "inverse", "svd",       "eig",
    "qr",     "multinomial", "normal",   "bernoulli", "poisson", "binomial",  "ctc",
    "margin", "bincount",    "assert",   "segment",   "unpool",  "remainder", "fmod"};

}  // namespace

void set_launch_site_function(LaunchSiteFunction function) {
  ask.store(function, std::memory_order_release);
}

std::string launch_site() {
  const LaunchSiteFunction function = ask.load(std::memory_order_acquire);
  return function == nullptr ? std::string() : function();
}

bool may_refuse_data(const std::string& operator_name) {
  return has_token(operator_name, kRefusers);
}

}  // namespace openreg
