/*
 * The device code of the discrete device: a C function, which is called once for each block of the grid. An
 * image is an ELF shared library; it exports its functions by name.
 *
 * A function accesses device memory at the address of the device pointer plus `memory`. It returns orSuccess;
 * to fail, it writes a message into `why` and returns another code.
 */
#ifndef OPENREG_DISCRETE_FUNCTION_H_
#define OPENREG_DISCRETE_FUNCTION_H_

#include "openreg/device_code.h"

typedef struct orDiscreteLaunch {
  const orLaunchConfig* config;
  uint32_t block_index[3];
  ptrdiff_t memory;
  void* shared; /* config->shared_memory bytes, zeroed; the same for one block only */
  char* why;
  size_t why_size;
} orDiscreteLaunch;

typedef orError_t (*orDiscreteFunction)(const orDiscreteLaunch* launch, const void* args);

#endif /* OPENREG_DISCRETE_FUNCTION_H_ */
