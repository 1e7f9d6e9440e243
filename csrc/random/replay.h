// Random numbers in graphs.
//
// Note [Random numbers in graphs]
// During a capture, the positions from which its launches will draw are unknown: each replay continues at the
// generator's current position. So a captured launch stores its offset from the start of the replay. A replay
// first reserves from each generator as many positions as the graph uses, and writes the start position to a
// cell that the launches read. The write is in stream order, before the graph runs. So every replay draws new
// numbers, and the same seed reproduces them. This applies to every generator that is used in a capture.
//
// During a capture, the state of a generator is its position in the replay, marked with kInCapture. So
// checkpoints (torch.utils.checkpoint) can be captured: the recomputation draws at the positions of the
// forward. Such a state is valid only in captures, and other states only outside of them.
//
// Thread safety: begin and end may be called from any thread, place by one replay at a time.
#pragma once

#include "random/generator.h"

#include <c10/util/intrusive_ptr.h>
#include <openreg/openreg.h>

#include <memory>
#include <mutex>
#include <vector>

namespace openreg {

/// The random sources of one graph. Generators that share their state have one source.
class RandomReplay final : public c10::intrusive_ptr_target {
 public:
  /// From begin to end, the launches of that capture reserve positions from `replay`.
  static void begin(uint64_t capture, c10::intrusive_ptr<RandomReplay> replay);
  static void end(uint64_t capture);
  /// The RandomReplay of the capture, or null.
  static c10::intrusive_ptr<RandomReplay> of(uint64_t capture);

  /// Reserves the position of a captured launch that draws `numbers`, a multiple of kNumbersPerLaunch.
  PhiloxState reserve(const c10::intrusive_ptr<RandomSource>& source, uint64_t numbers = kNumbersPerLaunch);
  /// Captures a kernel that stores the start position of each replay in device memory.
  static void store_base(const PhiloxState& place, at::Tensor& seed, at::Tensor& offset, orStream_t stream);

  /// The position of the next launch, from the start of the replay.
  uint64_t position(const c10::intrusive_ptr<RandomSource>& source);
  void set_position(const c10::intrusive_ptr<RandomSource>& source, uint64_t position);

  bool empty() const { return cells_.empty(); }
  /// Reserves the positions of one replay, and enqueues the writes of the cells.
  void place(orStream_t stream);

 private:
  struct Cell {
    c10::intrusive_ptr<RandomSource> source;
    uint64_t next = 0;   // position of the next launch
    uint64_t used = 0;   // numbers per replay: the largest `next`
    RandomState base{};  // start position of the running replay
  };

  Cell& cell_of(const c10::intrusive_ptr<RandomSource>& source);

  std::mutex mutex_;  // guards cells_ during the capture
  std::vector<std::unique_ptr<Cell>> cells_;
};

}  // namespace openreg
