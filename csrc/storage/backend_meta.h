// Backend metadata: named flags that a backend attaches to a tensor, such as the format in which a chip packs
// its elements.
//
// PyTorch stores them with the tensor (c10::BackendMeta), copies them when a tensor is detached, and queries
// them when a tensor is saved. It can save a name and a boolean for each flag.
//
// A tensor's flags are replaced as a whole. Thread safety: all functions may be called from any thread, but
// not on a tensor that another thread is modifying.
#pragma once

#include "common/export.h"

#include <ATen/core/TensorBase.h>

#include <string>
#include <unordered_map>

namespace openreg {

using BackendFlags = std::unordered_map<std::string, bool>;

/// The flags of the tensor; empty if none were set.
OPENREG_EXPORT BackendFlags backend_flags(const at::TensorBase& tensor);

/// Replaces all flags. Throws for a tensor of another device, and for a name that PyTorch reserves.
OPENREG_EXPORT void set_backend_flags(const at::TensorBase& tensor, BackendFlags flags);

}  // namespace openreg
