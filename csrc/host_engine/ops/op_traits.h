// What the engine needs to know of an operator, derived from its schema once.
#pragma once

#include "diagnostics/op_info.h"
#include "host_engine/ops/op_rules.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/SmallVector.h>
#include <openreg/openreg.h>

#include <string>

namespace openreg {

// What a call of the operator does to the host.
enum class ExecutionKind {
  Launch,  // returns before it has run
  View,    // touches no data: runs at once, without the stream
  Wait,    // the shape or the result depends on data: waits for the stream, then runs
};

struct OpTraits : OpInfo {
  static constexpr int kFresh = -1;

  orKernel kernel{};  // how the runtime calls a launched one; see launch/launched_op.h
  ExecutionKind kind;
  OpRules rules;                      // by its name
  c10::SmallVector<bool, 8> written;  // for each argument: the operator writes to it
  c10::SmallVector<bool, 8> by_kind;  // for each argument: a number whose value does not decide shapes
  c10::SmallVector<int, 2> returned;  // for each result: the argument that it is, or kFresh
  int generator;       // the argument that is a generator, of an operator that draws random numbers; or -1
  int checks_errors;   // the argument that asks a decomposition to check its status on the host; or -1
  bool is_structured;  // PyTorch's default infers its shapes; see inference/infer.cpp
  bool is_aten;        // others' kernels may keep the tensors that they make
  bool has_own_meta_kernel;
  bool writes_arguments;  // any of them

  bool has(OpFlag flag) const { return rules.has(flag); }
};

/// How the runtime calls launched operators, but for the name. Set when the library is loaded.
void set_launch_entry(orKernel entry);

/// The traits of an operator. Costs a thread-local look-up from the second call on. They stay valid for ever,
/// but are worked out again if a kernel that was missing is there now. Thread-safe.
const OpTraits& op_traits(const c10::OperatorHandle& op);

}  // namespace openreg
