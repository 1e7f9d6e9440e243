// Shapes, strides and dtypes of the results of a call, known before its kernel runs.
#pragma once

#include "host_engine/ops/op_traits.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/util/Exception.h>
#include <c10/util/intrusive_ptr.h>

#include <vector>

namespace openreg {

struct TensorSpec {
  bool defined = false;
  caffe2::TypeMeta dtype;
  c10::SmallVector<int64_t, 4> sizes;
  c10::SmallVector<int64_t, 4> strides;
  size_t bytes = 0;
};

struct OutputPlan : c10::intrusive_ptr_target {
  struct Result {
    int argument = OpTraits::kNewTensor;  // the argument that is returned
    bool list = false;
    c10::SmallVector<TensorSpec, 1> tensors;  // if argument is kNewTensor
  };
  struct Resize {
    size_t argument;
    TensorSpec to;
  };

  bool can_launch = false;
  bool may_warn = false;  // see Note [Warnings]
  bool warns = false;     // warned at the last call, or was not called yet
  c10::SmallVector<Result, 2> results;
  c10::SmallVector<Resize, 1> resizes;  // outputs whose shape differs from that of the result
};

using OutputPlanPtr = c10::intrusive_ptr<OutputPlan>;

}  // namespace openreg
