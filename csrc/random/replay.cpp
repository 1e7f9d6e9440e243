#include "random/replay.h"

#include "common/check.h"
#include "memory/kernel_view.h"

#include <ATen/core/Tensor.h>

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

// The arguments of the kernel that copies a cell to device memory.
struct Store {
  c10::intrusive_ptr_target* owner;  // a counted reference
  const RandomState* cell;
  uint64_t* seed;
  uint64_t* offset;

  static orError_t run(void* args, char*, size_t) {
    const auto& store = *static_cast<const Store*>(args);
    *store.seed = store.cell->seed;
    *store.offset = store.cell->offset;
    return orSuccess;
  }
  static void release(void* args) { c10::raw::intrusive_ptr::decref(static_cast<const Store*>(args)->owner); }
};

constexpr orKernel kStore = {"philox_state", &Store::run, &Store::release};

// Launches a kernel whose arguments have a counted reference.
template <typename Args>
void launch(orStream_t stream, const orKernel& kernel, const Args& args) {
  c10::raw::intrusive_ptr::incref(args.owner);
  const orError_t error = orLaunchKernel(stream, &kernel, &args, sizeof(args));
  if (error != orSuccess) {
    c10::raw::intrusive_ptr::decref(args.owner);
    OR_CHECK_RESULT(error, orLaunchKernel);
  }
}

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

PhiloxState RandomReplay::reserve(const c10::intrusive_ptr<RandomSource>& source, uint64_t numbers) {
  std::lock_guard<std::mutex> lock(mutex_);
  Cell& cell = cell_of(source);
  TORCH_CHECK(cell.next + numbers >= cell.next,
              "a graph cannot reserve 2**64 random numbers or more: it has ", cell.next,
              ", and a launch needs ", numbers);
  PhiloxState place;
  place.state.offset = cell.next;
  place.base = &cell.base;
  place.owner = c10::intrusive_ptr<c10::intrusive_ptr_target>::reclaim_copy(this);
  cell.next += numbers;
  cell.used = std::max(cell.used, cell.next);
  return place;
}

void RandomReplay::store_base(const PhiloxState& place, at::Tensor& seed, at::Tensor& offset,
                              orStream_t stream) {
  const auto address = [](at::Tensor& tensor) {
    return static_cast<uint64_t*>(kernel_view(tensor.mutable_data_ptr()));
  };
  launch(stream, kStore, Store{place.owner.get(), place.base, address(seed), address(offset)});
}

void RandomReplay::place(orStream_t stream) {
  for (const auto& cell : cells_) {
    launch(stream, kWrite, Write{this, &cell->base, cell->source->reserve(cell->used)});
  }
}

}  // namespace openreg
