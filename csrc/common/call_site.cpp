#include "common/call_site.h"

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace openreg {
namespace {

std::atomic<CallSite (*)()> installed{nullptr};

struct Sites {
  std::mutex mutex;  // guards the rest
  std::vector<std::string> texts{""};
  std::unordered_map<std::string, CallSite> numbers{{"", 0}};
};

Sites& sites() {
  static auto* made = new Sites;
  return *made;
}

thread_local int depth = 0;  // of scopes
thread_local CallSite site_of_scope = 0;

}  // namespace

CallSiteScope::CallSiteScope(CallSite site) {
  if (depth++ == 0) {
    site_of_scope = site;
  }
}

CallSiteScope::~CallSiteScope() {
  --depth;
}

void set_call_site_function(CallSite (*function)()) {
  installed.store(function, std::memory_order_release);
}

CallSite call_site_of_scope() {
  return depth > 0 ? site_of_scope : 0;
}

CallSite call_site() {
  if (depth > 0) {
    return site_of_scope;
  }
  CallSite (*const function)() = installed.load(std::memory_order_acquire);
  return function == nullptr ? 0 : function();
}

CallSite intern_call_site(const std::string& text) {
  std::lock_guard lock(sites().mutex);
  const auto [entry, added] = sites().numbers.try_emplace(text, static_cast<CallSite>(sites().texts.size()));
  if (added) {
    sites().texts.push_back(text);
  }
  return entry->second;
}

std::string call_site_text(CallSite site) {
  std::lock_guard lock(sites().mutex);
  return sites().texts.at(site);
}

}  // namespace openreg
