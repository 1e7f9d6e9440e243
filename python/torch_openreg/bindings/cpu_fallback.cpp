// Bindings of csrc/operators/cpu_fallback.h, in the library without the host engine.
#include "operators/cpu_fallback.h"

#include "bindings.h"

#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>

using torch::wrap_pybind_function_no_gil;

void bind_operators(py::module_& m) {
  m.attr("HOST_ENGINE") = false;
  m.def("cpu_fallbacks", wrap_pybind_function_no_gil(openreg::cpu_fallbacks));
}
