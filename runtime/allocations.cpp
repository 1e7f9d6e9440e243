#include "allocations.h"

#include <algorithm>
#include <iterator>
#include <mutex>

namespace openreg {

void Allocations::allow_address_reuse() {
  std::unique_lock lock(mutex_);
  addresses_reused_ = true;
  device_ranges_.clear();
}

bool Allocations::overlaps(uintptr_t begin, uintptr_t end) const {
  auto next = live_.lower_bound(begin);
  if (next != live_.end() && next->first < end) return true;
  return next != live_.begin() && std::prev(next)->first + std::prev(next)->second.size > begin;
}

void Allocations::remember_device_range(uintptr_t begin, uintptr_t end) {
  auto it = device_ranges_.upper_bound(begin);
  if (it != device_ranges_.begin() && std::prev(it)->second >= begin) --it;
  while (it != device_ranges_.end() && it->first <= end) {
    begin = std::min(begin, it->first);
    end = std::max(end, it->second);
    it = device_ranges_.erase(it);
  }
  device_ranges_.emplace(begin, end);
}

bool Allocations::insert(const Allocation& allocation) {
  std::unique_lock lock(mutex_);
  if (overlaps(allocation.base, allocation.base + allocation.size)) return false;
  if (allocation.on_device() && !addresses_reused_) {
    remember_device_range(allocation.base, allocation.base + allocation.rounded);
  }
  live_.emplace(allocation.base, allocation);
  return true;
}

PointerInfo Allocations::find_locked(uintptr_t address) const {
  PointerInfo info;
  auto next = live_.upper_bound(address);
  if (next != live_.begin()) {
    const Allocation& candidate = std::prev(next)->second;
    if (!candidate.freeing && address < candidate.base + candidate.size) {
      info.known = true;
      info.allocation = candidate;
      return info;
    }
  }
  auto range = device_ranges_.upper_bound(address);
  info.freed = range != device_ranges_.begin() && address < std::prev(range)->second;
  return info;
}

PointerInfo Allocations::find(const void* pointer) const {
  std::shared_lock lock(mutex_);
  return find_locked(reinterpret_cast<uintptr_t>(pointer));
}

bool Allocations::claim(const void* pointer, AllocationKind kind, PointerInfo& found) {
  std::unique_lock lock(mutex_);
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  found = find_locked(address);
  if (!found.known || found.allocation.base != address || found.allocation.kind != kind) return false;
  live_.find(address)->second.freeing = true;
  return true;
}

void Allocations::restore(const Allocation& allocation) {
  std::unique_lock lock(mutex_);
  auto it = live_.find(allocation.base);
  if (it != live_.end()) it->second.freeing = false;
}

bool Allocations::erase(const Allocation& allocation) {
  std::unique_lock lock(mutex_);
  auto it = live_.find(allocation.base);
  if (it == live_.end() || !it->second.freeing) return false;
  live_.erase(it);
  return true;
}

void Allocations::mark_named(uintptr_t base) {
  std::unique_lock lock(mutex_);
  if (const auto it = live_.find(base); it != live_.end()) it->second.named = true;
}

bool Allocations::insert_import(const Allocation& allocation) {
  {
    std::shared_lock lock(mutex_);
    const auto it = live_.find(allocation.base);
    if (it != live_.end() && it->second.kind == AllocationKind::kImported) return true;
  }
  return insert(allocation);
}

void Allocations::erase_import(uintptr_t base) {
  std::unique_lock lock(mutex_);
  live_.erase(base);
}

std::vector<Allocation> Allocations::erase_device(int device) {
  std::unique_lock lock(mutex_);
  std::vector<Allocation> erased;
  for (auto it = live_.begin(); it != live_.end();) {
    if (it->second.kind != AllocationKind::kDevice || it->second.device != device) {
      ++it;
      continue;
    }
    erased.push_back(it->second);
    it = live_.erase(it);
  }
  return erased;
}

}  // namespace openreg
