// torch_openreg._C: bindings of csrc/. The GIL is released while csrc/ locks or waits.
#include "autograd/drain_autograd_threads.h"
#include "bindings.h"
#include "common/check.h"
#include "common/gil_release.h"
#include "device/device.h"
#include "event/event.h"
#include "kernel/launch_site.h"
#include "python_line.h"
#include "random/generator.h"
#include "random/philox.h"
#include "stream/schedule.h"
#include "stream/stream.h"

#include <ATen/Context.h>
#include <pybind11/stl.h>
#include <torch/csrc/Event.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Generator.h>

#include <string>
#include <tuple>

namespace {

using torch::wrap_pybind_function_no_gil;

int exchange_device(int device) {
  return openreg::exchange_device(openreg::checked_index(device));
}

int maybe_exchange_device(int device) {
  return device < 0 ? openreg::current_device() : exchange_device(device);
}

void bind_driver(py::module_& m) {
  m.def("driver_info", wrap_pybind_function_no_gil([] {
          orDriverInfo info{};
          info.struct_size = sizeof(info);
          OR_CHECK(orGetDriverInfo(&info));
          return std::tuple<std::string, std::string, uint32_t, uint32_t, uint64_t>(
              info.name, info.path, info.version, info.runtime_version, info.capabilities);
        }));
}

void bind_devices(py::module_& m) {
  m.def("device_count",
        wrap_pybind_function_no_gil([] { return static_cast<int>(openreg::device_count()); }));
  m.def("finish", wrap_pybind_function_no_gil([] {
          openreg::drain_autograd_threads();
          openreg::finish_all_devices();
        }));
  m.def("init", wrap_pybind_function_no_gil([] {
          // Not only openreg::ensure_a_device: until torch has initialized a device, no memory is pinned for
          // it.
          at::globalContext().lazyInitDevice(openreg::kDevice);
        }));
  m.def("current_device",
        wrap_pybind_function_no_gil([] { return static_cast<int>(openreg::current_device()); }));
  m.def("set_device",
        wrap_pybind_function_no_gil([](int device) { openreg::set_device(openreg::checked_index(device)); }));
  m.def("exchange_device", wrap_pybind_function_no_gil(exchange_device));
  m.def("maybe_exchange_device", wrap_pybind_function_no_gil(maybe_exchange_device));
  m.def("synchronize", wrap_pybind_function_no_gil(
                           [](int device) { openreg::synchronize_device(openreg::checked_index(device)); }));
  m.def("is_open", wrap_pybind_function_no_gil(
                       [](int device) { return openreg::device_is_open(openreg::checked_index(device)); }));
  m.def("device_properties",
        wrap_pybind_function_no_gil([](int device) { return openreg::device_properties(device); }));
  py::class_<orDeviceProperties>(m, "DeviceProperties", "Properties of a device. Sizes are in bytes.")
      .def_property_readonly("name", [](const orDeviceProperties& p) { return std::string(p.name); })
      .def_readonly("total_memory", &orDeviceProperties::total_memory)
      .def_readonly("allocation_granularity", &orDeviceProperties::allocation_granularity)
      .def_readonly("major", &orDeviceProperties::major)
      .def_readonly("minor", &orDeviceProperties::minor)
      .def_readonly("least_priority", &orDeviceProperties::least_priority)
      .def_readonly("greatest_priority", &orDeviceProperties::greatest_priority)
      .def_readonly("multi_processor_count", &orDeviceProperties::multi_processor_count)
      .def("__repr__", [](const orDeviceProperties& p) {
        return "DeviceProperties(name='" + std::string(p.name) + "', major=" + std::to_string(p.major) +
               ", minor=" + std::to_string(p.minor) +
               ", total_memory=" + std::to_string(p.total_memory >> 20) +
               "MB, multi_processor_count=" + std::to_string(p.multi_processor_count) + ")";
      });
}

double elapsed_time(const py::object& start, const py::object& end) {
  HANDLE_TH_ERRORS
  for (const py::object& event : {start, end}) {
    TORCH_CHECK_TYPE(THPEvent_Check(event.ptr()), "expected a torch.Event, got ",
                     Py_TYPE(event.ptr())->tp_name);
  }
  const c10::Event& first = reinterpret_cast<THPEvent*>(start.ptr())->event;
  const c10::Event& last = reinterpret_cast<THPEvent*>(end.ptr())->event;
  // Before the first record there is no runtime event to ask, so the flags of torch's events are checked.
  for (const c10::Event* event : {&first, &last}) {
    TORCH_CHECK_VALUE(event->flag() == c10::EventFlag::BACKEND_DEFAULT,
                      "Both events must be created with argument 'enable_timing=True': the ",
                      event == &first ? "start" : "end", " event was created without timing.");
  }
  const py::gil_scoped_release no_gil;
  return openreg::elapsed_time(first.eventId(), last.eventId());
  END_HANDLE_TH_ERRORS_PYBIND
}

void bind_streams(py::module_& m) {
  m.def("default_stream_id", wrap_pybind_function_no_gil([](int device) {
          return openreg::default_stream(openreg::checked_index(device)).id();
        }));
  m.def("stream_priority", wrap_pybind_function_no_gil([](int64_t id, int device) {
          return openreg::stream_priority(stream_of(id, device));
        }));
  m.def("sleep", wrap_pybind_function_no_gil([](int64_t cycles) {
          openreg::sleep_on_stream(openreg::current_stream(openreg::current_device()), cycles);
        }));
  m.def("external_stream_id", wrap_pybind_function_no_gil([](uintptr_t handle) {
          const c10::Stream stream = openreg::external_stream(reinterpret_cast<orStream_t>(handle));
          return std::pair<int64_t, int>(stream.id(), stream.device_index());
        }));
  m.def("elapsed_time", elapsed_time);
  m.def("set_schedule", wrap_pybind_function_no_gil([](int schedule, uint64_t seed) {
          openreg::set_schedule(static_cast<orSchedule>(schedule), seed);
        }));
  m.def("get_schedule", wrap_pybind_function_no_gil([] {
          const auto [schedule, seed] = openreg::schedule_and_seed();
          return std::pair<int, uint64_t>(schedule, seed);
        }));
}

// For csrc/common/gil_release.h.
void* release_gil() {
  return Py_IsInitialized() != 0 && PyGILState_Check() != 0 ? PyEval_SaveThread() : nullptr;
}

void acquire_gil(void* state) {
  PyEval_RestoreThread(static_cast<PyThreadState*>(state));
}

void bind_random(py::module_& m) {
  m.def("default_generator", [](int device) {
    HANDLE_TH_ERRORS
    return py::reinterpret_steal<py::object>(
        THPGenerator_initDefaultGenerator(openreg::default_generator(openreg::checked_index(device))));
    END_HANDLE_TH_ERRORS_PYBIND
  });
  m.def("philox", &openreg::philox, "Four random words from a counter and a key; for tests.");
}

}  // namespace

PYBIND11_MODULE(_C, m) {
  bind_operators(m);
  bind_driver(m);
  bind_devices(m);
  bind_streams(m);
  bind_random(m);
  openreg::set_launch_site_function(&python_line_or_nothing);
  openreg::set_gil_hooks({&release_gil, &acquire_gil});
  bind_compiler(m);
  bind_distributed(m);
  bind_faults(m);
  bind_graph(m);
  bind_graph_trees(m);
  bind_memory(m);
  bind_monitor(m);
  bind_process(m);
  bind_races(m);
  bind_watchdog(m);
  bind_storage(m);
  bind_profiler(m);
  bind_snapshot(m);
}
