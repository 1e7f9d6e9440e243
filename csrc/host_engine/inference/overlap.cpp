#include "host_engine/inference/overlap.h"

#include "common/map_tensors.h"
#include "device/on_device.h"
#include "kernel/memory_overlap.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>

#include <algorithm>

namespace openreg {
namespace {

bool is_dense_on_device(const at::Tensor& tensor) {
  return on_device(tensor) && tensor.has_storage();
}

bool rejects_overlap(const OpTraits& traits, const at::Tensor& written, const at::Tensor& other) {
  if (!is_dense_on_device(other)) {
    return false;
  }
  const at::MemOverlapStatus found = overlap_status(written, other);
  return found == at::MemOverlapStatus::Partial ||
         (found == at::MemOverlapStatus::Full && traits.has(OpFlag::kRejectsOverlap));
}

bool rejects_overlap(const OpTraits& traits, const at::Tensor& written, const c10::IValue& other) {
  if (other.isTensor()) {
    return rejects_overlap(traits, written, other.toTensor());
  }
  if (!other.isTensorList() && !is_optional_tensor_list(other)) {
    return false;
  }
  const c10::ArrayRef<c10::IValue> list = other.toListRef();
  return std::ranges::any_of(list, [&](const c10::IValue& t) {
    return t.isTensor() && rejects_overlap(traits, written, t.toTensor());
  });
}

}  // namespace

bool writes_overlap(const OpTraits& traits, const torch::jit::Stack& stack) {
  const size_t begin = stack.size() - traits.arguments;
  for (size_t i = 0; i < traits.arguments; ++i) {
    const c10::IValue& value = stack[begin + i];
    if (!traits.written[i] || !value.isTensor() || !is_dense_on_device(value.toTensor())) {
      continue;
    }
    const at::Tensor& written = value.toTensor();
    if (overlaps_itself(written)) {
      return true;
    }
    for (size_t k = 0; k < traits.arguments; ++k) {
      if (k == i) {
        continue;
      }
      const c10::IValue& other = stack[begin + k];
      const bool is_output = traits.written[k] && other.isTensor() && is_dense_on_device(other.toTensor());
      if (rejects_overlap(traits, written, other) ||
          (is_output && overlap_status(written, other.toTensor()) == at::MemOverlapStatus::Full)) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace openreg
