#include "device_code/kernel_library.h"

#include "common/check.h"
#include "device/device.h"
#include "diagnostics/op_stats.h"
#include "stream/stream.h"

#include <openreg/module.h>

#include <atomic>
#include <map>
#include <mutex>
#include <utility>

namespace openreg {
namespace {

struct Library {
  std::atomic<bool> absent{false};  // the driver has no device code
  std::mutex mutex;                 // guards the maps
  std::map<c10::DeviceIndex, orModule_t> modules;
  std::map<std::pair<c10::DeviceIndex, std::string>, orFunction_t> functions;  // NULL: the driver has none
};

Library& library() {
  static auto* made = new Library;
  return *made;
}

orFunction_t find(c10::DeviceIndex device, const std::string& name) {
  Library& all = library();
  if (all.absent.load(std::memory_order_relaxed)) {
    return nullptr;
  }
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto [function, added] = all.functions.try_emplace({device, name}, nullptr);
  if (!added) {
    return function->second;
  }
  const auto [module, first] = all.modules.try_emplace(device, nullptr);
  if (first) {
    const DeviceScope scope(device);
    const orError_t error = orModuleLoad(&module->second, nullptr, 0);
    if (error == orErrorNotSupported) {
      all.absent = true;
      return nullptr;
    }
    OR_CHECK_RESULT(error, orModuleLoad);
  }
  const orError_t error = orModuleGetFunction(&function->second, module->second, name.c_str());
  if (error != orErrorNotSupported) {
    OR_CHECK_RESULT(error, orModuleGetFunction);
  }
  return function->second;
}

}  // namespace

const char* library_dtype(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return "float32";
    case at::kDouble:
      return "float64";
    case at::kHalf:
      return "float16";
    case at::kBFloat16:
      return "bfloat16";
    case at::kLong:
      return "int64";
    case at::kInt:
      return "int32";
    case at::kShort:
      return "int16";
    case at::kChar:
      return "int8";
    case at::kByte:
      return "uint8";
    case at::kBool:
      return "bool";
    default:
      return nullptr;
  }
}

bool has_library_function(c10::DeviceIndex device, const std::string& name) {
  return find(device, name) != nullptr;
}

bool launch_library_function(c10::DeviceIndex device, const std::string& name, const void* args,
                             size_t size) {
  const orFunction_t function = find(device, name);
  if (function == nullptr) {
    return false;
  }
  constexpr orLaunchConfig kConfig = {sizeof(orLaunchConfig), {1, 1, 1}, {1, 1, 1}, 0};
  OR_CHECK(orLaunchFunction(function, &kConfig, args, size, current_stream_handle(device)));
  note_launch();
  return true;
}

bool launch_elementwise(c10::DeviceIndex device, const std::string& name, const at::TensorIteratorBase& iter,
                        const at::Scalar& scalar) {
  if (!has_library_function(device, name) || iter.ndim() > OR_KERNEL_DIMS ||
      iter.ntensors() > OR_KERNEL_OPERANDS) {
    return false;
  }
  if (iter.numel() == 0) {
    return true;
  }
  orElementwiseArgs args{};
  args.struct_size = sizeof(args);
  args.dims = static_cast<uint32_t>(iter.ndim());
  for (int dim = 0; dim < iter.ndim(); ++dim) {
    args.sizes[dim] = iter.shape()[dim];
  }
  for (int i = 0; i < iter.ntensors(); ++i) {
    args.data[i] = iter.data_ptr(i);
    for (int dim = 0; dim < iter.ndim(); ++dim) {
      args.strides[i][dim] = iter.strides(i)[dim];
    }
  }
  args.scalar = scalar.toDouble();
  args.int_scalar = scalar.isFloatingPoint() ? static_cast<int64_t>(scalar.toDouble()) : scalar.toLong();
  return launch_library_function(device, name, &args, sizeof(args));
}

bool launch_library_copy(const at::Tensor& dst, const at::Tensor& src) {
  if (dst.is_conj() != src.is_conj() || dst.is_neg() != src.is_neg()) {
    return false;
  }
  std::string name = "copy.bytes." + std::to_string(dst.element_size());
  if (dst.scalar_type() != src.scalar_type()) {
    const char* to = library_dtype(dst.scalar_type());
    const char* from = library_dtype(src.scalar_type());
    if (to == nullptr || from == nullptr) {
      return false;
    }
    name = std::string("copy.") + from + "." + to;
  }
  if (!has_library_function(dst.device().index(), name)) {
    return false;
  }
  const auto iter = at::TensorIteratorConfig()
                        .set_check_mem_overlap(false)
                        .resize_outputs(false)
                        .check_all_same_dtype(false)
                        .add_output(dst)
                        .add_const_input(src)
                        .build();
  return launch_elementwise(dst.device().index(), name, iter);
}

}  // namespace openreg
