#include "operators/plan.h"

#include "device/device.h"
#include "graph/capture.h"
#include "operators/below.h"
#include "operators/default_kernel.h"
#include "operators/dry_run.h"
#include "operators/inference.h"
#include "operators/layout.h"
#include "operators/map_tensors.h"
#include "operators/plan_reader.h"
#include "operators/shape_rules.h"
#include "operators/warnings.h"
#include "profiler/unrecorded.h"

#include <algorithm>
#include <unordered_map>

namespace openreg {
namespace {

using c10::IValue;

// The call with Meta tensors in the place of device tensors. Host numbers stay as they are, since their being
// numbers decides dtypes.
class MetaCall {
 public:
  MetaCall(const OperatorFacts& facts, const torch::jit::Stack& stack) : facts_(facts) {
    const size_t begin = stack.size() - facts.arguments;
    for (size_t i = 0; i < facts.arguments; ++i) {
      stack_.push_back(translate(stack[begin + i]));
    }
    arguments_ = stack_;
  }

  PlanPtr infer(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
    auto plan = c10::make_intrusive<Plan>();
    empty_outputs(op);
    {
      const BelowEverything below;
      op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &stack_);
    }
    plan->can_launch = read_results(facts_, stack_, c10::kMeta, inputs_, *plan) &&
                       read_resizes(facts_, stack, arguments_, c10::kMeta, *plan);
    return plan;
  }

 private:
  // An output without elements is resized without a warning. The launch gives it; a Meta kernel in Python
  // would give it too, in words of its own.
  void empty_outputs(const c10::OperatorHandle& op) {
    const auto& arguments = op.schema().arguments();
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i].is_out() && arguments_[i].isTensor() && arguments_[i].toTensor().defined()) {
        arguments_[i].toTensor().unsafeGetTensorImpl()->set_sizes_contiguous(0);
      }
    }
  }

  at::Tensor translate(const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.device().type() != kDevice) {
      return tensor;
    }
    const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
    auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(),
                                                         impl->unsafe_storage().nbytes(),
                                                         c10::GetAllocator(c10::kMeta), /*resizable=*/true);
    at::Tensor meta = at::detail::make_tensor<c10::TensorImpl>(
        c10::Storage(storage), c10::DispatchKeySet(c10::DispatchKey::Meta), tensor.dtype());
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
      return c10::Device(c10::kMeta);
    }
    if (value.isGenerator()) {
      return {};
    }
    return map_tensors(value, [this](const at::Tensor& tensor) { return translate(tensor); });
  }

  const OperatorFacts& facts_;
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

// See Note [Inference in C++].
PlanPtr infer_by_default(const c10::OperatorHandle& op, const OperatorFacts& facts,
                         const torch::jit::Stack& stack) {
  torch::jit::Stack call(stack.end() - static_cast<ptrdiff_t>(facts.arguments), stack.end());
  auto seen = storages_of(call);
  {
    const BelowEverything below;
    const InferenceScope inferring;
    op.redispatchBoxed(kDefault, &call);
  }
  auto plan = c10::make_intrusive<Plan>();
  plan->can_launch = read_results(facts, call, kDevice, std::move(seen), *plan);
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
    if (value.isTensor() || value.isTensorList() || is_optional_tensor_list(value)) {
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

PlanPtr plan_without_results() {
  auto plan = c10::make_intrusive<Plan>();
  plan->can_launch = true;
  return plan;
}

PlanPtr cannot_launch() {
  return c10::make_intrusive<Plan>();
}

PlanPtr infer_by_shape_function(const c10::OperatorHandle& op, const OperatorFacts& facts,
                                const torch::jit::Stack& stack) {
  auto plan = c10::make_intrusive<Plan>();
  plan->can_launch = facts.shape_function(&stack[stack.size() - facts.arguments], *plan) &&
                     kernel_accepts(op, facts, stack, OnRejection::Launch);
  return plan;
}

// In this order, what is cheap and complete: a shape function; PyTorch's own inference of a structured
// operator; a dry run; a Meta kernel, most of which are Python.
PlanPtr infer_results(const c10::OperatorHandle& op, const OperatorFacts& facts,
                      const torch::jit::Stack& stack) {
  if (breaks_shape_rule(facts, stack)) {
    return cannot_launch();
  }
  if (facts.shape_function != nullptr) {
    return infer_by_shape_function(op, facts, stack);
  }
  if (facts.is_structured) {
    PlanPtr plan = infer_by_default(op, facts, stack);
    return kernel_accepts(op, facts, stack, OnRejection::Launch) ? plan : cannot_launch();
  }
  if (may_dry_run(facts, stack) && !facts.may_refuse_data && is_small(facts, stack)) {
    return plan_by_dry_run(op, facts, stack);
  }
  if (changes_only_itself(facts, stack)) {
    return kernel_accepts(op, facts, stack, OnRejection::RunAtTheCall) ? plan_for_itself() : cannot_launch();
  }
  PlanPtr plan = facts.returned.empty() ? plan_without_results() : MetaCall(facts, stack).infer(op, stack);
  return kernel_accepts(op, facts, stack, OnRejection::CheckDtypes) ? plan : cannot_launch();
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

// Whether the call asks its kernel to throw what its data is wrong with.
bool checks_errors(const OperatorFacts& facts, const torch::jit::Stack& stack) {
  return facts.checks_errors >= 0 &&
         stack[stack.size() - facts.arguments + static_cast<size_t>(facts.checks_errors)].toBool();
}

PlanPtr infer(const c10::OperatorHandle& op, const OperatorFacts& facts, const torch::jit::Stack& stack) {
  if (checks_errors(facts, stack)) {
    return c10::make_intrusive<Plan>();
  }
  const Unrecorded unrecorded;
  try {
    PlanPtr plan = infer_results(op, facts, stack);
    if (needs_default_dtype(facts, stack, *plan)) {
      return cannot_launch();
    }
    follow_layout(facts, stack, *plan);
    return plan;
  } catch (const c10::OutOfMemoryError&) {
    throw;  // nothing to remember: it may fit the next time
  } catch (const std::exception&) {
    // Either there are no shapes before the data is there, or something is wrong with the arguments. In both
    // cases the call runs here and now, and what is wrong is said in the operator's own words.
    return cannot_launch();
  }
}

// Operators whose Meta kernel is known to be wrong. Their first call with a signature runs synchronously, and
// its results are remembered; unless a dry run is cheap, or the stream is captured and nothing can run.
bool must_run_first(const OperatorFacts& facts, const torch::jit::Stack& stack) {
  return facts.shapes_from_kernel && facts.shape_function == nullptr && !capture_underway() &&
         !(may_dry_run(facts, stack) && is_small(facts, stack));
}

}  // namespace

const PlanPtr& plan_for(const c10::OperatorHandle& op, const OperatorFacts& facts, const Signature& signature,
                        const torch::jit::Stack& stack, bool* fresh, std::vector<c10::Warning>* warnings) {
  const PlanPtr* known = find(signature.hash(), signature.words());
  *fresh = known == nullptr;
  if (C10_LIKELY(known != nullptr)) {
    return *known;
  }
  if (must_run_first(facts, stack)) {
    static const auto* unknown = new PlanPtr(c10::make_intrusive<Plan>());
    return *unknown;
  }
  const uint64_t hash = signature.hash();
  std::vector<int64_t> words = signature.words();  // inferring may call operators, which read signatures
  const bool expects_warnings = may_warn(op, facts, stack);
  WarningCollector collector(/*of_kernels=*/expects_warnings);
  PlanPtr plan = facts.shapes_from_kernel && facts.shape_function == nullptr
                     ? plan_by_dry_run(op, facts, stack)
                     : infer(op, facts, stack);
  if (plan->resizes.empty()) {  // else the launch says that it resizes
    *warnings = collector.take();
  }
  plan->may_warn = expects_warnings || !warnings->empty();
  plan->warns = plan->may_warn;
  return keep(hash, std::move(words), std::move(plan));
}

void remember_plan(const OperatorFacts& facts, const Signature& signature, const torch::jit::Stack& stack) {
  auto plan = c10::make_intrusive<Plan>();
  plan->can_launch = read_results(facts, stack, kDevice, {}, *plan);
  keep(signature.hash(), signature.words(), std::move(plan));
}

}  // namespace openreg
