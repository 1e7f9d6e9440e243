// Bindings of csrc/race_check and csrc/memory_check, and the lines of the program for them.
#include "bindings.h"
#include "common/call_site.h"
#include "diagnostics/tensor_access.h"
#include "python_line.h"
#include "race_check/race_check.h"

#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include <unordered_map>

namespace {

namespace races = openreg::races;
using openreg::CallSite;
using torch::wrap_pybind_function_no_gil;

struct Position {
  PyCodeObject* code;
  int offset;
  bool operator==(const Position&) const = default;
};

struct PositionHash {
  size_t operator()(const Position& position) const {
    return std::hash<void*>()(position.code) * 31 + static_cast<size_t>(position.offset);
  }
};

int offset_of(PyFrameObject* frame) {
#if PY_VERSION_HEX >= 0x030b0000
  return PyFrame_GetLasti(frame);
#else
  return PyFrame_GetLineNumber(frame);
#endif
}

// The call site of the innermost frame outside of torch and this package. Each access looks it up, so that
// positions are cached. A cached code object is kept alive: its address identifies it. The caller holds the
// GIL, which guards the caches.
CallSite site_of(PyThreadState* thread) {
  static auto* internal = new std::unordered_map<PyCodeObject*, bool>;
  static auto* sites = new std::unordered_map<Position, CallSite, PositionHash>;
  PyFrameObject* frame = PyThreadState_GetFrame(thread);
  CallSite site = 0;
  while (frame != nullptr) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    auto known = internal->find(code);
    if (known == internal->end()) {
      known = internal->emplace(code, is_internal_frame(frame)).first;
      Py_INCREF(code);
    }
    if (!known->second) {
      const auto [entry, added] = sites->try_emplace({code, offset_of(frame)}, 0);
      if (added) {
        entry->second = openreg::intern_call_site(text_of_frame(frame));
      }
      site = entry->second;
    }
    Py_DECREF(code);
    PyFrameObject* outer = known->second ? PyFrame_GetBack(frame) : nullptr;
    Py_DECREF(frame);
    frame = outer;
  }
  return site;
}

CallSite python_call_site() {
  if (Py_IsInitialized() == 0 || PyGILState_GetThisThreadState() == nullptr) {
    return 0;
  }
  const py::gil_scoped_acquire gil;
  return site_of(PyThreadState_Get());
}

using AccessTuple = std::tuple<std::string, bool, std::string, std::string, std::string>;
using RaceTuple =
    std::tuple<AccessTuple, AccessTuple, uint64_t, uint64_t, std::string, std::string, std::string>;

// In the order of torch.openreg.RaceAccess.
AccessTuple as_tuple(const races::RaceAccess& access) {
  return {access.op, access.write, access.stream, access.site, access.captured_at};
}

// In the order of torch.openreg.Race.
std::vector<RaceTuple> races_from(size_t first) {
  std::vector<RaceTuple> all;
  for (const races::Race& race : races::log().from(first)) {
    all.emplace_back(as_tuple(race.first), as_tuple(race.second), race.begin, race.end - race.begin,
                     race.allocated_at, race.advice, race.text());
  }
  return all;
}

}  // namespace

void bind_races(py::module_& m) {
  openreg::set_call_site_function(&python_call_site);
  m.def("start_race_check", wrap_pybind_function_no_gil(openreg::start_race_check));
  m.def("stop_race_check", wrap_pybind_function_no_gil(openreg::stop_race_check));
  m.def("start_memory_check", wrap_pybind_function_no_gil(openreg::start_memory_check));
  m.def("print_races", wrap_pybind_function_no_gil([](bool on) { races::log().set_printing(on); }));
  m.def("race_count", wrap_pybind_function_no_gil([] { return races::log().size(); }));
  m.def("races_from", wrap_pybind_function_no_gil(races_from));
  m.def("check_host_access",
        wrap_pybind_function_no_gil([](const at::Tensor& tensor, bool write, const std::string& op) {
          openreg::check_host_access(tensor, write, op.c_str());
        }));
}
