// Entries of the table: modules, functions and their launches.
#pragma once

#include "openreg/driver.h"

namespace nv {

orError_t module_load(int index, const void* image, size_t size, orDriverModule** module);
orError_t module_unload(orDriverModule* module);
orError_t module_function(orDriverModule* module, const char* name, orDriverFunction** function);
orError_t stream_launch_function(orDriverStream* stream, orDriverFunction* function,
                                 const orLaunchConfig* config, const void* args, size_t args_size,
                                 const orObserver* observer);

}  // namespace nv
