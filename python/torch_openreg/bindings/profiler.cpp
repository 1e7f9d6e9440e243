// Bindings of csrc/profiler: ranges, and the runtime's trace.
#include "bindings.h"
#include "common/check.h"
#include "profiler/ranges.h"
#include "profiler/recorder.h"

#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>

namespace {

using torch::wrap_pybind_function_no_gil;

using IntervalTuple = std::optional<std::pair<int64_t, int64_t>>;

IntervalTuple as_tuple(const std::optional<openreg::Interval>& interval) {
  return interval.has_value() ? IntervalTuple({interval->start_ns, interval->end_ns}) : std::nullopt;
}

// In the order of torch.openreg.profiler.Record.
using RecordTuple = std::tuple<int, std::string, std::string, int, int, uint64_t, size_t, int, IntervalTuple,
                               IntervalTuple, std::string>;

std::vector<RecordTuple> stop_recording() {
  std::vector<RecordTuple> records;
  for (openreg::Activity& a : openreg::stop_recording()) {
    records.emplace_back(a.kind, std::move(a.name), a.function, a.device, a.stream, a.correlation, a.bytes,
                         a.thread, as_tuple(a.call), as_tuple(a.work), orGetErrorName(a.result));
  }
  return records;
}

}  // namespace

void bind_profiler(py::module_& m) {
  m.def("range_push", wrap_pybind_function_no_gil(openreg::range_push));
  m.def("range_pop", wrap_pybind_function_no_gil(openreg::range_pop));
  m.def("range_start", wrap_pybind_function_no_gil(openreg::range_start));
  m.def("range_end", wrap_pybind_function_no_gil(openreg::range_end));
  m.def("mark", wrap_pybind_function_no_gil(openreg::mark));
  m.def("start_recording",
        wrap_pybind_function_no_gil([] { OR_CHECK_RESULT(openreg::start_recording(), orTraceSubscribe); }));
  m.def("stop_recording", wrap_pybind_function_no_gil(stop_recording));
}
