#include "host_engine/inference/output_plan_reader.h"

#include "common/map_tensors.h"

#include <algorithm>
#include <utility>

namespace openreg {
namespace {

class ResultReader {
 public:
  ResultReader(c10::DeviceType type, std::vector<const c10::StorageImpl*> seen)
      : type_(type), seen_(std::move(seen)) {}

  bool read(const OpTraits& traits, const torch::jit::Stack& stack, OutputPlan& plan) {
    const size_t first = stack.size() - traits.returned.size();
    for (size_t i = 0; i < traits.returned.size(); ++i) {
      OutputPlan::Result& result = plan.results.emplace_back();
      result.argument = traits.returned[i];
      if (!read(stack[first + i], result)) {
        return false;
      }
    }
    return true;
  }

 private:
  bool read(const c10::IValue& value, OutputPlan::Result& result) {
    result.list = value.isTensorList();
    if (result.argument != OpTraits::kNewTensor) {
      return value.isTensor();
    }
    if (!result.list) {
      return value.isTensor() && read(value.toTensor(), result.tensors.emplace_back());
    }
    for (const at::Tensor& tensor : value.toTensorVector()) {
      if (!read(tensor, result.tensors.emplace_back())) {
        return false;
      }
    }
    return true;
  }

  bool read(const at::Tensor& tensor, TensorSpec& spec) {
    if (!tensor.defined()) {
      return true;
    }
    if (tensor.device().type() != type_ || tensor.layout() != c10::kStrided || !tensor.has_storage() ||
        tensor.storage_offset() != 0 || tensor.is_conj() || tensor.is_neg() || tensor.is_quantized()) {
      return false;
    }
    const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
    if (std::find(seen_.begin(), seen_.end(), storage) != seen_.end()) {
      return false;
    }
    seen_.push_back(storage);
    spec = spec_of(tensor);
    return true;
  }

  c10::DeviceType type_;
  std::vector<const c10::StorageImpl*> seen_;
};

// Whether the tensor is also one of the arguments before `end`: x.add_(y) calls add.out(x, y, x).
bool is_argument_before(const torch::jit::Stack& stack, size_t begin, size_t end, const at::Tensor& tensor) {
  bool found = false;
  for (size_t i = 0; i < end; ++i) {
    for_each_tensor(stack[begin + i], [&](const at::Tensor& other) { found |= other.is_same(tensor); });
  }
  return found;
}

}  // namespace

TensorSpec spec_of(const at::Tensor& tensor) {
  TensorSpec spec;
  spec.defined = true;
  spec.dtype = tensor.dtype();
  spec.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  spec.strides.assign(tensor.strides().begin(), tensor.strides().end());
  spec.bytes = tensor.storage().nbytes();
  return spec;
}

std::vector<const c10::StorageImpl*> storages_of(const torch::jit::Stack& stack) {
  std::vector<const c10::StorageImpl*> storages;
  for (const c10::IValue& value : stack) {
    for_each_tensor(value, [&](const at::Tensor& tensor) {
      if (tensor.defined() && tensor.has_storage()) {
        storages.push_back(tensor.storage().unsafeGetStorageImpl());
      }
    });
  }
  return storages;
}

bool read_results(const OpTraits& traits, const torch::jit::Stack& stack, c10::DeviceType type,
                  std::vector<const c10::StorageImpl*> seen, OutputPlan& plan) {
  return ResultReader(type, std::move(seen)).read(traits, stack, plan);
}

bool read_resizes(const OpTraits& traits, const torch::jit::Stack& before, const torch::jit::Stack& after,
                  c10::DeviceType type, OutputPlan& plan) {
  const size_t begin = before.size() - traits.arguments;
  for (size_t i = 0; i < traits.arguments; ++i) {
    if (!traits.written[i]) {
      continue;
    }
    if (after[i].isTensor()) {
      const at::Tensor& output = before[begin + i].toTensor();
      const at::Tensor& resized = after[i].toTensor();
      if (resized.defined() && resized.device().type() == type && output.defined() &&
          output.sizes() != resized.sizes() &&
          !(traits.has(OpFlag::kFillsAnyShape) && output.numel() == resized.numel())) {
        if (!traits.is_out[i] || is_argument_before(before, begin, i, output)) {
          return false;  // in place: the kernel reads the tensor before it resizes it, or rejects the call
        }
        plan.resizes.push_back({i, spec_of(resized)});
      }
    } else if (after[i].isTensorList()) {
      const c10::ArrayRef<c10::IValue> outputs = before[begin + i].toListRef();
      const c10::ArrayRef<c10::IValue> resized = after[i].toListRef();
      for (size_t k = 0; k < resized.size(); ++k) {
        if (outputs[k].toTensor().sizes() != resized[k].toTensor().sizes()) {
          return false;
        }
      }
    }
  }
  return true;
}

}  // namespace openreg
