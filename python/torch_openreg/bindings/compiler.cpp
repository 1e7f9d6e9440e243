// Bindings of csrc/compiler: loading and launching generated kernels, and a fast allocation for generated
// code.
//
// Generated code calls these for each kernel and buffer, so they use Python's fast calling convention instead
// of pybind11's, which takes longer than the launch.
#include "bindings.h"
#include "compiler/compiled_kernel.h"

#include <ATen/ops/empty_strided.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/python_numbers.h>

#include <limits>

namespace {

using openreg::CompiledKernel;
using openreg::KernelArguments;

const at::Tensor& unpack_tensor(const CompiledKernel& kernel, PyObject* object) {
  TORCH_CHECK_TYPE(THPVariable_Check(object), "the compiled kernel '", kernel.name(),
                   "' expects a tensor, got ", Py_TYPE(object)->tp_name);
  return THPVariable_Unpack(object);
}

void add(KernelArguments& arguments, const CompiledKernel& kernel, PyObject* object) {
  switch (arguments.next()) {
    case orArgInteger:
      arguments.add(THPUtils_unpackLong(object));
      break;
    case orArgFloat:
      arguments.add(THPUtils_unpackDouble(object));
      break;
    default:
      arguments.add(unpack_tensor(kernel, object));
  }
  arguments.step();
}

// kernel(arguments..., device), or kernel(arguments...) for a kernel of the host.
PyObject* launch(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  const auto& kernel = *static_cast<const CompiledKernel*>(PyCapsule_GetPointer(self, nullptr));
  const auto taken = static_cast<Py_ssize_t>(kernel.args_count());
  TORCH_CHECK_TYPE(count == taken + (kernel.on_host() ? 0 : 1), "the compiled kernel '", kernel.name(),
                   "' takes ", taken, kernel.on_host() ? "" : " and a device", " as arguments, but got ",
                   count);
  KernelArguments arguments(
      kernel, kernel.on_host() ? -1 : static_cast<c10::DeviceIndex>(THPUtils_unpackLong(args[taken])));
  for (Py_ssize_t i = 0; i < taken; ++i) {
    add(arguments, kernel, args[i]);
  }
  kernel.launch(arguments);
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

using Sizes = c10::SmallVector<int64_t, 8>;

Sizes unpack_sizes(PyObject* tuple) {
  TORCH_CHECK_TYPE(PyTuple_Check(tuple), "expected a tuple of integers, got ", Py_TYPE(tuple)->tp_name);
  Sizes sizes;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    sizes.push_back(THPUtils_unpackLong(PyTuple_GET_ITEM(tuple, i)));
  }
  return sizes;
}

// As torch._C._dynamo.guards._empty_strided_cpu, with a device index.
PyObject* empty_strided(PyObject*, PyObject* const* args, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  TORCH_CHECK_TYPE(count == 4 && THPDtype_Check(args[2]),
                   "expected empty_strided(size, stride, dtype, device)");
  const Sizes size = unpack_sizes(args[0]);
  const Sizes stride = unpack_sizes(args[1]);
  const auto dtype = reinterpret_cast<THPDtype*>(args[2])->scalar_type;
  const c10::Device device(openreg::kDevice, static_cast<c10::DeviceIndex>(THPUtils_unpackLong(args[3])));
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return THPVariable_Wrap(at::empty_strided(size, stride, at::TensorOptions().dtype(dtype).device(device)));
  END_HANDLE_TH_ERRORS
}

template <PyObject* (*function)(PyObject*, PyObject* const*, Py_ssize_t)>
PyMethodDef fast_method(const char* name, const char* doc) {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function)), METH_FASTCALL, doc};
}

PyMethodDef launch_method = fast_method<&launch>("kernel", "Launches a compiled kernel.");
PyMethodDef empty_strided_method = fast_method<&empty_strided>(
    "empty_strided", "empty_strided(arg0: tuple, arg1: tuple, arg2: dtype, arg3: int) -> Tensor");

py::object load_kernel(uintptr_t generated, std::string name) {
  auto* kernel = new CompiledKernel(reinterpret_cast<const orGeneratedKernel*>(generated), std::move(name));
  const py::capsule self(kernel);
  return py::reinterpret_steal<py::object>(PyCFunction_New(&launch_method, self.ptr()));
}

}  // namespace

void bind_compiler(py::module_& m) {
  m.def("load_compiled_kernel", torch::wrap_pybind_function(load_kernel));
  m.attr("empty_strided") =
      py::reinterpret_steal<py::object>(PyCFunction_New(&empty_strided_method, nullptr));
}
