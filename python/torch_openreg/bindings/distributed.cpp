// Bindings of csrc/distributed. The classes derive from classes of torch.distributed, so they are defined at
// its first use.
#include "bindings.h"
#include "distributed/process_group.h"

#include <pybind11/chrono.h>
#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

namespace {

using openreg::distributed::FlightRecord;
using openreg::distributed::Milliseconds;
using openreg::distributed::ProcessGroupOCCL;

c10::intrusive_ptr<ProcessGroupOCCL> create(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                            Milliseconds timeout, bool peer_memory, py::object make_gloo) {
  // Leaked: the last group may end after Python.
  auto* make = new py::object(std::move(make_gloo));
  const auto call = [make](const c10::intrusive_ptr<c10d::Store>& its_store, int its_rank, int its_size,
                           Milliseconds its_timeout) {
    const py::gil_scoped_acquire gil;
    return (*make)(its_store, its_rank, its_size, its_timeout).cast<c10::intrusive_ptr<c10d::Backend>>();
  };
  const py::gil_scoped_release no_gil;
  return c10::make_intrusive<ProcessGroupOCCL>(
      store, rank, size, c10::make_intrusive<ProcessGroupOCCL::Options>(timeout), peer_memory, call);
}

std::vector<py::dict> flight_records(const ProcessGroupOCCL& group) {
  std::vector<py::dict> result;
  for (const FlightRecord& record : group.state().records()) {
    py::dict entry;
    entry["operation"] = record.call.name;
    entry["sequence"] = record.call.sequence;
    entry["group"] = group.state().name();
    entry["rank"] = group.state().rank();
    entry["tensors"] = record.call.tensors;
    entry["root"] = record.call.root >= 0 ? py::object(py::int_(record.call.root)) : py::none();
    entry["line"] = record.call.site;
    entry["state"] = !record.error.empty() ? "failed"
                     : record.ended != 0   ? "completed"
                     : record.started != 0 ? "started"
                                           : "scheduled";
    entry["time_created"] = record.called;
    entry["time_started"] = record.started != 0 ? py::object(py::float_(record.started)) : py::none();
    entry["time_completed"] = record.ended != 0 ? py::object(py::float_(record.ended)) : py::none();
    entry["error"] = record.error.empty() ? py::object(py::none()) : py::str(record.error);
    result.push_back(std::move(entry));
  }
  return result;
}

// Defines the classes and functions of csrc/distributed in `m`.
void define_classes(py::module_ m) {
  const auto c10d = py::module_::import("torch._C._distributed_c10d");
  py::class_<ProcessGroupOCCL::Options, c10::intrusive_ptr<ProcessGroupOCCL::Options>>(
      m, "OCCLOptions", c10d.attr("Backend").attr("Options"))
      .def(py::init<Milliseconds>(), py::arg("timeout"))
      .def("__deepcopy__", [](const ProcessGroupOCCL::Options& self, const py::object&) {
        return c10::make_intrusive<ProcessGroupOCCL::Options>(self.timeout);
      });
  py::class_<ProcessGroupOCCL, c10::intrusive_ptr<ProcessGroupOCCL>>(m, "ProcessGroupOCCL",
                                                                     c10d.attr("Backend"))
      .def_property_readonly("options", [](ProcessGroupOCCL& self) { return self.options(); })
      .def_property_readonly("_bytes_read_from_peers", &ProcessGroupOCCL::bytes_read_from_peers)
      .def_property_readonly("_messages_from_mailbox", &ProcessGroupOCCL::messages_from_mailbox)
      .def("perform_nocolor_split", [](ProcessGroupOCCL&, const py::object&) {})
      .def("flight_records", &flight_records);
  m.def("_create_process_group", &create);
  m.def("_abort_all", &ProcessGroupOCCL::abort_all, py::call_guard<py::gil_scoped_release>());
}

}  // namespace

void bind_distributed(py::module_& m) {
  m.def("define_distributed_classes", &define_classes);
}
