// The devices of the process.
//
// Created by the driver's init and leaked: threads may use them while the process exits.
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

/// A stream and the ticket that it has to complete.
using Unfinished = std::pair<Ref<Stream>, uint64_t>;

/// Unfinished work of all devices, except of streams whose kernel is the caller.
std::vector<Unfinished> unfinished_work();
bool all_finished(const std::vector<Unfinished>& work);

}  // namespace openreg::sim
