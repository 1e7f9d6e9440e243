// What Inductor's graph trees need of storages in the private pool of a graph; as torch._C has it for CUDA.
// See python/torch_openreg/compiler/graph_trees.py. Storages are passed as Python's `_cdata`.
#include "bindings.h"
#include "memory/checkpoint.h"

#include <ATen/core/Tensor.h>
#include <openreg/openreg.h>
#include <pybind11/stl.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <utility>
#include <vector>

namespace {

c10::StorageImpl* as_storage(uintptr_t address) {
  return reinterpret_cast<c10::StorageImpl*>(address);
}

// A replay returns tensors over memory that the graph owns.
at::Tensor tensor_of_storage(const py::dict& metadata, const py::object& storage) {
  const auto dtype = metadata["dtype"].cast<at::ScalarType>();
  c10::Storage memory = torch::createStorage(storage.ptr());
  TORCH_CHECK(memory.device_type() == c10::DeviceType::PrivateUse1, "a graph of ", orGetDeviceName(),
              " cannot return a tensor of a storage on ", memory.device());
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(memory), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      c10::scalarTypeToTypeMeta(dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(metadata["size"].cast<std::vector<int64_t>>(),
                                                      metadata["stride"].cast<std::vector<int64_t>>(),
                                                      metadata["storage_offset"].cast<int64_t>());
  return tensor;
}

bool have_data_ptrs(const py::list& tensors, const py::list& data_ptrs, const py::list& indices) {
  for (const py::handle index : indices) {
    const auto i = index.cast<size_t>();
    const py::object expected = data_ptrs[i];
    TORCH_CHECK(THPVariable_Check(py::object(tensors[i]).ptr()), "input ", i,
                " of the graph is not a tensor");
    const at::Tensor& tensor = THPVariable_Unpack(py::object(tensors[i]).ptr());
    if (expected.is_none() ||
        reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) != expected.cast<uintptr_t>()) {
      return false;
    }
  }
  return true;
}

}  // namespace

// Keeps the GIL, so that no Python code uses or frees the storages during a call.
void bind_graph_trees(py::module_& m) {
  m.def("tensor_of_storage", torch::wrap_pybind_function(tensor_of_storage));
  m.def("have_data_ptrs", torch::wrap_pybind_function(have_data_ptrs));
  m.def("owns_memory", torch::wrap_pybind_function(
                           [](uintptr_t storage) { return openreg::owns_memory(as_storage(storage)); }));
  m.def("free_memory",
        torch::wrap_pybind_function([](uintptr_t storage) { openreg::free_memory(as_storage(storage)); }));
  m.def("set_storage_error", torch::wrap_pybind_function([](uintptr_t storage, std::string message) {
          as_storage(storage)->release_data_and_set_meta_custom_data_ptr_error_msg_(std::move(message));
        }));
  m.def("set_tensor_error", torch::wrap_pybind_function([](const at::Tensor& tensor, std::string message) {
          tensor.unsafeGetTensorImpl()->release_storage_and_set_meta_custom_data_ptr_error_msg_(
              std::move(message));
        }));
}
