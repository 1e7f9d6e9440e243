#include "race_check/race.h"

#include <openreg/openreg.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace openreg::races {
namespace {

std::string line_of(const RaceAccess& access) {
  std::string text = access.op + (access.write ? " writes on " : " reads on ") + access.stream;
  if (!access.site.empty()) {
    text += ", at " + access.site;
  }
  if (!access.captured_at.empty()) {
    text += ", captured at " + access.captured_at;
  }
  return text;
}

// Without the streams: a loop may take another one each time.
std::string key_of(const RaceAccess& access) {
  return access.op + (access.write ? '!' : '?') + access.site + '\n' + access.captured_at + '\n';
}

}  // namespace

std::string Race::text() const {
  char bytes[96];
  std::snprintf(bytes, sizeof(bytes), "0x%zx to 0x%zx", static_cast<size_t>(begin), static_cast<size_t>(end));
  std::string text = "race: two accesses to the same memory are not ordered\n  first:  " + line_of(first) +
                     "\n  second: " + line_of(second) + "\n  memory: " + bytes;
  if (!allocated_at.empty()) {
    text += ", allocated at " + allocated_at;
  }
  return text + "\n  to order them: " + advice;
}

void RaceLog::add(Race race) {
  const std::lock_guard lock(mutex_);
  if (!known_.insert(key_of(race.first) + key_of(race.second)).second) {
    return;
  }
  if (printing_) {
    std::fprintf(stderr, "%s: %s\n", orGetDeviceName(), race.text().c_str());
  }
  races_.push_back(std::move(race));
}

void RaceLog::set_printing(bool on) {
  const std::lock_guard lock(mutex_);
  printing_ = on;
}

std::vector<Race> RaceLog::from(size_t first) const {
  const std::lock_guard lock(mutex_);
  return {races_.begin() + static_cast<ptrdiff_t>(std::min(first, races_.size())), races_.end()};
}

size_t RaceLog::size() const {
  const std::lock_guard lock(mutex_);
  return races_.size();
}

void RaceLog::forget_pairs() {
  const std::lock_guard lock(mutex_);
  known_.clear();
}

}  // namespace openreg::races
