#include "state.h"

#include <algorithm>

namespace openreg::sim {

State& state() {
  static State* state = new State;
  return *state;
}

std::vector<Unfinished> unfinished_work() {
  std::vector<Unfinished> work;
  for (int index = 0; index < device_count(); ++index) {
    for (Ref<Stream>& stream : device_at(index).streams()) {
      if (stream->running_here()) continue;  // only the calling kernel and later work are unfinished
      const uint64_t ticket = stream->submitted();
      if (!stream->finished(ticket)) work.emplace_back(std::move(stream), ticket);
    }
  }
  return work;
}

bool all_finished(const std::vector<Unfinished>& work) {
  return std::ranges::all_of(work, [](const Unfinished& one) { return one.first->finished(one.second); });
}

}  // namespace openreg::sim
