#include "host_engine/dtypes/upcast.h"

#include "common/map_tensors.h"

#include <ATen/native/Resize.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

namespace openreg {
namespace {

using at::ScalarType;

constexpr uint64_t bits(std::initializer_list<ScalarType> dtypes) {
  uint64_t all = 0;
  for (const ScalarType dtype : dtypes) {
    all |= uint64_t{1} << static_cast<int>(dtype);
  }
  return all;
}

constexpr uint64_t kHalf = bits({ScalarType::Half});
constexpr uint64_t kLowFloats = bits({ScalarType::Half, ScalarType::BFloat16});
constexpr uint64_t kComplexHalf = bits({ScalarType::ComplexHalf});
constexpr uint64_t kIntegers =
    bits({ScalarType::Byte, ScalarType::Char, ScalarType::Short, ScalarType::Int, ScalarType::Long});
constexpr uint64_t kBool = bits({ScalarType::Bool});

struct Entry {
  std::string_view name;
  uint64_t dtypes;
};

// What the operator database says that CUDA has beyond the CPU (dtypesIfCUDA beside dtypes).
constexpr Entry kEntries[] = {
    {"histc", kIntegers},
    {"trace", kBool | kComplexHalf},
    {"avg_pool3d", kLowFloats},
    {"avg_pool3d_backward", kLowFloats},
    {"_upsample_bilinear2d_aa", kLowFloats},
    {"_upsample_bilinear2d_aa_backward", kLowFloats},
    {"multi_margin_loss", kLowFloats},
    {"multi_margin_loss_backward", kLowFloats},
    {"multilabel_margin_loss_forward", kLowFloats},
    {"multilabel_margin_loss_backward", kLowFloats},
    {"rrelu_with_noise", kHalf},
    {"round", kHalf},
    {"polygamma", kHalf},
    {"convolution", kComplexHalf},
    {"_convolution", kComplexHalf},
    {"convolution_backward", kComplexHalf},
};

// Elementwise and reducing operators that lack complex numbers of half precision.
constexpr std::string_view kNoComplexHalf[] = {
    "acos",  "acosh",   "asin", "asinh", "atan", "atanh", "cos",       "cosh",          "div",
    "exp",   "log",     "pow",  "sin",   "sinh", "tan",   "tanh",      "sqrt",          "lerp",
    "angle", "sigmoid", "prod", "sum",   "sgn",  "rsqrt", "logaddexp", "tanh_backward", "sigmoid_backward",
};

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
      return ScalarType::Double;  // of integers
  }
}

bool has(uint64_t dtypes, const at::Tensor& tensor) {
  return tensor.defined() && ((dtypes >> static_cast<int>(tensor.scalar_type())) & 1) != 0;
}

}  // namespace

uint64_t upcast_dtypes(const std::string& name) {
  std::string_view base(name);
  if (!base.starts_with("aten::")) {
    return 0;
  }
  base.remove_prefix(6);
  const auto is = [&](std::string_view entry) {
    return base == entry || (base.starts_with(entry) && base.substr(entry.size()) == "_");
  };
  if (base.starts_with("fft_")) {
    return kHalf | kComplexHalf;  // see fft.cpp
  }
  const bool no_complex_half = std::ranges::any_of(kNoComplexHalf, is);
  const auto* entry = std::ranges::find_if(kEntries, is, &Entry::name);
  return (entry == std::end(kEntries) ? 0 : entry->dtypes) | (no_complex_half ? kComplexHalf : 0);
}

bool needs_upcast(const OpTraits& traits, const torch::jit::Stack& stack) {
  const size_t begin = stack.size() - traits.arguments;
  for (size_t i = begin; i < stack.size(); ++i) {
    if (stack[i].isTensor() && has(traits.upcast, stack[i].toTensor())) {
      return true;
    }
  }
  return false;
}

void run_upcast(const c10::OperatorHandle& op, const OpTraits& traits, torch::jit::Stack* stack) {
  const size_t begin = stack->size() - traits.arguments;
  const torch::jit::Stack given(stack->begin() + static_cast<ptrdiff_t>(begin), stack->end());
  // What results of the wide dtype become again. Half and BFloat16 do not meet in one call.
  ScalarType narrow = ScalarType::Undefined;
  for (size_t i = 0; i < traits.arguments; ++i) {
    (*stack)[begin + i] = map_tensors(given[i], [&](const at::Tensor& tensor) {
      if (!has(traits.upcast, tensor)) {
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
      return made;  // sums of truth values are numbers
    }
    if (made.scalar_type() == wider(narrow)) {
      return made.to(narrow);
    }
    // The angle of a complex number, the transform of a real one, and their like.
    if (narrow == ScalarType::ComplexHalf && made.scalar_type() == ScalarType::Float) {
      return made.to(ScalarType::Half);
    }
    if (narrow == ScalarType::Half && made.scalar_type() == ScalarType::ComplexFloat) {
      return made.to(ScalarType::ComplexHalf);
    }
    return made;
  };
  for (size_t i = 0; i < traits.arguments; ++i) {
    if (traits.written[i] && given[i].isTensor() && has(traits.upcast, given[i].toTensor())) {
      at::native::resize_output(given[i].toTensor(), wide[i].toTensor().sizes());
      given[i].toTensor().copy_(wide[i].toTensor());
    }
  }
  const size_t first = stack->size() - traits.returned.size();
  for (size_t i = 0; i < traits.returned.size(); ++i) {
    c10::IValue& result = (*stack)[first + i];
    result = traits.returned[i] == OpTraits::kFresh ? map_tensors(result, narrowed)
                                                    : given[static_cast<size_t>(traits.returned[i])];
  }
}

}  // namespace openreg
