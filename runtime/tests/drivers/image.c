/* Device code of the discrete device, as an image. */
#include "drivers/discrete/function.h"

#include <stdio.h>

/* Adds its block index to each element of its block: args is a pointer to int, and the number of elements of
 * a block. */
struct add_index_args {
  int* data;
  int count;
};

__attribute__((visibility("default"))) orError_t add_index(const orDiscreteLaunch* launch,
                                                           const void* given) {
  const struct add_index_args* args = given;
  int* data =
      (int*)((char*)args->data + launch->memory) + (size_t)launch->block_index[0] * (size_t)args->count;
  int* shared = launch->shared;
  for (int i = 0; i < args->count; ++i) {
    shared[i] = (int)launch->block_index[0];
    data[i] += shared[i];
  }
  return orSuccess;
}

__attribute__((visibility("default"))) orError_t fails(const orDiscreteLaunch* launch, const void* given) {
  (void)given;
  snprintf(launch->why, launch->why_size, "block %u is wrong", launch->block_index[0]);
  return orErrorInvalidValue;
}
