// The parts of torch_openreg._C, one function for each file here.
#pragma once

#include <pybind11/pybind11.h>

namespace py = pybind11;

void bind_graph(py::module_& m);
void bind_memory(py::module_& m);
void bind_monitor(py::module_& m);
void bind_process(py::module_& m);
void bind_storage(py::module_& m);
void bind_profiler(py::module_& m);
void bind_snapshot(py::module_& m);
