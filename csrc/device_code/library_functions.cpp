#include "device_code/library_functions.h"

#include "common/check.h"
#include "diagnostics/op_stats.h"
#include "stream/stream.h"

#include <bit>
#include <string>

namespace openreg {

FunctionHandle library_handles[kMaxDevices][std::size(kLibraryFunctionNames)][kLibraryDtypes];

namespace {

FunctionHandle conversions[kMaxDevices][kLibraryDtypes][kLibraryDtypes];

constexpr size_t kElementSizes = 5;  // 1, 2, 4, 8, 16
FunctionHandle byte_copies[kMaxDevices][kElementSizes];

// The functions that are built into the driver; NULL until they are loaded.
std::atomic<orModule_t> modules[kMaxDevices];

// NULL: the driver has no device code. The driver is called without a lock, so two threads may load; the
// second one unloads its module.
orModule_t built_in_module(c10::DeviceIndex device) {
  orModule_t known = modules[device].load(std::memory_order_acquire);
  if (known != nullptr) {
    return known;
  }
  const DeviceScope scope(device);
  orModule_t loaded = nullptr;
  const orError_t error = orModuleLoad(&loaded, nullptr, 0);
  if (error == orErrorNotSupported) {
    return nullptr;
  }
  OR_CHECK_RESULT(error, orModuleLoad);
  if (modules[device].compare_exchange_strong(known, loaded)) {
    return loaded;
  }
  OR_CHECK(orModuleUnload(loaded));
  return known;
}

// NULL: no function of the library has this dtype.
const char* dtype_name(at::ScalarType dtype) {
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

orFunction_t resolve(FunctionHandle& handle, const std::string& name, c10::DeviceIndex device) {
  orFunction_t function = nullptr;
  if (const orModule_t module = built_in_module(device)) {
    const orError_t error = orModuleGetFunction(&function, module, name.c_str());
    if (error != orErrorNotSupported) {
      OR_CHECK_RESULT(error, orModuleGetFunction);
    }
  }
  handle.store(function == nullptr ? kNoFunction : function, std::memory_order_release);
  return function;
}

}  // namespace

orFunction_t resolve_function(LibraryFunction function, at::ScalarType dtype, c10::DeviceIndex device) {
  const char* type = dtype_name(dtype);
  if (type == nullptr) {
    return nullptr;
  }
  const auto index = static_cast<size_t>(function);
  return resolve(library_handles[device][index][static_cast<size_t>(dtype)],
                 std::string(kLibraryFunctionNames[index]) + "." + type, device);
}

orFunction_t find_conversion(at::ScalarType from, at::ScalarType to, c10::DeviceIndex device) {
  const char* from_name = dtype_name(from);
  const char* to_name = dtype_name(to);
  if (from_name == nullptr || to_name == nullptr) {
    return nullptr;
  }
  FunctionHandle& handle = conversions[device][static_cast<size_t>(from)][static_cast<size_t>(to)];
  const orFunction_t found = handle.load(std::memory_order_acquire);
  if (C10_UNLIKELY(found == nullptr)) {
    return resolve(handle, std::string("copy.") + from_name + "." + to_name, device);
  }
  return found == kNoFunction ? nullptr : found;
}

orFunction_t find_byte_copy(size_t element_size, c10::DeviceIndex device) {
  const auto index = static_cast<size_t>(std::countr_zero(element_size));
  if (!std::has_single_bit(element_size) || index >= kElementSizes) {
    return nullptr;
  }
  FunctionHandle& handle = byte_copies[device][index];
  const orFunction_t found = handle.load(std::memory_order_acquire);
  if (C10_UNLIKELY(found == nullptr)) {
    return resolve(handle, "copy.bytes." + std::to_string(element_size), device);
  }
  return found == kNoFunction ? nullptr : found;
}

void launch_function(orFunction_t function, const void* args, size_t size, c10::DeviceIndex device) {
  constexpr orLaunchConfig kConfig = {sizeof(orLaunchConfig), {1, 1, 1}, {1, 1, 1}, 0};
  OR_CHECK(orLaunchFunction(function, &kConfig, args, size, current_stream_handle(device)));
  note_launch();
}

}  // namespace openreg
