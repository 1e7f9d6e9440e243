// Applies a function to every tensor in an IValue.
#pragma once

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include <optional>

namespace openreg {

/// Whether `value` is a list of optional tensors. TorchScript's list types are equal to the type that
/// IValue::isOptionalTensorList compares with, but are not the same object.
inline bool is_optional_tensor_list(const c10::IValue& value) {
  if (!value.isList() || value.isOptionalTensorList()) {
    return value.isList();
  }
  const c10::TypePtr element = value.toList().elementType();
  const auto* optional = element->castRaw<c10::OptionalType>();
  return optional != nullptr && optional->getElementType()->kind() == c10::TypeKind::TensorType;
}

/// Returns `value` with each tensor replaced by `replace(tensor)`, also in lists. Lists are copied, not
/// modified.
template <typename Replace>
c10::IValue map_tensors(const c10::IValue& value, Replace&& replace) {
  if (value.isTensor()) {
    return replace(value.toTensor());
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> list = value.toTensorList().copy();
    for (size_t i = 0; i < list.size(); ++i) {
      list.set(i, replace(list.get(i)));
    }
    return list;
  }
  if (is_optional_tensor_list(value)) {
    c10::List<std::optional<at::Tensor>> list;
    list.reserve(value.toListRef().size());
    for (const c10::IValue& element : value.toListRef()) {
      list.push_back(element.isTensor() ? std::optional<at::Tensor>(replace(element.toTensor()))
                                        : std::nullopt);
    }
    return list;
  }
  return value;
}

/// Calls `visit(tensor)` for each tensor in `value`, also in lists and if undefined.
template <typename Visit>
void for_each_tensor(const c10::IValue& value, Visit&& visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isTensorList() || is_optional_tensor_list(value)) {
    for (const c10::IValue& element : value.toListRef()) {
      if (element.isTensor()) {
        visit(element.toTensor());
      }
    }
  }
}

}  // namespace openreg
