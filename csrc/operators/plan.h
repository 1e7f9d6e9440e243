// What a launch needs to know before it has run: the shapes of the results.
//
// Note [Launch cache]
// An operator's Meta kernel infers the shapes of its results. That is slow, sometimes Python, so the answer
// is kept under the call's signature, and the second call of the same kind costs a look-up. Each thread has a
// cache of its own: no lock on the way to a launch.
#pragma once

#include "operators/facts.h"
#include "operators/signature.h"

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

struct Plan : c10::intrusive_ptr_target {
  struct Result {
    int argument = OperatorFacts::kFresh;  // the argument that it is
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

using PlanPtr = c10::intrusive_ptr<Plan>;

/// The plan for a call with that signature, worked out if need be: then *fresh is true, and what inference
/// warned about is in *warnings.
const PlanPtr& plan_for(const c10::OperatorHandle& op, const OperatorFacts& facts, const Signature& signature,
                        const torch::jit::Stack& stack, bool* fresh, std::vector<c10::Warning>* warnings);

/// For operators whose shapes come from the kernel: a plan from the results that a call had, kept for the
/// next call with that signature. The stack ends with them, as device tensors.
void remember_plan(const OperatorFacts& facts, const Signature& signature, const torch::jit::Stack& stack);

}  // namespace openreg
