#include "profiler/ranges.h"

#include "common/check.h"

#include <ATen/record_function.h>

#include <memory>
#include <utility>
#include <vector>

namespace openreg {
namespace {

thread_local bool reporting = false;

class ReportScope {
 public:
  ReportScope() : before_(std::exchange(reporting, true)) {}
  ~ReportScope() { reporting = before_; }

 private:
  bool before_;
};

std::unique_ptr<at::RecordFunction> report_to_profiler(const std::string& name) {
  const ReportScope scope;
  auto record = std::make_unique<at::RecordFunction>(at::RecordScope::USER_SCOPE);
  if (record->isActive()) {
    record->before(name);
  }
  return record;
}

struct ReportedRange {
  int depth;
  std::unique_ptr<at::RecordFunction> record;
};

std::vector<ReportedRange>& my_ranges() {
  static thread_local std::vector<ReportedRange> ranges;
  return ranges;
}

}  // namespace

bool reporting_to_profiler() {
  return reporting;
}

int range_push(const std::string& name) {
  int depth = 0;
  OR_CHECK(orTraceRangePush(name.c_str(), &depth));
  my_ranges().push_back({depth, report_to_profiler(name)});
  return depth;
}

int range_pop() {
  int depth = 0;
  OR_CHECK(orTraceRangePop(&depth));
  // A range that was pushed directly with orTraceRangePush has no counterpart here.
  if (auto& ranges = my_ranges(); !ranges.empty() && ranges.back().depth == depth) {
    ranges.pop_back();
  }
  return depth;
}

uint64_t range_start(const std::string& name) {
  uint64_t id = 0;
  OR_CHECK(orTraceRangeStart(name.c_str(), &id));
  return id;
}

void range_end(uint64_t id) {
  OR_CHECK(orTraceRangeEnd(id));
}

void mark(const std::string& name) {
  OR_CHECK(orTraceMark(name.c_str()));
  report_to_profiler(name);
}

}  // namespace openreg
