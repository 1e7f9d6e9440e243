// Bindings of openreg/faults.h, and its hooks: the Python line of a call, the GIL, and the log.
#include "bindings.h"
#include "common/check.h"
#include "python_line.h"
#include "stream/stream.h"

#include <openreg/faults.h>
#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>

#include <atomic>
#include <cstdio>
#include <fcntl.h>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unistd.h>
#include <vector>

namespace {

using torch::wrap_pybind_function_no_gil;

// The fields of orFaultRule after struct_size; see _fault_rules.py. The code is a name, or empty.
using RuleFields = std::tuple<int32_t, int64_t, std::string, std::optional<std::string>, uint64_t, uint64_t,
                              uint64_t, uint64_t, uint64_t, double, uint64_t, int, std::string, uint64_t,
                              std::optional<std::string>, int64_t>;

const std::map<std::string, orError_t>& error_codes() {
#define OR_NAMED_CODE(name, number, class_, text) {#name, name},
  static const auto* codes = new std::map<std::string, orError_t>{OR_ERRORS(OR_NAMED_CODE)};
#undef OR_NAMED_CODE
  return *codes;
}

orError_t code_of(const std::string& name) {
  if (name.empty()) return orSuccess;
  const auto found = error_codes().find(name);
  TORCH_CHECK_VALUE(found != error_codes().end(), "unknown error code '", name,
                    "': expected a name of error.h, such as orErrorSystem");
  return found->second;
}

const char* or_null(const std::optional<std::string>& text) {
  return text ? text->c_str() : nullptr;
}

uint64_t add_faults(const std::vector<RuleFields>& given) {
  std::vector<orFaultRule> rules;
  for (const auto& [device, stream, call, kernel, min_size, max_size, nth, every, times, probability, seed,
                    action, code, delay_ns, message, bit] : given) {
    rules.push_back({sizeof(orFaultRule), device, stream, call.c_str(), or_null(kernel), min_size, max_size,
                     nth, every, times, probability, seed, static_cast<orFaultAction>(action), code_of(code),
                     delay_ns, or_null(message), bit});
  }
  uint64_t set = 0;
  const orError_t error = orFaultsAdd(rules.data(), rules.size(), &set);
  TORCH_CHECK_VALUE(error != orErrorInvalidValue, orGetLastErrorMessage());
  OR_CHECK_RESULT(error, orFaultsAdd);
  return set;
}

std::vector<std::pair<uint64_t, uint64_t>> fault_counts(uint64_t set) {
  std::vector<std::pair<uint64_t, uint64_t>> counts;
  uint64_t matched = 0, fired = 0;
  while (orFaultsGetCounts(set, counts.size(), &matched, &fired) == orSuccess) {
    counts.emplace_back(matched, fired);
  }
  return counts;
}

std::vector<std::string> fault_calls() {
  std::vector<std::string> names;
  while (const char* name = orFaultsGetCallName(names.size())) names.emplace_back(name);
  return names;
}

void write_site(char* buffer, size_t size) {
  std::snprintf(buffer, size, "%s", python_line_under_locks().c_str());
}

void* release_gil() {
  return Py_IsInitialized() != 0 && PyGILState_Check() != 0 ? PyEval_SaveThread() : nullptr;
}

void acquire_gil(void* state) {
  if (state != nullptr) PyEval_RestoreThread(static_cast<PyThreadState*>(state));
}

std::atomic<int> log_file{-1};

// One line per rule that fires, written before it acts, since the process may crash or hang.
void write_log(const orFaultRecord* record) {
  const int file = log_file.load(std::memory_order_acquire);
  if (file < 0) return;
  char line[1024];
  const int length = std::snprintf(
      line, sizeof(line), "%ld\t%zu\t%llu\t%s\t%d\t%s\n", static_cast<long>(getpid()), record->rule,
      static_cast<unsigned long long>(record->match), record->call, record->device, record->site);
  if (length > 0) (void)!write(file, line, std::min(sizeof(line) - 1, static_cast<size_t>(length)));
}

void open_fault_log(const std::string& path) {
  const int file = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  TORCH_CHECK_VALUE(file >= 0, "cannot open '", path, "' to append to it");
  const int before = log_file.exchange(file);
  if (before >= 0) close(before);
}

}  // namespace

void bind_faults(py::module_& m) {
  orFaultHooks hooks{};
  hooks.struct_size = sizeof(hooks);
  hooks.site = &write_site;
  hooks.enter_wait = &release_gil;
  hooks.leave_wait = &acquire_gil;
  hooks.fired = &write_log;
  OR_CHECK(orFaultsSetHooks(&hooks));
  m.def("add_faults", wrap_pybind_function_no_gil(add_faults));
  m.def("remove_faults", wrap_pybind_function_no_gil([](uint64_t set) { OR_CHECK(orFaultsRemove(set)); }));
  m.def("fault_counts", wrap_pybind_function_no_gil(fault_counts));
  m.def("fault_calls", wrap_pybind_function_no_gil(fault_calls));
  m.def("release_faults", wrap_pybind_function_no_gil([](bool forever) {
          if (forever) stop_python_lines();
          OR_CHECK(orFaultsRelease(forever ? 1 : 0));
        }));
  m.def("restore_device", wrap_pybind_function_no_gil([](int device) {
          OR_CHECK(orFaultsRestoreDevice(openreg::checked_index(device)));
        }));
  m.def("open_fault_log", wrap_pybind_function_no_gil(open_fault_log));
  m.def("stream_number", wrap_pybind_function_no_gil([](int64_t id, int device) {
          uint64_t number = 0;
          OR_CHECK(orStreamGetId(openreg::stream_handle(stream_of(id, device)), &number));
          return number;
        }));
  m.def("error_codes", [] { return std::map<std::string, int>(error_codes().begin(), error_codes().end()); });
}
