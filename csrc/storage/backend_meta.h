// Backend metadata: named flags that a backend ties to a tensor, such as the format in which a chip has
// packed its elements.
//
// PyTorch keeps them with the tensor (c10::BackendMeta), hands them on where a tensor is detached, and asks
// for them when a tensor is saved. What it can save is a name and a yes or no for each.
//
// A tensor's flags change as a whole. All functions may be called from any thread; a tensor's own as its
// other members: not while another thread changes it.
#pragma once

#include "common/export.h"

#include <ATen/core/TensorBase.h>

#include <string>
#include <unordered_map>

namespace openreg {

using BackendFlags = std::unordered_map<std::string, bool>;

/// The flags of the tensor, none if it was given none.
OPENREG_EXPORT BackendFlags backend_flags(const at::TensorBase& tensor);

/// Replaces all flags. Throws for a tensor of another device, and for a name that PyTorch saves as its own.
OPENREG_EXPORT void set_backend_flags(const at::TensorBase& tensor, BackendFlags flags);

}  // namespace openreg
