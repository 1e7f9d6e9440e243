/* Compiled as strict C17: checks that the public headers are valid C, and calls a few functions. */
#include <openreg/driver.h>
#include <openreg/faults.h>
#include <openreg/kernel_hooks.h>
#include <openreg/openreg.h>

static orError_t add_one(void* args, char* why, size_t why_size) {
  (void)why;
  (void)why_size;
  ++**(int**)args;
  return orSuccess;
}

int c_api_works(void);

int c_api_works(void) {
  static const orKernel kernel = {"add_one", add_one, NULL};
  orDeviceProperties properties;
  orStream_t stream = NULL;
  orEvent_t event = NULL;
  int value = 0;
  int* args = &value;
  int count = 0;
  properties.struct_size = (uint32_t)sizeof(properties);
  if (orGetDeviceCount(&count) != orSuccess || count < 1) return 1;
  if (orGetDeviceProperties(&properties, 0) != orSuccess) return 2;
  if (orStreamCreate(&stream) != orSuccess) return 3;
  if (orEventCreateWithFlags(&event, orEventDisableTiming) != orSuccess) return 4;
  if (orLaunchKernel(stream, &kernel, &args, sizeof(args)) != orSuccess) return 5;
  if (orEventRecord(event, stream) != orSuccess) return 6;
  if (orEventSynchronize(event) != orSuccess || value != 1) return 7;
  if (orRunKernel(stream, &kernel, &args) != orSuccess || value != 2) return 8;
  if (orEventDestroy(event) != orSuccess || orStreamDestroy(stream) != orSuccess) return 9;
  if (offsetof(orDriver, struct_size) != 0 || OR_DRIVER_OLDEST > OR_DRIVER_VERSION) return 10;
  return 0;
}
