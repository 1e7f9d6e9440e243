// Modules: the built-in functions, and images.
#pragma once

#include "function.h"
#include "openreg/driver.h"

#include <string>

namespace openreg::discrete {

struct Function {
  std::string name;
  orDiscreteFunction code;
  orKernel kernel;  // runs `code`; its name is `name`
};

/// The kernel of the simulated device that runs a function.
orKernel make_kernel(const char* name);

void set_host(const orHost* host);

// Entries of the driver table.
orError_t module_load(int device, const void* image, size_t size, orDriverModule** module);
orError_t module_unload(orDriverModule* module);
orError_t module_function(orDriverModule* module, const char* name, orDriverFunction** function);

}  // namespace openreg::discrete
