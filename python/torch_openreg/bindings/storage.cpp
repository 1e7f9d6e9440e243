// Bindings of csrc/storage: backend metadata and storage names.
#include "bindings.h"
#include "storage/backend_meta.h"
#include "storage/device_storage.h"

#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Storage.h>
#include <torch/csrc/utils/pybind.h>

using torch::wrap_pybind_function_no_gil;

namespace {

c10::Storage unpack(const py::object& storage) {
  TORCH_CHECK_TYPE(THPStorage_Check(storage.ptr()), "expected a torch.UntypedStorage");
  return THPStorage_Unpack(storage.ptr());
}

}  // namespace

void bind_storage(py::module_& m) {
  m.def("backend_flags",
        wrap_pybind_function_no_gil([](const at::Tensor& tensor) { return openreg::backend_flags(tensor); }));
  m.def("set_backend_flags",
        wrap_pybind_function_no_gil([](const at::Tensor& tensor, openreg::BackendFlags flags) {
          openreg::set_backend_flags(tensor, std::move(flags));
        }));
  m.def("storage_name", [](const py::object& storage) {
    HANDLE_TH_ERRORS
    return openreg::storage_name(unpack(storage));
    END_HANDLE_TH_ERRORS_PYBIND
  });
  m.def("set_storage_name", [](const py::object& storage, std::string name) {
    HANDLE_TH_ERRORS
    openreg::set_storage_name(unpack(storage), std::move(name));
    END_HANDLE_TH_ERRORS_PYBIND
  });
}
