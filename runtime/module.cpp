// The functions of module.h.
#include "openreg/module.h"

#include "run.h"
#include "runtime.h"
#include "trace.h"

using namespace openreg;

namespace {

orError_t fail_handle(const char* what, const void* handle) {
  return fail(orErrorInvalidHandle, "%p is not a %s, or the module was unloaded", handle, what);
}

orError_t check_config(const orLaunchConfig* config) {
  if (!config) return fail(orErrorInvalidValue, "orLaunchFunction: config is NULL");
  OR_RETURN_IF_ERROR(
      check_struct_size("orLaunchFunction", "orLaunchConfig", config->struct_size, sizeof(orLaunchConfig)));
  const uint32_t* grid = config->grid;
  const uint32_t* block = config->block;
  if (grid[0] && grid[1] && grid[2] && block[0] && block[1] && block[2]) return orSuccess;
  return fail(
      orErrorInvalidValue,
      "orLaunchFunction: the grid is %u x %u x %u and the block %u x %u x %u; all numbers must be at least 1",
      grid[0], grid[1], grid[2], block[0], block[1], block[2]);
}

}  // namespace

extern "C" {

orError_t orModuleLoad(orModule_t* module, const void* image, size_t size) {
  if (!module) return fail(orErrorInvalidValue, "orModuleLoad: module is NULL");
  if ((image == nullptr) != (size == 0)) {
    return fail(orErrorInvalidValue, "orModuleLoad: the image is %p, with %zu bytes", image, size);
  }
  return with_runtime({EntryPoint::orModuleLoad, nullptr, size}, [&](Runtime& runtime) -> orError_t {
    OR_RETURN_IF_ERROR(runtime.check_device_code("orModuleLoad"));
    int device;
    OR_RETURN_IF_ERROR(runtime.current_device(device));
    uint64_t handle = 0;
    OR_RETURN_IF_ERROR(runtime.load_module(device, image, size, handle));
    *module = reinterpret_cast<orModule_t>(handle);
    return orSuccess;
  });
}

orError_t orModuleUnload(orModule_t module) {
  return with_runtime({EntryPoint::orModuleUnload, module}, [&](Runtime& runtime) -> orError_t {
    OR_RETURN_IF_ERROR(runtime.check_device_code("orModuleUnload"));
    const auto handle = reinterpret_cast<uint64_t>(module);
    const ModulePin pin = runtime.modules.pin(handle);
    return pin && runtime.modules.unload(handle, pin) ? orSuccess : fail_handle("module", module);
  });
}

orError_t orModuleGetFunction(orFunction_t* function, orModule_t module, const char* name) {
  if (!function || !name) {
    return fail(orErrorInvalidValue, "orModuleGetFunction: %s is NULL", function ? "name" : "function");
  }
  return with_runtime({EntryPoint::orModuleGetFunction, module}, [&](Runtime& runtime) -> orError_t {
    OR_RETURN_IF_ERROR(runtime.check_device_code("orModuleGetFunction"));
    const auto handle = reinterpret_cast<uint64_t>(module);
    const ModulePin pin = runtime.modules.pin(handle);
    if (!pin) return fail_handle("module", module);
    uint64_t found = 0;
    OR_RETURN_IF_ERROR(runtime.modules.find(runtime.driver(), handle, pin, name, found));
    if (!found) return fail(orErrorOutOfHostMemory, "too many functions; unload modules");
    *function = reinterpret_cast<orFunction_t>(found);
    return orSuccess;
  });
}

orError_t orLaunchFunction(orFunction_t function, const orLaunchConfig* config, const void* args,
                           size_t args_size, orStream_t stream) {
  const Call call = {EntryPoint::orLaunchFunction, stream, 0, function};
  return with_runtime(call, [&](Runtime& runtime) -> orError_t {
    OR_RETURN_IF_ERROR(runtime.check_device_code("orLaunchFunction"));
    OR_RETURN_IF_ERROR(check_config(config));
    if (!args && args_size) {
      return fail(orErrorInvalidValue, "orLaunchFunction: args is NULL but args_size is %zu", args_size);
    }
    FunctionPin pin;
    ModulePin module;
    if (!runtime.modules.pin_function(reinterpret_cast<uint64_t>(function), pin, module)) {
      return fail_handle("function", function);
    }
    StreamPin on;
    OR_RETURN_IF_ERROR(runtime.pin_stream(stream, on));
    if (on->device != pin->device) {
      return fail(
          orErrorInvalidValue,
          "orLaunchFunction: the stream belongs to device %d, but '%s' was loaded on device %d; load the "
          "module on each device",
          on->device, pin->name, pin->device);
    }
    TracedWork* work = begin_traced(runtime, *on, "orLaunchFunction", orTraceKernel, pin->name);
    const ReturnTrace returned(work);
    orObserver observer = {};
    if (work) observer = work->observer();
    const orError_t error = from_driver(runtime.driver().stream_launch_function(
        on->driver, pin->driver, config, args, args_size, work ? &observer : nullptr));
    if (error && work) work->rejected(error);
    return error;
  });
}

orError_t orStreamGetNativeHandle(orStream_t stream, void** handle) {
  if (!handle) return fail(orErrorInvalidValue, "orStreamGetNativeHandle: handle is NULL");
  return with_runtime({EntryPoint::orStreamGetNativeHandle, stream}, [&](Runtime& runtime) -> orError_t {
    const orDriver& driver = runtime.driver();
    if (!driver.stream_native_handle) {
      return fail(orErrorNotSupported,
                  "orStreamGetNativeHandle: streams of the driver '%s' have no native handle", driver.name);
    }
    StreamPin pin;
    OR_RETURN_IF_ERROR(runtime.pin_stream(stream, pin));
    return from_driver(driver.stream_native_handle(pin->driver, handle));
  });
}

orError_t orDeviceGetNativeHandle(int device, void** handle) {
  if (!handle) return fail(orErrorInvalidValue, "orDeviceGetNativeHandle: handle is NULL");
  return with_runtime({EntryPoint::orDeviceGetNativeHandle, device}, [&](Runtime& runtime) -> orError_t {
    const orDriver& driver = runtime.driver();
    if (!driver.device_native_handle) {
      return fail(orErrorNotSupported,
                  "orDeviceGetNativeHandle: devices of the driver '%s' have no native handle", driver.name);
    }
    OR_RETURN_IF_ERROR(runtime.check_device(device));
    std::shared_lock<std::shared_mutex> open;
    OR_RETURN_IF_ERROR(runtime.hold_open(device, open));
    return from_driver(driver.device_native_handle(device, handle));
  });
}

}  // extern "C"
