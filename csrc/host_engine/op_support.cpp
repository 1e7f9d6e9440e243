#include "operators/op_support.h"

#include "host_engine/engine.h"
#include "host_engine/ops/op_traits.h"

namespace openreg {
namespace {

using c10::DispatchKey;

bool has_device_kernel(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(DispatchKey::PrivateUse1) &&
         op.getComputedKernelForDispatchKey(DispatchKey::PrivateUse1).debug() != kEngineLabel;
}

const char* support_on_engine(const OpTraits& traits) {
  if (!traits.has_cpu_kernel) {
    return "missing";
  }
  switch (traits.kind) {
    case ExecutionKind::Launch:
      return "cpu";
    case ExecutionKind::View:
      return "view";
    case ExecutionKind::Wait:
      return "cpu_sync";
  }
  return "missing";
}

// In the dispatcher's order of precedence.
const char* support_of(const c10::OperatorHandle& op, const OpTraits& traits) {
  if (has_device_kernel(op)) {
    return "device";
  }
  if (op.hasKernelForDispatchKey(DispatchKey::PrivateUse1)) {
    return support_on_engine(traits);
  }
  if (op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional) ||
      op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd)) {
    return traits.kind == ExecutionKind::View ? "view" : "composite";
  }
  if (op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd)) {
    return "composite";
  }
  return support_on_engine(traits);
}

}  // namespace

std::vector<OpSupport> op_support(const std::string& name_space) {
  return describe_ops(name_space, [](const c10::OperatorHandle& op) -> OpSupport {
    const OpTraits& traits = op_traits(op);
    return {traits.name, support_of(op, traits), traits.depends_on_data};
  });
}

}  // namespace openreg
