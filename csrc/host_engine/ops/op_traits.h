// What the engine needs to know of an operator, derived from its schema once.
#pragma once

#include "diagnostics/op_info.h"
#include "host_engine/ops/shape_functions.h"

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
  c10::SmallVector<bool, 8> written;  // for each argument: the operator writes to it
  c10::SmallVector<bool, 8> by_kind;  // for each argument: a number whose value does not decide shapes
  c10::SmallVector<int, 2> returned;  // for each result: the argument that it is, or kFresh
  int generator;         // the argument that is a generator, of an operator that draws random numbers; or -1
  int checks_errors;     // the argument that asks a decomposition to check its status on the host; or -1
  bool may_refuse_data;  // see launch_site.h
  bool is_structured;    // PyTorch's default infers its shapes; see inference.h
  bool is_aten;          // others' kernels may keep the tensors that they make
  bool has_own_meta_kernel;
  bool shapes_from_kernel;       // its Meta kernel is known to answer other shapes than its CPU kernel
  bool writes_arguments;         // any of them
  ShapeFunction shape_function;  // or null
  bool refuses_overlap;          // see overlap.h
  uint64_t upcast;               // dtypes, as bits, that the CPU lacks and CUDA has; see widen.h
  bool takes_host_tensors;       // host tensors may stand among device tensors, as on CUDA
};

/// How the runtime calls launched operators, but for the name. Set when the library is loaded.
void set_launch_entry(orKernel entry);

/// The traits of an operator. Costs a thread-local look-up from the second call on. They stay valid for ever,
/// but are worked out again if a kernel that was missing is there now. Thread-safe.
const OpTraits& op_traits(const c10::OperatorHandle& op);

}  // namespace openreg
