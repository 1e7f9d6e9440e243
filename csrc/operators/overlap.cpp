#include "operators/overlap.h"

#include "operators/alias.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>

namespace openreg {
namespace {

bool is_dense_on_device(const c10::IValue& value) {
  return value.isTensor() && on_device(value.toTensor()) && value.toTensor().has_storage();
}

}  // namespace

bool overlaps_itself(const at::Tensor& written) {
  return at::has_internal_overlap(written.unsafeGetTensorImpl()) == at::MemOverlap::Yes;
}

bool partly_in(const at::Tensor& written, const at::Tensor& other) {
  const c10::TensorImpl* a = written.unsafeGetTensorImpl();
  const c10::TensorImpl* b = other.unsafeGetTensorImpl();
  return a != b && a->unsafe_storage().unsafeGetStorageImpl() == b->unsafe_storage().unsafeGetStorageImpl() &&
         at::get_overlap_status(a, b) == at::MemOverlapStatus::Partial;
}

bool writes_overlap(const OperatorFacts& facts, const torch::jit::Stack& stack) {
  const size_t begin = stack.size() - facts.arguments;
  for (size_t i = 0; i < facts.arguments; ++i) {
    const c10::IValue& value = stack[begin + i];
    if (!facts.written[i] || !is_dense_on_device(value)) {
      continue;
    }
    const at::Tensor& written = value.toTensor();
    if (overlaps_itself(written)) {
      return true;
    }
    for (size_t k = 0; k < facts.arguments; ++k) {
      if (k != i && is_dense_on_device(stack[begin + k]) && partly_in(written, stack[begin + k].toTensor())) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace openreg
