// Converts exceptions to error codes: no exception crosses the driver table.
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
    return fail(orErrorOutOfHostMemory, "out of host memory in the simulated device");
  } catch (const std::exception& error) {
    return fail(orErrorSystem, "unexpected exception in the simulated device: %s", error.what());
  } catch (...) {
    return fail(orErrorSystem, "unexpected exception in the simulated device");
  }
}

}  // namespace openreg::sim
