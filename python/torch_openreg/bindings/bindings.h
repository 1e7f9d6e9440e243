// The parts of torch_openreg._C, one function for each file in this folder.
#pragma once

#include "device/device.h"

#include <c10/core/Stream.h>
#include <pybind11/pybind11.h>

namespace py = pybind11;

inline c10::Stream stream_of(int64_t id, int device) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(openreg::kDevice, openreg::checked_index(device)), id);
}

void bind_compiler(py::module_& m);
void bind_distributed(py::module_& m);
void bind_faults(py::module_& m);
void bind_graph(py::module_& m);
void bind_graph_trees(py::module_& m);
void bind_memory(py::module_& m);
void bind_monitor(py::module_& m);
void bind_operators(py::module_& m);  // in host_engine.cpp or cpu_fallback.cpp
void bind_process(py::module_& m);
void bind_races(py::module_& m);
void bind_watchdog(py::module_& m);
void bind_storage(py::module_& m);
void bind_profiler(py::module_& m);
void bind_snapshot(py::module_& m);
