#include "random/replay.h"

#include "common/check.h"

#include <algorithm>
#include <unordered_map>

namespace openreg {
namespace {

struct Captures {
  std::mutex mutex;  // guards replays
  std::unordered_map<uint64_t, c10::intrusive_ptr<RandomReplay>> replays;
};

Captures& captures() {
  static auto* made = new Captures;
  return *made;
}

// The arguments of the kernel that writes a cell. They keep the cell alive.
struct Write {
  RandomReplay* owner;  // a counted reference
  RandomState* cell;
  RandomState value;

  static orError_t run(void* args, char*, size_t) {
    const auto& write = *static_cast<const Write*>(args);
    *write.cell = write.value;
    return orSuccess;
  }
  static void release(void* args) { c10::raw::intrusive_ptr::decref(static_cast<const Write*>(args)->owner); }
};

constexpr orKernel kWrite = {"graph RNG state", &Write::run, &Write::release};

}  // namespace

void RandomReplay::begin(uint64_t capture, c10::intrusive_ptr<RandomReplay> replay) {
  std::lock_guard<std::mutex> lock(captures().mutex);
  captures().replays.emplace(capture, std::move(replay));
}

void RandomReplay::end(uint64_t capture) {
  std::lock_guard<std::mutex> lock(captures().mutex);
  captures().replays.erase(capture);
}

c10::intrusive_ptr<RandomReplay> RandomReplay::of(uint64_t capture) {
  std::lock_guard<std::mutex> lock(captures().mutex);
  const auto found = captures().replays.find(capture);
  return found == captures().replays.end() ? nullptr : found->second;
}

RandomReplay::Cell& RandomReplay::cell_of(const c10::intrusive_ptr<RandomSource>& source) {
  auto found =
      std::find_if(cells_.begin(), cells_.end(), [&](const auto& cell) { return cell->source == source; });
  if (found == cells_.end()) {
    cells_.push_back(std::make_unique<Cell>(Cell{source}));
    found = cells_.end() - 1;
  }
  return **found;
}

uint64_t RandomReplay::position(const c10::intrusive_ptr<RandomSource>& source) {
  std::lock_guard<std::mutex> lock(mutex_);
  return cell_of(source).next;
}

void RandomReplay::set_position(const c10::intrusive_ptr<RandomSource>& source, uint64_t position) {
  std::lock_guard<std::mutex> lock(mutex_);
  Cell& cell = cell_of(source);
  cell.next = position;
  cell.used = std::max(cell.used, position);
}

PhiloxState RandomReplay::reserve(const c10::intrusive_ptr<RandomSource>& source) {
  std::lock_guard<std::mutex> lock(mutex_);
  Cell& cell = cell_of(source);
  PhiloxState place;
  place.state.offset = cell.next;
  place.base = &cell.base;
  place.owner = c10::intrusive_ptr<c10::intrusive_ptr_target>::reclaim_copy(this);
  cell.next += kNumbersPerLaunch;
  cell.used = std::max(cell.used, cell.next);
  return place;
}

void RandomReplay::place(orStream_t stream) {
  for (const auto& cell : cells_) {
    const Write write{this, &cell->base, cell->source->reserve(cell->used)};
    c10::raw::intrusive_ptr::incref(this);
    const orError_t error = orLaunchKernel(stream, &kWrite, &write, sizeof(write));
    if (error != orSuccess) {
      c10::raw::intrusive_ptr::decref(this);
      OR_CHECK(error);
    }
  }
}

}  // namespace openreg
