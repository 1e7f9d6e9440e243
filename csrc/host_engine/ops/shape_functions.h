// Shape functions: output shapes of operators whose Meta kernel is Python.
//
// A structured operator infers its shapes in C++. For the others torch has Meta kernels in Python: a call
// takes hundreds of microseconds, and the first one imports hundreds of modules. The operators that every
// training step and every generated token need have a shape function here instead.
//
// Thread safety: pure functions.
#pragma once

#include <ATen/core/ivalue.h>

#include <string_view>

namespace openreg {

struct OutputPlan;

/// Fills in the results of the plan. `arguments` are those of the call, all of them. False if the kernel
/// would reject the arguments; may throw what the kernel would throw.
using ShapeFunction = bool (*)(const c10::IValue* arguments, OutputPlan& plan);

/// The shape function of an operator ("aten::native_layer_norm"), or null.
ShapeFunction find_shape_function(std::string_view operator_name);

}  // namespace openreg
