// No exception crosses the driver's table.
#pragma once

#include "error.h"

#include <exception>
#include <new>

namespace openreg::sim {

template <typename Body>
orError_t noexcept_boundary(Body&& body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return fail(orErrorOutOfHostMemory, "the host has no memory left for the simulated device's bookkeeping");
  } catch (const std::exception& error) {
    return fail(orErrorSystem, "the simulated device met an unexpected exception: %s", error.what());
  } catch (...) {
    return fail(orErrorSystem, "the simulated device met an unexpected exception");
  }
}

}  // namespace openreg::sim
