// Shape functions: output shapes of operators whose Meta kernel is Python.
//
// A structured operator infers its shapes in C++. For the others torch has Meta kernels in Python: a call
// takes hundreds of microseconds, and the first one imports hundreds of modules. The operators that every
// training step and every generated token need have a shape function here instead. op_rules.cpp says whose
// they are.
//
// Thread safety: pure functions.
#pragma once

#include <ATen/core/ivalue.h>

namespace openreg {

struct OutputPlan;

/// Fills in the results of the plan. `arguments` are those of the call, all of them. False if the kernel
/// would reject the arguments; may throw what the kernel would throw.
using ShapeFunction = bool (*)(const c10::IValue* arguments, OutputPlan& plan);

namespace shapes {

bool convolution(const c10::IValue* arguments, OutputPlan& plan);
bool convolution_backward(const c10::IValue* arguments, OutputPlan& plan);
bool embedding_dense_backward(const c10::IValue* arguments, OutputPlan& plan);
bool flash_attention(const c10::IValue* arguments, OutputPlan& plan);
bool flash_attention_backward(const c10::IValue* arguments, OutputPlan& plan);
bool in_place(const c10::IValue* arguments, OutputPlan& plan);
bool index_select(const c10::IValue* arguments, OutputPlan& plan);
bool layer_norm(const c10::IValue* arguments, OutputPlan& plan);
bool like_first(const c10::IValue* arguments, OutputPlan& plan);
bool layer_norm_backward(const c10::IValue* arguments, OutputPlan& plan);

}  // namespace shapes
}  // namespace openreg
