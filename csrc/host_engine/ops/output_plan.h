// What a launch needs to know before it has run: the shapes of the results.
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
    int argument = OpTraits::kFresh;  // the argument that it is
    bool list = false;
    c10::SmallVector<TensorSpec, 1> tensors;  // if it is fresh
  };
  struct Resize {
    size_t argument;
    TensorSpec to;
  };

  bool can_launch = false;
  bool may_warn = false;  // see Note [Warnings]
  bool warns = false;     // and did at the last call, or has not been called
  c10::SmallVector<Result, 2> results;
  c10::SmallVector<Resize, 1> resizes;  // outputs that have another shape than the result
};

using OutputPlanPtr = c10::intrusive_ptr<OutputPlan>;

}  // namespace openreg
