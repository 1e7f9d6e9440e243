#include "host_engine/dtypes/upcast.h"

#include "common/map_tensors.h"

#include <ATen/native/Resize.h>
#include <ATen/native/TypeProperties.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

namespace openreg {
namespace {

using at::ScalarType;

ScalarType wider(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Half:
    case ScalarType::BFloat16:
      return ScalarType::Float;
    case ScalarType::ComplexHalf:
      return ScalarType::ComplexFloat;
    case ScalarType::Bool:
      return ScalarType::Long;
    default:
      return ScalarType::Double;  // for integers
  }
}

bool has(uint64_t dtypes, const at::Tensor& tensor) {
  return tensor.defined() && ((dtypes >> static_cast<int>(tensor.scalar_type())) & 1) != 0;
}

bool is_complex(const c10::IValue& value) {
  return value.isComplexDouble() ||
         (value.isTensor() && value.toTensor().defined() && value.toTensor().is_complex());
}

// Whether Half tensors and a complex number promote to ComplexHalf.
bool promotes_to_complex_half(const OpTraits& traits, const torch::jit::Stack& stack) {
  const std::span arguments(stack.end() - static_cast<ptrdiff_t>(traits.arguments), stack.end());
  const auto is_half = [](const c10::IValue& value) {
    return value.isTensor() && has(dtypes::kHalf, value.toTensor());
  };
  if (!std::ranges::any_of(arguments, is_half) || !std::ranges::any_of(arguments, is_complex)) {
    return false;
  }
  at::native::ResultTypeState state;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].isTensor() && arguments[i].toTensor().defined() && !traits.is_out[i]) {
      state = at::native::update_result_type_state(arguments[i].toTensor(), state);
    } else if (arguments[i].isComplexDouble()) {
      state = at::native::update_result_type_state(arguments[i].toScalar(), state);
    }
  }
  return at::native::result_type(state) == ScalarType::ComplexHalf;
}

// The dtypes to upcast in this call.
uint64_t dtypes_to_upcast(const OpTraits& traits, const torch::jit::Stack& stack) {
  const uint64_t listed = traits.rules.dtypes;
  if ((listed & dtypes::kComplexHalf) != 0 && promotes_to_complex_half(traits, stack)) {
    return listed | dtypes::kHalf;
  }
  const bool found = std::any_of(
      stack.end() - static_cast<ptrdiff_t>(traits.arguments), stack.end(),
      [&](const c10::IValue& value) { return value.isTensor() && has(listed, value.toTensor()); });
  return found ? listed : 0;
}

}  // namespace

bool needs_upcast(const OpTraits& traits, const torch::jit::Stack& stack) {
  return dtypes_to_upcast(traits, stack) != 0;
}

void run_upcast(const c10::OperatorHandle& op, const OpTraits& traits, torch::jit::Stack* stack) {
  const size_t begin = stack->size() - traits.arguments;
  const uint64_t narrow_dtypes = dtypes_to_upcast(traits, *stack);
  const torch::jit::Stack given(stack->begin() + static_cast<ptrdiff_t>(begin), stack->end());
  // Results in the wide dtype are cast back to this one. A call does not mix Half and BFloat16.
  ScalarType narrow = ScalarType::Undefined;
  for (size_t i = 0; i < traits.arguments; ++i) {
    (*stack)[begin + i] = map_tensors(given[i], [&](const at::Tensor& tensor) {
      if (!has(narrow_dtypes, tensor)) {
        return tensor;
      }
      narrow = tensor.scalar_type();
      return tensor.to(wider(narrow));
    });
  }
  const torch::jit::Stack wide(stack->begin() + static_cast<ptrdiff_t>(begin), stack->end());
  op.callBoxed(stack);
  const auto narrowed = [&](const at::Tensor& made) {
    if (!made.defined() || narrow == ScalarType::Bool) {
      return made;  // a sum of bools is an integer
    }
    if (made.scalar_type() == wider(narrow)) {
      return made.to(narrow);
    }
    // Complex to real (angle) and real to complex (fft).
    if (narrow == ScalarType::ComplexHalf && made.scalar_type() == ScalarType::Float) {
      return made.to(ScalarType::Half);
    }
    if (narrow == ScalarType::Half && made.scalar_type() == ScalarType::ComplexFloat) {
      return made.to(ScalarType::ComplexHalf);
    }
    return made;
  };
  for (size_t i = 0; i < traits.arguments; ++i) {
    if (traits.written[i] && given[i].isTensor() && has(narrow_dtypes, given[i].toTensor())) {
      at::native::resize_output(given[i].toTensor(), wide[i].toTensor().sizes());
      given[i].toTensor().copy_(wide[i].toTensor());
    }
  }
  const size_t first = stack->size() - traits.returned.size();
  for (size_t i = 0; i < traits.returned.size(); ++i) {
    c10::IValue& result = (*stack)[first + i];
    result = traits.returned[i] == OpTraits::kNewTensor ? map_tensors(result, narrowed)
                                                        : given[static_cast<size_t>(traits.returned[i])];
  }
}

}  // namespace openreg
