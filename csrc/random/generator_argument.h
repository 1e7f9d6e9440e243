// The generator argument of random operators.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>

namespace openreg {

/// The index of the generator argument of a random operator, or -1.
inline int generator_argument(const c10::OperatorHandle& op) {
  if (!op.hasTag(at::Tag::nondeterministic_seeded)) {
    return -1;
  }
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].type()->str().find("Generator") != std::string::npos) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

}  // namespace openreg
