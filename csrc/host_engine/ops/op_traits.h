// Properties of an operator that the engine uses, derived once from its schema, tags and name.
#pragma once

#include "diagnostics/op_info.h"
#include "host_engine/ops/op_rules.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/SmallVector.h>
#include <openreg/openreg.h>

#include <string>

namespace openreg {

// How a call of the operator runs, seen from the host.
enum class ExecutionKind {
  Launch,  // returns before it has run
  View,    // touches no data: runs at once, without the stream
  Wait,    // the shape or the result depends on data: waits for the stream, then runs
};

struct OpTraits : OpDescription {
  static constexpr int kNewTensor = -1;

  orKernel kernel{};  // the runtime's kernel for launches; see launch/launched_op.h
  ExecutionKind kind;
  OpRules rules;                      // from the table, by name
  c10::SmallVector<bool, 8> written;  // for each argument: written, also if the schema does not say so
  c10::SmallVector<bool, 8> is_out;   // for each argument: whether it is an out argument, which is not read
  c10::SmallVector<bool, 8>
      value_independent;              // for each argument: whether it is a number that does not affect shapes
  c10::SmallVector<int, 2> returned;  // for each result: the argument that is returned, or kNewTensor
  int generator;                      // index of the generator argument of a random operator, or -1
  int checks_errors;                  // index of the check_errors argument, or -1
  bool is_structured;                 // PyTorch's default kernel infers its shapes; see inference/infer.cpp
  bool is_aten;                       // kernels outside aten may keep references to their results
  bool has_own_meta_kernel;
  bool writes_arguments;  // at least one

  bool has(OpFlag flag) const { return rules.has(flag); }
};

/// Sets the function that returns the runtime's kernel of a launched operator. It is called with the name of
/// the operator at its first use. Called when the library is loaded.
void set_launch_kernel(orKernel (*named)(const char* name));

/// The traits of an operator. From the second call on this is a thread-local lookup. References stay valid
/// for the life of the process. New traits are derived if a missing kernel was registered meanwhile.
/// Thread-safe.
const OpTraits& op_traits(const c10::OperatorHandle& op);

}  // namespace openreg
