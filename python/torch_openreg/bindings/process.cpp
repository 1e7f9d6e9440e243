// Bindings of csrc/process and of interprocess events. Handles are bytes.
#include "bindings.h"
#include "device/device.h"
#include "event/event.h"
#include "process/receive.h"
#include "process/share.h"
#include "stream/stream.h"

#include <pybind11/stl.h>
#include <torch/csrc/Event.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Storage.h>

namespace {

using torch::wrap_pybind_function_no_gil;

using Message = std::tuple<int, size_t, py::bytes, std::vector<py::bytes>>;

Message share_storage(const py::object& storage) {
  HANDLE_TH_ERRORS
  TORCH_CHECK_TYPE(THPStorage_Check(storage.ptr()), "expected a torch.UntypedStorage");
  const c10::Storage unpacked = THPStorage_Unpack(storage.ptr());
  openreg::SharedStorage shared;
  {
    const py::gil_scoped_release no_gil;
    shared = openreg::share_storage(unpacked);
  }
  std::vector<py::bytes> events(shared.events.begin(), shared.events.end());
  return {shared.device, shared.bytes, py::bytes(shared.memory), std::move(events)};
  END_HANDLE_TH_ERRORS_PYBIND
}

py::object receive_storage(int device, size_t bytes, const std::string& memory,
                           std::vector<std::string> events) {
  HANDLE_TH_ERRORS
  c10::Storage storage;
  {
    const py::gil_scoped_release no_gil;
    storage = openreg::receive_storage({openreg::checked_index(device), bytes, memory, std::move(events)});
  }
  return py::reinterpret_steal<py::object>(THPStorage_Wrap(std::move(storage)));
  END_HANDLE_TH_ERRORS_PYBIND
}

// Makes an unrecorded torch.Event own the runtime's event `handle`.
void take_ownership(const py::object& event, void* handle, c10::DeviceIndex device) {
  const openreg::EventImportScope scope(handle);
  TORCH_CHECK_TYPE(THPEvent_Check(event.ptr()), "expected a torch.Event");
  reinterpret_cast<THPEvent*>(event.ptr())->event.record(openreg::current_stream(device));
}

}  // namespace

void bind_process(py::module_& m) {
  m.def("share_storage", share_storage);
  m.def("receive_storage", receive_storage);
  m.def("collect_shared", wrap_pybind_function_no_gil(openreg::collect_shared));
  m.def("make_event", [](const py::object& event, int device, bool timing, bool interprocess, bool external) {
    HANDLE_TH_ERRORS
    const c10::DeviceIndex index = openreg::checked_index(device);
    const unsigned flags = (timing ? orEventDefault : orEventDisableTiming) |
                           (interprocess ? orEventInterprocess : orEventDefault) |
                           (external ? orEventExternal : orEventDefault);
    take_ownership(event, openreg::make_event(index, flags), index);
    END_HANDLE_TH_ERRORS_PYBIND
  });
  m.def("open_interprocess_event", [](const py::object& event, int device, const std::string& handle) {
    HANDLE_TH_ERRORS
    const c10::DeviceIndex index = openreg::checked_index(device);
    take_ownership(event, openreg::open_event(handle, index), index);
    END_HANDLE_TH_ERRORS_PYBIND
  });
  m.def("event_ipc_handle", [](uintptr_t event) {
    HANDLE_TH_ERRORS
    return py::bytes(openreg::event_ipc_handle(reinterpret_cast<void*>(event)));
    END_HANDLE_TH_ERRORS_PYBIND
  });
}
