// The operators that run as functions of the driver's kernel library.
//
// Thread safety: may be called from any thread.
#pragma once

#include <ATen/core/operator_name.h>

namespace openreg {

/// The function of an operator, "<group>.<operation>"; NULL if it has none in the library's interface. The
/// driver may lack it.
const char* library_function(const c10::OperatorName& name);

}  // namespace openreg
