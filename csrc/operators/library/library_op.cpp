#include "operators/library/library_op.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

namespace openreg {
namespace {

using FunctionsByOp = std::unordered_map<c10::OperatorName, std::vector<LibraryFunction>>;

FunctionsByOp& functions_by_op() {
  static auto* made = new FunctionsByOp;
  return *made;
}

}  // namespace

bool offered(Functions functions, at::ScalarType dtype, c10::DeviceIndex device) {
  return std::ranges::all_of(
      functions, [&](LibraryFunction function) { return find_function(function, dtype, device) != nullptr; });
}

void add_library_op(torch::Library& m, const char* name, const char* overload, torch::CppFunction kernel,
                    Functions functions) {
  const c10::OperatorName op(name, overload);
  functions_by_op()[op] = functions;
  m.impl(c10::toString(op).c_str(), std::move(kernel));
}

const std::vector<LibraryFunction>* library_functions_of(const c10::OperatorName& name) {
  const auto found = functions_by_op().find(name);
  return found == functions_by_op().end() ? nullptr : &found->second;
}

}  // namespace openreg
