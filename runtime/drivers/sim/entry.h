// What the entries of the driver's table share.
#pragma once

#include "capture.h"
#include "event.h"
#include "graph.h"
#include "openreg/driver.h"
#include "stream.h"
#include "words.h"

#include <exception>
#include <new>

namespace openreg::sim {

inline Stream& unwrap(orDriverStream* stream) {
  return *reinterpret_cast<Stream*>(stream);
}
inline Event& unwrap(orDriverEvent* event) {
  return *reinterpret_cast<Event*>(event);
}
inline Graph& unwrap(orDriverGraph* graph) {
  return *reinterpret_cast<Graph*>(graph);
}

// Empty, almost always.
inline Ref<Capture> capture_of(orDriverStream* stream) {
  return unwrap(stream).capturing() ? unwrap(stream).capture() : Ref<Capture>();
}

// No exception crosses the table.
template <typename Body>
orError_t guarded(Body&& body) noexcept {
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
