#include "profiler/ranges.h"

#include "common/check.h"

#include <ATen/record_function.h>

#include <memory>
#include <utility>
#include <vector>

namespace openreg {
namespace {

thread_local bool telling = false;

class Telling {
 public:
  Telling() : before_(std::exchange(telling, true)) {}
  ~Telling() { telling = before_; }

 private:
  bool before_;
};

std::unique_ptr<at::RecordFunction> tell_profiler(const std::string& name) {
  const Telling scope;
  auto told = std::make_unique<at::RecordFunction>(at::RecordScope::USER_SCOPE);
  if (told->isActive()) {
    told->before(name);
  }
  return told;
}

struct ToldRange {
  int depth;
  std::unique_ptr<at::RecordFunction> told;
};

std::vector<ToldRange>& my_ranges() {
  static thread_local std::vector<ToldRange> ranges;
  return ranges;
}

}  // namespace

bool telling_profiler() {
  return telling;
}

int range_push(const std::string& name) {
  int depth = 0;
  OR_CHECK(orTraceRangePush(name.c_str(), &depth));
  my_ranges().push_back({depth, tell_profiler(name)});
  return depth;
}

int range_pop() {
  int depth = 0;
  OR_CHECK(orTraceRangePop(&depth));
  // A range that somebody pushed with the runtime's own function has no partner here.
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
  tell_profiler(name);
}

}  // namespace openreg
