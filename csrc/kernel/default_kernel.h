// Calls PyTorch's default kernel of an operator, even if the device has its own kernel.
#pragma once

#include <c10/core/DispatchKeySet.h>

namespace openreg {

/// A dispatch key without registered kernels: redispatching an operator to it calls the default kernel.
inline constexpr c10::DispatchKeySet kDefault(c10::DispatchKey::PrivateUse3);

}  // namespace openreg
