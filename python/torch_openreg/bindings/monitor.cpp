// Bindings of csrc/diagnostics and of the support status of operators.
#include "bindings.h"
#include "diagnostics/op_stats.h"
#include "diagnostics/sync_debug.h"
#include "operators/op_support.h"

#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>

namespace {

using openreg::SyncDebugMode;
using torch::wrap_pybind_function_no_gil;

using RecordTuple = std::tuple<uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, double>;

// In the order of torch.openreg.OperatorStats.
RecordTuple as_tuple(const openreg::OperatorRecord& r) {
  return {r.calls, r.launches, r.hits, r.misses, r.waits, r.bytes, static_cast<double>(r.host_ns) * 1e-9};
}

std::map<std::string, RecordTuple> operator_records() {
  std::map<std::string, RecordTuple> records;
  for (const auto& [name, record] : openreg::operator_records()) {
    records.emplace(name, as_tuple(record));
  }
  return records;
}

}  // namespace

void bind_monitor(py::module_& m) {
  m.def("operator_totals", wrap_pybind_function_no_gil([] {
          const openreg::OperatorTotals t = openreg::operator_totals();
          return std::tuple(t.launches, t.hits, t.misses, t.waits);
        }));
  m.def("record_operators", wrap_pybind_function_no_gil(openreg::record_operators));
  m.def("operator_records", wrap_pybind_function_no_gil(operator_records));
  m.def("reset_operator_records", wrap_pybind_function_no_gil(openreg::reset_operator_records));
  m.def("set_sync_debug_mode", wrap_pybind_function_no_gil([](int response) {
          openreg::set_sync_debug_mode(static_cast<SyncDebugMode>(response));
        }));
  m.def("sync_debug_mode",
        wrap_pybind_function_no_gil([] { return static_cast<int>(openreg::sync_debug_mode()); }));
  m.def("reported_syncs", wrap_pybind_function_no_gil(openreg::reported_syncs));
  m.def("set_fallback_mode", wrap_pybind_function_no_gil([](int response, std::vector<std::string> allowed) {
          openreg::set_fallback_mode(static_cast<SyncDebugMode>(response), std::move(allowed));
        }));
  m.def("fallback_mode", wrap_pybind_function_no_gil([] {
          auto [response, allowed] = openreg::fallback_mode();
          return std::pair(static_cast<int>(response), std::move(allowed));
        }));
  m.def("op_support", wrap_pybind_function_no_gil([](const std::string& name_space) {
          std::vector<std::tuple<std::string, std::string, bool>> all;
          for (openreg::OpSupport& op : openreg::op_support(name_space)) {
            all.emplace_back(std::move(op.name), std::move(op.support), op.depends_on_data);
          }
          return all;
        }));
}
