// An argument with its tensors replaced: what every detour on the way to a kernel is made of.
#pragma once

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <optional>

namespace openreg {

/// `value` with `replace(tensor)` for each tensor in it, also in lists. A list is copied first.
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
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list = value.toOptionalTensorList().copy();
    for (size_t i = 0; i < list.size(); ++i) {
      if (const std::optional<at::Tensor> element = list.get(i)) {
        list.set(i, replace(*element));
      }
    }
    return list;
  }
  return value;
}

/// Calls `look(tensor)` for each tensor in it, also in lists, defined or not.
template <typename Look>
void for_each_tensor(const c10::IValue& value, Look&& look) {
  if (value.isTensor()) {
    look(value.toTensor());
  } else if (value.isTensorList() || value.isOptionalTensorList()) {
    for (const c10::IValue& element : value.toListRef()) {
      if (element.isTensor()) {
        look(element.toTensor());
      }
    }
  }
}

}  // namespace openreg
