// The devices of the process.
//
// Made by the driver's init and leaked, as everything that threads may still use while the process exits.
#pragma once

#include "config.h"
#include "device.h"

#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

namespace openreg::sim {

struct State {
  Config config;
  Device* devices = nullptr;
  std::mutex open_mutex;  // serializes opening and closing
};

State& state();

inline Device& device_at(int index) {
  return state().devices[index];
}
inline int device_count() {
  return state().config.device_count;
}

/// A stream, and how far it has to come.
using Unfinished = std::pair<Ref<Stream>, uint64_t>;

/// What is submitted to any device and not finished, but for streams whose work is calling this.
std::vector<Unfinished> unfinished_work();
bool all_finished(const std::vector<Unfinished>& work);

}  // namespace openreg::sim
