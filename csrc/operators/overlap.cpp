#include "operators/overlap.h"

#include "operators/alias.h"
#include "operators/words.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>

#include <algorithm>

namespace openreg {
namespace {

constexpr std::string_view kRefusers[] = {"gather", "scatter",  "index",  "take",  "put",
                                          "cat",    "kthvalue", "median", "masked"};

bool is_dense_on_device(const at::Tensor& tensor) {
  return on_device(tensor) && tensor.has_storage();
}

at::MemOverlapStatus status(const at::Tensor& written, const at::Tensor& other) {
  const c10::TensorImpl* a = written.unsafeGetTensorImpl();
  const c10::TensorImpl* b = other.unsafeGetTensorImpl();
  return a->unsafe_storage().unsafeGetStorageImpl() == b->unsafe_storage().unsafeGetStorageImpl()
             ? at::get_overlap_status(a, b)
             : at::MemOverlapStatus::No;
}

bool refused(const OperatorFacts& facts, const at::Tensor& written, const at::Tensor& other) {
  if (!is_dense_on_device(other)) {
    return false;
  }
  const at::MemOverlapStatus found = status(written, other);
  return found == at::MemOverlapStatus::Partial ||
         (found == at::MemOverlapStatus::Full && facts.refuses_overlap);
}

bool refused(const OperatorFacts& facts, const at::Tensor& written, const c10::IValue& other) {
  if (other.isTensor()) {
    return refused(facts, written, other.toTensor());
  }
  if (!other.isTensorList()) {
    return false;
  }
  const c10::ArrayRef<c10::IValue> list = other.toListRef();
  return std::ranges::any_of(list,
                             [&](const c10::IValue& t) { return refused(facts, written, t.toTensor()); });
}

}  // namespace

bool overlaps_itself(const at::Tensor& written) {
  return at::has_internal_overlap(written.unsafeGetTensorImpl()) == at::MemOverlap::Yes;
}

bool partly_in(const at::Tensor& written, const at::Tensor& other) {
  return status(written, other) == at::MemOverlapStatus::Partial;
}

bool refuses_overlap(const std::string& operator_name) {
  return has_word(operator_name, kRefusers);
}

bool writes_overlap(const OperatorFacts& facts, const torch::jit::Stack& stack) {
  const size_t begin = stack.size() - facts.arguments;
  for (size_t i = 0; i < facts.arguments; ++i) {
    const c10::IValue& value = stack[begin + i];
    if (!facts.written[i] || !value.isTensor() || !is_dense_on_device(value.toTensor())) {
      continue;
    }
    const at::Tensor& written = value.toTensor();
    if (overlaps_itself(written)) {
      return true;
    }
    for (size_t k = 0; k < facts.arguments; ++k) {
      if (k != i && refused(facts, written, stack[begin + k])) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace openreg
