#include "race_check/access.h"

#include <algorithm>

namespace openreg::races {
namespace {

// overlap() compares each run of one tensor with the other tensor. Above this number of runs it gives up.
constexpr uintptr_t kMostRuns = 1 << 16;

using Dimensions = std::vector<Geometry::Dimension>;

uintptr_t extent(std::span<const Geometry::Dimension> dimensions, uintptr_t run) {
  uintptr_t bytes = run;
  for (const Geometry::Dimension& dimension : dimensions) {
    bytes += (dimension.count - 1) * dimension.stride;
  }
  return bytes;
}

// Whether a run intersects [lo, hi), which is relative to the first run. The dimensions are nested: the inner
// ones fit into the stride of each outer one.
bool intersects(std::span<const Geometry::Dimension> dimensions, uintptr_t run, uintptr_t lo, uintptr_t hi) {
  if (dimensions.empty()) {
    return lo < run && hi > 0;
  }
  const auto [count, stride] = dimensions.front();
  const auto inner = dimensions.subspan(1);
  const uintptr_t length = extent(inner, run);
  uintptr_t first = lo < length ? 0 : (lo - length) / stride + 1;
  const uintptr_t last = std::min(count - 1, (hi - 1) / stride);
  for (; first <= last; ++first) {
    const uintptr_t at = first * stride;
    if (at >= lo && at < hi) {
      return true;  // the first byte of a run
    }
    if (at < hi && at + length > lo && intersects(inner, run, lo > at ? lo - at : 0, hi - at)) {
      return true;
    }
  }
  return false;
}

bool intersects(const Access& access, uintptr_t lo, uintptr_t hi) {
  lo = std::max(lo, access.begin);
  hi = std::min(hi, access.end);
  if (lo >= hi) {
    return false;
  }
  return access.geometry == nullptr ||
         intersects(access.geometry->dimensions, access.geometry->run, lo - access.begin, hi - access.begin);
}

uintptr_t runs_of(const Access& access) {
  uintptr_t runs = 1;
  if (access.geometry != nullptr) {
    for (const Geometry::Dimension& dimension : access.geometry->dimensions) {
      runs *= dimension.count;
      if (runs > kMostRuns) {
        return kMostRuns + 1;
      }
    }
  }
  return runs;
}

bool any_run_intersects(const Access& other, std::span<const Geometry::Dimension> dimensions, uintptr_t run,
                        uintptr_t at) {
  if (dimensions.empty()) {
    return intersects(other, at, at + run);
  }
  const auto [count, stride] = dimensions.front();
  for (uintptr_t i = 0; i < count; ++i) {
    if (any_run_intersects(other, dimensions.subspan(1), run, at + i * stride)) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool make_access(uintptr_t data, std::span<const int64_t> sizes, std::span<const int64_t> strides,
                 size_t itemsize, uintptr_t storage, size_t storage_bytes, bool write, Access* access) {
  Dimensions dimensions;
  uintptr_t dense = itemsize;  // the bytes of a tensor without gaps
  uintptr_t span = itemsize;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) {
      return false;
    }
    if (sizes[i] == 1 || strides[i] == 0) {
      continue;
    }
    const auto count = static_cast<uintptr_t>(sizes[i]);
    const uintptr_t stride = static_cast<uintptr_t>(strides[i]) * itemsize;
    dense *= count;
    span += (count - 1) * stride;
    dimensions.push_back({count, stride});
  }
  *access = {data, data + span, storage, storage + storage_bytes, write, nullptr};
  if (span <= dense) {
    return true;  // without gaps, or overlapping itself: the elements of a window view fill the span
  }
  std::ranges::sort(dimensions, std::ranges::greater{}, &Geometry::Dimension::stride);
  uintptr_t run = itemsize;
  while (!dimensions.empty() && dimensions.back().stride == run) {
    run *= dimensions.back().count;
    dimensions.pop_back();
  }
  uintptr_t inner = run;
  for (size_t i = dimensions.size(); i-- > 0;) {
    if (dimensions[i].stride < inner) {
      access->end = data + run;  // overlaps itself and has gaps: only these bytes are certain
      return true;
    }
    inner += (dimensions[i].count - 1) * dimensions[i].stride;
  }
  access->geometry = std::make_shared<Geometry>(Geometry{std::move(dimensions), run});
  return true;
}

bool covers(const Access& outer, const Access& inner) {
  if (outer.geometry == nullptr) {
    return outer.begin <= inner.begin && inner.end <= outer.end;
  }
  return outer.begin == inner.begin && outer.end == inner.end && inner.geometry != nullptr &&
         *outer.geometry == *inner.geometry;
}

bool overlap(const Access& a, const Access& b) {
  if (a.begin >= b.end || b.begin >= a.end) {
    return false;
  }
  const uintptr_t runs_a = runs_of(a);
  const uintptr_t runs_b = runs_of(b);
  const Access& fewer = runs_a <= runs_b ? a : b;
  const Access& other = runs_a <= runs_b ? b : a;
  if (fewer.geometry == nullptr) {
    return intersects(other, fewer.begin, fewer.end);
  }
  return std::min(runs_a, runs_b) <= kMostRuns &&
         any_run_intersects(other, fewer.geometry->dimensions, fewer.geometry->run, fewer.begin);
}

}  // namespace openreg::races
