// The built-in functions: the kernel library of openreg/kernel_library.h.
#pragma once

#include "function.h"

namespace openreg::discrete {

/// NULL if there is no function with this name.
orDiscreteFunction find_kernel(const char* name);

}  // namespace openreg::discrete
