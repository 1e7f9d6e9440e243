// The range and mark functions of openreg.h: annotations of the program in the trace.
//
// Ranges are kept also without a subscriber, so that depths are correct and a pop finds its push. A range
// that was pushed without a subscriber is not reported at its pop.
#include "error.h"
#include "runtime.h"
#include "trace.h"

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

using namespace openreg;

namespace {

constexpr int kNoDevice = -1;

// The trace record points to the name, so the string must not move.
struct OpenRange {
  std::unique_ptr<const std::string> name;
  TracedWork* work;
};

OpenRange begin_range(const char* function, const char* name) {
  OpenRange range{std::make_unique<const std::string>(name), nullptr};
  range.work = TracedWork::begin(function, orTraceRange, range.name->c_str(), kNoDevice, 0);
  return range;
}

void end_range(const OpenRange& range) {
  if (range.work) range.work->ended(orSuccess);
}

// The pushed ranges of one thread. Ranges that are still open end with the thread.
struct RangeStack {
  std::vector<OpenRange> open;
  ~RangeStack() {
    for (; !open.empty(); open.pop_back()) end_range(open.back());
  }
};

RangeStack& thread_ranges() {
  static thread_local RangeStack ranges;
  return ranges;
}

struct UnnestedRanges {
  std::mutex mutex;  // guards the rest
  uint64_t next_id = 1;
  std::unordered_map<uint64_t, OpenRange> open;
};

UnnestedRanges& unnested_ranges() {
  static auto* ranges = new UnnestedRanges;
  return *ranges;
}

}  // namespace

extern "C" {

orError_t orTraceRangePush(const char* name, int* depth) {
  if (!name) return fail(orErrorInvalidValue, "orTraceRangePush: name is NULL");
  return noexcept_boundary([&] {
    auto& open = thread_ranges().open;
    open.push_back(begin_range("orTraceRangePush", name));
    if (depth) *depth = static_cast<int>(open.size()) - 1;
    return orSuccess;
  });
}

orError_t orTraceRangePop(int* depth) {
  auto& open = thread_ranges().open;
  if (open.empty()) {
    return fail(orErrorNotPermitted, "orTraceRangePop: this thread has no open range to pop");
  }
  end_range(open.back());
  open.pop_back();
  if (depth) *depth = static_cast<int>(open.size());
  return orSuccess;
}

orError_t orTraceRangeStart(const char* name, uint64_t* id) {
  if (!name || !id) return fail(orErrorInvalidValue, "orTraceRangeStart: %s is NULL", name ? "id" : "name");
  *id = 0;
  if (Runtime::forked()) return orSuccess;  // a forked child has no subscriber
  return noexcept_boundary([&] {
    OpenRange range = begin_range("orTraceRangeStart", name);
    UnnestedRanges& ranges = unnested_ranges();
    std::lock_guard lock(ranges.mutex);
    *id = ranges.next_id++;
    ranges.open.emplace(*id, std::move(range));
    return orSuccess;
  });
}

orError_t orTraceRangeEnd(uint64_t id) {
  if (Runtime::forked()) return orSuccess;
  OpenRange range;
  {
    UnnestedRanges& ranges = unnested_ranges();
    std::lock_guard lock(ranges.mutex);
    const auto found = ranges.open.find(id);
    if (found == ranges.open.end()) {
      return fail(orErrorInvalidValue, "orTraceRangeEnd: no range with the id %llu is open",
                  static_cast<unsigned long long>(id));
    }
    range = std::move(found->second);
    ranges.open.erase(found);
  }
  end_range(range);
  return orSuccess;
}

orError_t orTraceMark(const char* name) {
  if (!name) return fail(orErrorInvalidValue, "orTraceMark: name is NULL");
  return noexcept_boundary([&] {
    if (TracedWork* work = TracedWork::begin("orTraceMark", orTraceInstant, name, kNoDevice, 0)) {
      work->ended(orSuccess);
    }
    return orSuccess;
  });
}

}  // extern "C"
