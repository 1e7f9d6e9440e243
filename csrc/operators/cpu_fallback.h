// Operators that fall back to the CPU, and their number. Only in the library without the host engine.
//
// Thread safety: may be called from any thread.
#pragma once

#include "common/export.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <map>
#include <string>

namespace openreg {

/// Runs an operator on the host. Boxed kernel.
void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// Number of fallbacks of each operator since the process started, by qualified name.
OPENREG_EXPORT std::map<std::string, uint64_t> cpu_fallbacks();

}  // namespace openreg
