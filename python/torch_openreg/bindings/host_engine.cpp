// Bindings of csrc/host_engine, and its registration.
#include "bindings.h"
#include "host_engine/engine.h"
#include "host_engine/ops/op_rules.h"

#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>

using torch::wrap_pybind_function_no_gil;

void bind_operators(py::module_& m) {
  openreg::register_engine();
  m.attr("HOST_ENGINE") = true;
  m.def("op_rule_matches", wrap_pybind_function_no_gil([] {
          std::vector<std::tuple<std::string, std::string, std::string, size_t>> all;
          for (openreg::OpRuleMatches& rule : openreg::op_rule_matches()) {
            all.emplace_back(std::move(rule.pattern), std::move(rule.reason), std::move(rule.torch),
                             rule.matches);
          }
          return all;
        }));
}
