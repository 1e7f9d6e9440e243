/*
 * Types of device code, which programs (module.h) and drivers (driver.h) share. Plain C, no functions.
 *
 * Note [Device code]
 * A device whose memory the host cannot access runs functions of its own. A module holds them: an image in
 * the format of the device, or the functions that are built into the driver. A launch has the meaning of
 * cuLaunchKernel: the function runs in stream order, for each block of a grid. Its arguments are one block of
 * bytes, in the layout that the function documents; addresses in it are device pointers.
 */
#ifndef OPENREG_DEVICE_CODE_H_
#define OPENREG_DEVICE_CODE_H_

#include "openreg/types.h"

/* A capability; see types.h. The device has modules and functions. */
#define OR_CAP_DEVICE_CODE (1ull << 5)

/* How a function is launched. All numbers of blocks and threads are at least 1. */
typedef struct orLaunchConfig {
  uint32_t struct_size;
  uint32_t grid[3];       /* blocks */
  uint32_t block[3];      /* threads of a block */
  uint32_t shared_memory; /* bytes for each block */
} orLaunchConfig;

#endif /* OPENREG_DEVICE_CODE_H_ */
