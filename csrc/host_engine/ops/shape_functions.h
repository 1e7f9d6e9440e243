// Shape functions: output shapes of operators whose Meta kernel is Python.
//
// Structured operators infer their shapes in C++. For most others, PyTorch has Meta kernels in Python: a call
// takes hundreds of microseconds, and the first one imports hundreds of modules. Operators that every
// training step or every generated token calls have a shape function here instead. op_rules.cpp maps
// operators to shape functions.
//
// Thread safety: pure functions.
#pragma once

#include <ATen/core/ivalue.h>

namespace openreg {

struct OutputPlan;

/// Fills in the results of the plan. `arguments` points to all arguments of the call. Returns false if the
/// kernel would reject them; may throw the kernel's error.
using ShapeFunction = bool (*)(const c10::IValue* arguments, OutputPlan& plan);

namespace shapes {

bool convolution(const c10::IValue* arguments, OutputPlan& plan);
bool convolution_backward(const c10::IValue* arguments, OutputPlan& plan);
bool embedding_dense_backward(const c10::IValue* arguments, OutputPlan& plan);
bool flash_attention(const c10::IValue* arguments, OutputPlan& plan);
bool flash_attention_backward(const c10::IValue* arguments, OutputPlan& plan);
bool in_place(const c10::IValue* arguments, OutputPlan& plan);
bool nll_loss2d(const c10::IValue* arguments, OutputPlan& plan);
bool nonzero_static(const c10::IValue* arguments, OutputPlan& plan);
bool index_select(const c10::IValue* arguments, OutputPlan& plan);
bool layer_norm(const c10::IValue* arguments, OutputPlan& plan);
bool like_first(const c10::IValue* arguments, OutputPlan& plan);
bool layer_norm_backward(const c10::IValue* arguments, OutputPlan& plan);

}  // namespace shapes
}  // namespace openreg
