// Helpers of the entries of the driver table.
#pragma once

#include "capture.h"
#include "event.h"
#include "graph.h"
#include "noexcept_boundary.h"
#include "openreg/driver.h"
#include "stream.h"

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

// Empty unless the stream is captured.
inline Ref<Capture> capture_of(orDriverStream* stream) {
  return unwrap(stream).capturing() ? unwrap(stream).capture() : Ref<Capture>();
}

}  // namespace openreg::sim
