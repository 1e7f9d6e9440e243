/*
 * The runtime API for device code; see Note [Device code] in device_code.h. The rules of openreg.h apply.
 *
 * With a driver without OR_CAP_DEVICE_CODE, the functions of modules return orErrorNotSupported.
 */
#ifndef OPENREG_MODULE_H_
#define OPENREG_MODULE_H_

#include "openreg/device_code.h"
#include "openreg/openreg.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct orModuleHandle* orModule_t;
typedef struct orFunctionHandle* orFunction_t;

/* Loads device code on the current device. The image is copied. If `image` is NULL, the module has the
 * functions that are built into the driver. */
OR_API orError_t orModuleLoad(orModule_t* module, const void* image, size_t size);
/* Invalidates the module and its functions. Submitted launches still run. Destroy graphs with its functions
 * first. */
OR_API orError_t orModuleUnload(orModule_t module);
/* The function with this name; the same handle at each call. Returns orErrorNotSupported if there is none.
 * The function lives as long as the module. */
OR_API orError_t orModuleGetFunction(orFunction_t* function, orModule_t module, const char* name);
/* Launches a function on a stream of its device. `config->struct_size` must be set. The argument block is
 * copied. A function that fails poisons its stream; see Note [Failed kernels] in openreg.h. */
OR_API orError_t orLaunchFunction(orFunction_t function, const orLaunchConfig* config, const void* args,
                                  size_t args_size, orStream_t stream);

/* The objects of the driver behind a stream and a device, for libraries of the vendor. The driver documents
 * their types; for CUDA they would be a CUstream and a CUcontext. Opens the device. Returns
 * orErrorNotSupported with a driver that has none. */
OR_API orError_t orStreamGetNativeHandle(orStream_t stream, void** handle);
OR_API orError_t orDeviceGetNativeHandle(int device, void** handle);

#ifdef __cplusplus
}
#endif

#endif /* OPENREG_MODULE_H_ */
