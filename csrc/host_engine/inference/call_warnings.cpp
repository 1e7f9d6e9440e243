#include "host_engine/inference/call_warnings.h"

#include "common/map_tensors.h"

#include <ATen/core/Tensor.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace openreg {
namespace {

using c10::IValue;

bool any_tensor(const IValue& value, bool (*holds)(const at::Tensor&)) {
  bool any = false;
  for_each_tensor(value, [&](const at::Tensor& tensor) { any |= tensor.defined() && holds(tensor); });
  return any;
}

// uint8 masks are deprecated.
bool is_byte_mask(std::string_view name, const IValue& value) {
  return (name == "mask" || name == "condition" || name == "indices") &&
         any_tensor(value, [](const at::Tensor& tensor) { return tensor.scalar_type() == at::kByte; });
}

// For var and std: the number of elements per result does not exceed the correction.
bool lacks_degrees_of_freedom(const IValue& self, const IValue& dims, const IValue& correction) {
  const at::Tensor& tensor = self.toTensor();
  int64_t elements = 1;
  if (dims.isIntList() && !dims.toIntList().empty()) {
    for (const int64_t dim : dims.toIntList()) {
      const bool exists = dim >= -tensor.dim() && dim < tensor.dim();
      elements *= exists ? tensor.size(dim) : 1;  // 0-dim tensor, or a dim that the kernel rejects
    }
  } else {
    elements = tensor.numel();
  }
  const double subtracted = correction.isNone() ? 1 : correction.toScalar().to<double>();
  return static_cast<double>(elements) <= subtracted || tensor.numel() == 0;
}

// For random_ on a floating dtype: a bound may exceed the integers that the dtype represents exactly.
bool is_wide_range(const torch::jit::Stack& stack, size_t begin) {
  constexpr int64_t kExactInAllDtypes = 1 << 8;
  return at::isFloatingType(stack[begin].toTensor().scalar_type()) &&
         std::any_of(stack.begin() + static_cast<ptrdiff_t>(begin), stack.end(), [](const IValue& value) {
           return value.isInt() && (value.toInt() > kExactInAllDtypes || value.toInt() < -kExactInAllDtypes);
         });
}

}  // namespace

void WarningObserver::add_missing(const std::vector<c10::Warning>& warnings) {
  for (const c10::Warning& warning : warnings) {
    if (std::ranges::find(texts_, warning.msg()) == texts_.end()) {
      before_->process(warning);
    }
  }
}

bool may_warn(const c10::OperatorHandle& op, const OpTraits& traits, const torch::jit::Stack& stack) {
  if (!traits.is_aten) {
    return false;
  }
  const size_t begin = stack.size() - traits.arguments;
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0; i < traits.arguments; ++i) {
    const IValue& value = stack[begin + i];
    if (is_byte_mask(arguments[i].name(), value)) {
      return true;
    }
    if (i >= 2 && arguments[i].name() == "correction") {
      return lacks_degrees_of_freedom(stack[begin], stack[begin + i - 1], value);
    }
  }
  if (traits.has(OpFlag::kWarnsIfWide)) {
    return stack[begin].isTensor() && is_wide_range(stack, begin);
  }
  if (traits.has(OpFlag::kWarnsOnResize)) {
    return any_tensor(stack.back(), [](const at::Tensor& output) { return output.numel() != 0; });
  }
  return traits.has(OpFlag::kWarns) ||
         (traits.has(OpFlag::kWarnsIfNotContiguous) &&
          std::any_of(stack.begin() + static_cast<ptrdiff_t>(begin), stack.end(), [](const IValue& value) {
            return any_tensor(value, [](const at::Tensor& tensor) { return !tensor.is_contiguous(); });
          }));
}

}  // namespace openreg
