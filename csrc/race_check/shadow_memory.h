// The latest accesses to each byte of memory.
//
// Note [Shadow memory]
// Memory is divided into regions: the allocations, and storages that were allocated before the check began.
// A region has records of the latest accesses to its bytes. A write that follows a record and covers its
// bytes replaces it; so does a read that follows a read. What races with a replaced record is not ordered
// with its replacement either, or races with a record in between. So a tensor usually has one record for each
// stream. A new allocation keeps the records of the old ones, because freed memory is reused in stream order.
//
// Thread safety: none; the checker's mutex guards it.
#pragma once

#include "common/call_site.h"
#include "race_check/access.h"
#include "race_check/vector_clock.h"

#include <functional>
#include <map>
#include <vector>

namespace openreg::races {

/// An access by a launch.
struct Record {
  Access access;
  uint32_t stream;  // number in the checker
  uint64_t number;  // of the launch
  const char* op;   // lives as long as the process
  CallSite site;
  CallSite captured_at;  // in a graph: the line of the capture; `site` is that of the replay
  bool old = false;      // by the owner of an earlier allocation of the same memory
};

struct Region {
  static constexpr uint32_t kNoStream = UINT32_MAX;

  uintptr_t end;
  uint32_t stream = kNoStream;  // of the allocation
  CallSite allocated_at = 0;
  std::vector<uint32_t> kept_by{};  // streams whose launches keep the allocation until they have run
  std::vector<Record> records{};
};

class ShadowMemory {
 public:
  /// Called with the earlier record, and the region.
  using OnRace = std::function<void(const Record& earlier, const Region& region)>;

  /// Adds an access whose launch follows the launches in `clock`. Calls `on_race` for each record that has a
  /// byte in common and is not ordered, if one of the two writes.
  void add(const Record& record, const VectorClock& clock, const OnRace& on_race);
  /// The same for an access that is done when the call returns, such as one of the host: it leaves no record.
  void check(const Record& record, const VectorClock& clock, const OnRace& on_race);

  void allocate(uintptr_t begin, uintptr_t end, uint32_t stream, CallSite site);
  /// The free of the regions in this range follows the work of the stream.
  void keep(uintptr_t begin, uintptr_t end, uint32_t stream);
  /// Removes the records for which `is_done` returns true.
  void forget_if(uintptr_t begin, uintptr_t end,
                 const std::function<bool(const Record&, const Region&)>& is_done);
  /// Removes the regions in this range.
  void forget(uintptr_t begin, uintptr_t end);
  bool empty() const { return regions_.empty(); }

 private:
  using Regions = std::map<uintptr_t, Region>;  // by address; they do not overlap

  Regions::iterator first_in(uintptr_t begin);
  void cover(const Access& access);
  void split(uintptr_t at);
  void add_to(Region& region, const Record& record, const VectorClock& clock, const OnRace& on_race);

  Regions regions_;
};

}  // namespace openreg::races
