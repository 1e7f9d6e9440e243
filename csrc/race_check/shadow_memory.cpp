#include "race_check/shadow_memory.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace openreg::races {
namespace {

// A region forgets its oldest record when it has more. That can hide a race, and bounds the time of an
// access.
constexpr size_t kMostRecords = 64;

bool races_with(const Record& record, const Record& earlier, const VectorClock& clock) {
  return earlier.stream != record.stream && !clock.follows(earlier.stream, earlier.number) &&
         (record.access.write || earlier.access.write) && overlap(record.access, earlier.access);
}

}  // namespace

// The first region that ends after `begin`.
ShadowMemory::Regions::iterator ShadowMemory::first_in(uintptr_t begin) {
  auto region = regions_.upper_bound(begin);
  if (region != regions_.begin() && std::prev(region)->second.end > begin) {
    --region;
  }
  return region;
}

// Makes regions for the bytes of an access that have none: as large as the storage, if possible.
void ShadowMemory::cover(const Access& access) {
  uintptr_t at = access.begin;
  while (at < access.end) {
    auto next = first_in(at);
    if (next != regions_.end() && next->first <= at) {
      at = next->second.end;
      continue;
    }
    const uintptr_t low = next == regions_.begin() ? 0 : std::prev(next)->second.end;
    const uintptr_t high = next == regions_.end() ? UINTPTR_MAX : next->first;
    const uintptr_t begin = std::min(at, std::max(low, access.storage_begin));
    const uintptr_t end = std::min(high, std::max(access.end, access.storage_end));
    regions_.emplace_hint(next, begin, Region{end});
    at = end;
  }
}

void ShadowMemory::add(const Record& record, const VectorClock& clock, const OnRace& on_race) {
  auto region = first_in(record.access.begin);
  if (region == regions_.end() || region->first > record.access.begin ||
      region->second.end < record.access.end) {
    cover(record.access);
    region = first_in(record.access.begin);
  }
  for (; region != regions_.end() && region->first < record.access.end; ++region) {
    add_to(region->second, record, clock, on_race);
  }
}

void ShadowMemory::add_to(Region& region, const Record& record, const VectorClock& clock,
                          const OnRace& on_race) {
  auto kept = region.records.begin();
  for (auto& earlier : region.records) {
    if (races_with(record, earlier, clock)) {
      on_race(earlier, region);
    }
    // A record that races is replaced, too: one report is enough.
    const bool replaced =
        (record.access.write || !earlier.access.write) && covers(record.access, earlier.access);
    if (!replaced || (earlier.stream != record.stream && !clock.follows(earlier.stream, earlier.number) &&
                      !record.access.write)) {
      if (&*kept != &earlier) {
        *kept = std::move(earlier);
      }
      ++kept;
    }
  }
  region.records.erase(kept, region.records.end());
  if (region.records.size() >= kMostRecords) {
    region.records.erase(region.records.begin());
  }
  region.records.push_back(record);
}

void ShadowMemory::check(const Record& record, const VectorClock& clock, const OnRace& on_race) {
  for (auto region = first_in(record.access.begin);
       region != regions_.end() && region->first < record.access.end; ++region) {
    for (const Record& earlier : region->second.records) {
      if (races_with(record, earlier, clock)) {
        on_race(earlier, region->second);
      }
    }
  }
}

// Ends the region that contains `at` there, and begins another one.
void ShadowMemory::split(uintptr_t at) {
  const auto region = first_in(at);
  if (region == regions_.end() || region->first >= at) {
    return;
  }
  Region rest = region->second;
  region->second.end = at;
  std::erase_if(region->second.records, [&](const Record& one) { return one.access.begin >= at; });
  std::erase_if(rest.records, [&](const Record& one) { return one.access.end <= at; });
  regions_.emplace(at, std::move(rest));
}

void ShadowMemory::allocate(uintptr_t begin, uintptr_t end, uint32_t stream, CallSite site) {
  auto region = first_in(begin);
  const bool same = region != regions_.end() && region->first == begin && region->second.end == end;
  if (!same) {
    split(begin);
    split(end);
    std::vector<Record> records;
    for (region = first_in(begin); region != regions_.end() && region->first < end;
         region = regions_.erase(region)) {
      std::ranges::move(region->second.records, std::back_inserter(records));
    }
    if (records.size() > kMostRecords) {
      records.erase(records.begin(), records.end() - kMostRecords);
    }
    region = regions_.emplace(begin, Region{end}).first;
    region->second.records = std::move(records);
  }
  region->second.stream = stream;
  region->second.kept_by.clear();
  region->second.allocated_at = site;
  for (Record& record : region->second.records) {
    record.old = true;
  }
}

void ShadowMemory::forget_if(uintptr_t begin, uintptr_t end,
                             const std::function<bool(const Record&, const Region&)>& is_done) {
  for (auto region = first_in(begin); region != regions_.end() && region->first < end; ++region) {
    const Region& known = region->second;
    std::erase_if(region->second.records, [&](const Record& record) { return is_done(record, known); });
  }
}

void ShadowMemory::keep(uintptr_t begin, uintptr_t end, uint32_t stream) {
  for (auto region = first_in(begin); region != regions_.end() && region->first < end; ++region) {
    if (std::ranges::find(region->second.kept_by, stream) == region->second.kept_by.end()) {
      region->second.kept_by.push_back(stream);
    }
  }
}

void ShadowMemory::forget(uintptr_t begin, uintptr_t end) {
  split(begin);
  split(end);
  for (auto region = first_in(begin); region != regions_.end() && region->first < end;) {
    region = regions_.erase(region);
  }
}

}  // namespace openreg::races
