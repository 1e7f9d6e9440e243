#include "operators/plan.h"

#include "device/device.h"
#include "graph/capture.h"
#include "operators/below.h"
#include "operators/default_kernel.h"
#include "operators/inference.h"
#include "operators/layout.h"
#include "operators/map_tensors.h"
#include "operators/probe.h"
#include "operators/shape_rules.h"
#include "profiler/unrecorded.h"

#include <algorithm>
#include <unordered_map>

namespace openreg {
namespace {

using c10::IValue;

TensorSpec spec_of(const at::Tensor& tensor) {
  TensorSpec spec;
  spec.defined = true;
  spec.dtype = tensor.dtype();
  spec.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  spec.strides.assign(tensor.strides().begin(), tensor.strides().end());
  spec.bytes = tensor.storage().nbytes();
  return spec;
}

// Reads the shapes of the results at the end of a stack, all on `type`. False for what cannot be made before
// the kernel runs: memory shared with an argument (whose storages are in `seen`) or with another result.
class ResultReader {
 public:
  ResultReader(c10::DeviceType type, std::vector<const c10::StorageImpl*> seen)
      : type_(type), seen_(std::move(seen)) {}

  bool read(const OperatorFacts& facts, const torch::jit::Stack& stack, Plan& plan) {
    const size_t first = stack.size() - facts.returned.size();
    for (size_t i = 0; i < facts.returned.size(); ++i) {
      Plan::Result& result = plan.results.emplace_back();
      result.argument = facts.returned[i];
      if (!read(stack[first + i], result)) {
        return false;
      }
    }
    return true;
  }

 private:
  bool read(const IValue& value, Plan::Result& result) {
    result.list = value.isTensorList();
    if (result.argument != OperatorFacts::kFresh) {
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

// The call with tensors that have the arguments' shapes and not their data: Meta tensors, or zeros on the
// host. Host numbers stay as they are, since their being numbers decides dtypes.
class ShapeCall {
 public:
  ShapeCall(c10::DispatchKey key, const OperatorFacts& facts, const torch::jit::Stack& stack)
      : facts_(facts), key_(key), device_(key == c10::DispatchKey::Meta ? c10::kMeta : c10::kCPU) {
    const size_t begin = stack.size() - facts.arguments;
    for (size_t i = 0; i < facts.arguments; ++i) {
      stack_.push_back(translate(stack[begin + i]));
    }
    arguments_ = stack_;
  }

  PlanPtr infer(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
    auto plan = c10::make_intrusive<Plan>();
    {
      const BelowEverything below;
      op.redispatchBoxed(c10::DispatchKeySet(key_), &stack_);
    }
    plan->can_launch =
        ResultReader(device_, inputs_).read(facts_, stack_, *plan) && read_resizes(*plan, stack);
    return plan;
  }

 private:
  at::Tensor translate(const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.device().type() != kDevice) {
      return tensor;
    }
    const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
    auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(),
                                                         impl->unsafe_storage().nbytes(),
                                                         c10::GetAllocator(device_), /*resizable=*/true);
    if (device_ == c10::kCPU && storage->nbytes() > 0) {
      std::memset(storage->mutable_data(), 0, storage->nbytes());
    }
    at::Tensor meta = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage),
                                                               c10::DispatchKeySet(key_), tensor.dtype());
    c10::TensorImpl* twin = meta.unsafeGetTensorImpl();
    twin->set_sizes_and_strides(impl->sizes(), impl->strides(), impl->storage_offset());
    if (impl->is_conj()) {
      twin->_set_conj(true);
    }
    if (impl->is_neg()) {
      twin->_set_neg(true);
    }
    if (impl->is_wrapped_number()) {
      twin->set_wrapped_number(true);
    }
    inputs_.push_back(storage.get());
    return meta;
  }

  IValue translate(const IValue& value) {
    if (value.isDevice() && value.toDevice().type() == kDevice) {
      return c10::Device(device_);
    }
    if (value.isGenerator()) {
      return {};
    }
    return map_tensors(value, [this](const at::Tensor& tensor) { return translate(tensor); });
  }

  bool read_resizes(Plan& plan, const torch::jit::Stack& stack) {
    const size_t begin = stack.size() - facts_.arguments;
    for (size_t i = 0; i < facts_.arguments; ++i) {
      if (!facts_.written[i]) {
        continue;
      }
      if (arguments_[i].isTensor()) {
        const at::Tensor& meta = arguments_[i].toTensor();
        if (meta.defined() && meta.device().type() == device_ && stack[begin + i].toTensor().defined() &&
            stack[begin + i].toTensor().sizes() != meta.sizes()) {
          plan.resizes.push_back({i, spec_of(meta)});
        }
      } else if (arguments_[i].isTensorList()) {
        const auto before = stack[begin + i].toTensorVector();
        const auto after = arguments_[i].toTensorVector();
        for (size_t k = 0; k < after.size(); ++k) {
          if (before[k].sizes() != after[k].sizes()) {
            return false;
          }
        }
      }
    }
    return true;
  }

  const OperatorFacts& facts_;
  const c10::DispatchKey key_;
  const c10::DeviceType device_;
  torch::jit::Stack stack_;
  torch::jit::Stack arguments_;
  std::vector<const c10::StorageImpl*> inputs_;
};

struct Entry {
  std::vector<int64_t> words;
  PlanPtr plan;
};

// Full: a program with ever new shapes. Start again rather than grow for ever.
constexpr size_t kMostPlans = 16384;

std::unordered_multimap<uint64_t, Entry>& cache() {
  static thread_local std::unordered_multimap<uint64_t, Entry> plans;
  return plans;
}

PlanPtr* find(uint64_t hash, const std::vector<int64_t>& words) {
  const auto [begin, end] = cache().equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    if (C10_LIKELY(it->second.words == words)) {
      return &it->second.plan;
    }
  }
  return nullptr;
}

const PlanPtr& keep(uint64_t hash, std::vector<int64_t> words, PlanPtr plan) {
  if (PlanPtr* known = find(hash, words)) {
    return *known = std::move(plan);
  }
  auto& plans = cache();
  if (plans.size() >= kMostPlans) {
    plans.clear();
  }
  return plans.emplace(hash, Entry{std::move(words), std::move(plan)})->second.plan;
}

std::vector<const c10::StorageImpl*> storages_of(const torch::jit::Stack& stack) {
  std::vector<const c10::StorageImpl*> storages;
  const auto add = [&](const at::Tensor& tensor) {
    if (tensor.defined() && tensor.has_storage()) {
      storages.push_back(tensor.storage().unsafeGetStorageImpl());
    }
  };
  for (const IValue& value : stack) {
    if (value.isTensor()) {
      add(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) {
        add(tensor);
      }
    }
  }
  return storages;
}

// See Note [Inference in C++].
PlanPtr infer_by_default(const c10::OperatorHandle& op, const OperatorFacts& facts,
                         const torch::jit::Stack& stack) {
  torch::jit::Stack call(stack.end() - static_cast<ptrdiff_t>(facts.arguments), stack.end());
  ResultReader reader(kDevice, storages_of(call));
  {
    const BelowEverything below;
    const InferenceScope inferring;
    op.redispatchBoxed(kDefault, &call);
  }
  auto plan = c10::make_intrusive<Plan>();
  plan->can_launch = reader.read(facts, call, *plan);
  return plan;
}

// An operator that only overwrites or updates its one tensor has nothing to infer.
bool changes_only_itself(const OperatorFacts& facts, const torch::jit::Stack& stack) {
  if (facts.returned.size() != 1 || facts.returned[0] != 0 || facts.arguments == 0) {
    return false;
  }
  const size_t begin = stack.size() - facts.arguments;
  for (size_t i = 1; i < facts.arguments; ++i) {
    const IValue& value = stack[begin + i];
    if (value.isTensor() || value.isTensorList() || value.isOptionalTensorList()) {
      return false;
    }
  }
  return facts.written[0] && stack[begin].isTensor() && facts.name.find(".out") == std::string::npos &&
         facts.name.find("_out") == std::string::npos && !facts.name.starts_with("aten::resize");
}

PlanPtr plan_for_itself() {
  auto plan = c10::make_intrusive<Plan>();
  plan->results.emplace_back().argument = 0;
  plan->can_launch = true;
  return plan;
}

// Some operators write to their arguments and return nothing. Not all of them have Meta kernels.
bool returns_nothing(const OperatorFacts& facts) {
  return facts.returned.empty() &&
         (facts.name.starts_with("aten::_fused_") || facts.name.starts_with("aten::_cummax_helper") ||
          facts.name.starts_with("aten::_cummin_helper"));
}

PlanPtr plan_without_results() {
  auto plan = c10::make_intrusive<Plan>();
  plan->can_launch = true;
  return plan;
}

PlanPtr infer_unasked(const c10::OperatorHandle& op, const OperatorFacts& facts,
                      const torch::jit::Stack& stack, bool only_itself) {
  if (only_itself) {
    return plan_for_itself();
  }
  if (returns_nothing(facts)) {
    return plan_without_results();
  }
  return facts.is_structured ? infer_by_default(op, facts, stack)
                             : ShapeCall(c10::DispatchKey::Meta, facts, stack).infer(op, stack);
}

// Whether a dtype that was set to be the default decides how the kernel computes: there is one for all
// threads, and it may be another when a launched kernel runs.
bool needs_default_dtype(const OperatorFacts& facts, const torch::jit::Stack& stack, const Plan& plan) {
  const at::ScalarType now = c10::get_default_dtype_as_scalartype();
  if (C10_LIKELY(now == at::kFloat)) {
    return false;
  }
  bool decided = false;  // by an argument
  for (size_t i = stack.size() - facts.arguments; i < stack.size(); ++i) {
    for_each_tensor(stack[i], [&](const at::Tensor& tensor) {
      decided |= tensor.defined() && !at::isIntegralType(tensor.scalar_type(), /*includeBool=*/true);
    });
  }
  return !decided && std::ranges::any_of(plan.results, [&](const Plan::Result& result) {
    return std::ranges::any_of(result.tensors, [&](const TensorSpec& spec) {
      return spec.defined && c10::toRealValueType(spec.dtype.toScalarType()) == now;
    });
  });
}

PlanPtr infer(const c10::OperatorHandle& op, const OperatorFacts& facts, const torch::jit::Stack& stack) {
  const Unrecorded unrecorded;
  try {
    const bool only_itself = changes_only_itself(facts, stack);
    PlanPtr plan = infer_unasked(op, facts, stack, only_itself);
    follow_layout(facts, stack, *plan);
    if (plan->can_launch && (needs_default_dtype(facts, stack, *plan) || breaks_shape_rule(facts, stack) ||
                             kernel_refuses(op, facts, stack, *plan, only_itself))) {
      return c10::make_intrusive<Plan>();
    }
    return plan;
  } catch (const c10::OutOfMemoryError&) {
    throw;  // nothing to remember: it may fit the next time
  } catch (const std::exception&) {
    // Either there are no shapes before the data is there, or something is wrong with the arguments. In both
    // cases the call runs here and now, and what is wrong is said in the operator's own words.
    return c10::make_intrusive<Plan>();
  }
}

// In a capture nothing runs from which shapes could be kept, so the kernel runs once on the host, on zeros.
PlanPtr infer_on_host(const c10::OperatorHandle& op, const OperatorFacts& facts,
                      const torch::jit::Stack& stack) {
  try {
    return ShapeCall(c10::DispatchKey::CPU, facts, stack).infer(op, stack);
  } catch (const std::exception&) {
    return c10::make_intrusive<Plan>();
  }
}

}  // namespace

const PlanPtr& plan_for(const c10::OperatorHandle& op, const OperatorFacts& facts, const Signature& signature,
                        const torch::jit::Stack& stack, bool* fresh) {
  const PlanPtr* known = find(signature.hash(), signature.words());
  *fresh = known == nullptr;
  if (C10_LIKELY(known != nullptr)) {
    return *known;
  }
  if (facts.shapes_from_kernel && !capture_underway()) {
    static const auto* unknown = new PlanPtr(c10::make_intrusive<Plan>());
    return *unknown;
  }
  const uint64_t hash = signature.hash();
  std::vector<int64_t> words = signature.words();  // inferring may call operators, which read signatures
  return keep(hash, std::move(words),
              facts.shapes_from_kernel ? infer_on_host(op, facts, stack) : infer(op, facts, stack));
}

void remember_plan(const OperatorFacts& facts, const Signature& signature, const torch::jit::Stack& stack) {
  auto plan = c10::make_intrusive<Plan>();
  plan->can_launch = ResultReader(kDevice, {}).read(facts, stack, *plan);
  keep(signature.hash(), signature.words(), std::move(plan));
}

}  // namespace openreg
