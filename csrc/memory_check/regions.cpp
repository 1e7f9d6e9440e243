#include "memory_check/regions.h"

#include <openreg/openreg.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <vector>

namespace openreg::memory_check {
namespace {

struct Regions {
  std::mutex mutex;                     // guards the rest
  std::map<uintptr_t, Region*> by_end;  // the end of the pages
  std::vector<Region*> spare;
};

Regions& all() {
  static auto* made = new Regions;
  return *made;
}

// The range of all regions that ever were.
std::atomic<uintptr_t> lowest{UINTPTR_MAX};
std::atomic<uintptr_t> highest{0};
std::atomic<bool> protects{true};

}  // namespace

Region* add_region(void* base, size_t length, size_t size, ptrdiff_t view_offset, bool unused) {
  Regions& regions = all();
  Region* region = nullptr;
  {
    const std::lock_guard lock(regions.mutex);
    if (regions.spare.empty()) {
      region = new Region;
    } else {
      region = regions.spare.back();
      regions.spare.pop_back();
    }
  }
  region->set(static_cast<char*>(base), length, size, view_offset, unused);
  const std::lock_guard lock(regions.mutex);
  lowest.store(std::min(lowest.load(), region->begin()));
  highest.store(std::max(highest.load(), region->end()));
  regions.by_end.emplace(region->end(), region);
  return region;
}

void remove_region(Region* region) {
  region->release();
  Regions& regions = all();
  const std::lock_guard lock(regions.mutex);
  regions.by_end.erase(region->end());
  regions.spare.push_back(region);
}

Region* region_at(uintptr_t address) {
  if (!may_be_in_region(address)) {
    return nullptr;
  }
  Regions& regions = all();
  const std::lock_guard lock(regions.mutex);
  const auto found = regions.by_end.upper_bound(address);
  return found != regions.by_end.end() && found->second->begin() <= address ? found->second : nullptr;
}

bool may_be_in_region(uintptr_t address) {
  return address >= lowest.load(std::memory_order_acquire) &&
         address < highest.load(std::memory_order_acquire);
}

bool pages_are_protected() {
  return protects.load(std::memory_order_relaxed);
}

void stop_protecting_pages(int reason) {
  if (!protects.exchange(false)) {
    return;
  }
  {
    const std::lock_guard lock(all().mutex);
    for (const auto& [end, region] : all().by_end) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr)
      mprotect(reinterpret_cast<void*>(region->begin()), end - region->begin(), PROT_READ | PROT_WRITE);
    }
  }
  std::fprintf(stderr,
               "%s: memory check: pages cannot be protected any more (%s); increase vm.max_map_count. Only "
               "writes around blocks are found from now on\n",
               orGetDeviceName(), std::strerror(reason));
}

}  // namespace openreg::memory_check
