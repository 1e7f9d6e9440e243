#include "operators/op_support.h"

#include "operators/library/library_op.h"

#include <c10/core/ScalarType.h>

#include <algorithm>

namespace openreg {
namespace {

using c10::DispatchKey;

// Whether the first device has the functions for a dtype.
bool has_functions(const std::vector<LibraryFunction>& functions) {
  for (size_t i = 0; i < kLibraryDtypes; ++i) {
    const auto dtype = static_cast<at::ScalarType>(i);
    if (std::ranges::all_of(functions, [&](LibraryFunction function) {
          return find_function(function, dtype, 0) != nullptr;
        })) {
      return true;
    }
  }
  return false;
}

bool is_view(const c10::FunctionSchema& schema) {
  const auto& results = schema.returns();
  return !results.empty() && std::ranges::all_of(results, [](const c10::Argument& result) {
    return result.alias_info() != nullptr && !result.alias_info()->isWrite();
  });
}

// In the dispatcher's order of precedence.
const char* support_of(const c10::OperatorHandle& op) {
  if (const auto* functions = library_functions_of(op.operator_name());
      functions != nullptr && !functions->empty()) {
    return has_functions(*functions) ? "driver" : "fallback";
  }
  if (op.hasKernelForDispatchKey(DispatchKey::PrivateUse1)) {
    return is_view(op.schema()) ? "view" : "device";
  }
  if (op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional) ||
      op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
      op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd)) {
    return is_view(op.schema()) ? "view" : "composite";
  }
  return op.hasKernelForDispatchKey(DispatchKey::CPU) ? "fallback" : "missing";
}

}  // namespace

std::vector<OpSupport> op_support(const std::string& name_space) {
  return describe_ops(name_space, [](const c10::OperatorHandle& op) -> OpSupport {
    const bool depends_on_data =
        op.hasTag(at::Tag::data_dependent_output) || op.hasTag(at::Tag::dynamic_output_shape);
    return {c10::toString(op.operator_name()), support_of(op), depends_on_data};
  });
}

}  // namespace openreg
