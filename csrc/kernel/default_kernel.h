// PyTorch's default for an operator, whatever kernel the device has for it.
#pragma once

#include <c10/core/DispatchKeySet.h>

namespace openreg {

/// A key for which nobody has kernels: an operator that is redispatched to it runs its default.
inline constexpr c10::DispatchKeySet kDefault(c10::DispatchKey::PrivateUse3);

}  // namespace openreg
