// Random numbers in a graph.
//
// Note [Random numbers in graphs]
// While a stream is captured nobody knows from where its launches will draw: each replay goes on where the
// generator then is. So a captured launch takes its distance from the beginning of the replay, and a replay
// first takes as many places from each generator as the graph will use, and writes where they begin into a
// cell that the launches read. The cell is written in stream order, before the graph runs. So every replay
// gives new numbers, and a seed repeats them. Any generator that is used in a capture takes part.
//
// Thread safety: begin and end from any thread. place is called by one replay at a time.
#pragma once

#include "random/generator.h"

#include <c10/util/intrusive_ptr.h>
#include <openreg/openreg.h>

#include <memory>
#include <mutex>
#include <vector>

namespace openreg {

/// The generators that one graph uses, or rather what they draw from: some share it.
class RandomReplay final : public c10::intrusive_ptr_target {
 public:
  /// The capture with that number draws through `replay`, from begin to end.
  static void begin(uint64_t capture, c10::intrusive_ptr<RandomReplay> replay);
  static void end(uint64_t capture);
  /// What the capture draws through; null if it draws from the generators themselves.
  static c10::intrusive_ptr<RandomReplay> of(uint64_t capture);

  /// The place of a captured launch.
  RandomPlace reserve(const c10::intrusive_ptr<RandomSource>& source);

  bool empty() const { return cells_.empty(); }
  /// Takes what one replay needs, and queues the writing of the cells.
  void place(orStream_t stream);

 private:
  struct Cell {
    c10::intrusive_ptr<RandomSource> source;
    uint64_t used = 0;   // by one replay
    RandomState base{};  // of the replay that runs
  };

  std::mutex mutex_;  // guards cells_ during the capture
  std::vector<std::unique_ptr<Cell>> cells_;
};

}  // namespace openreg
