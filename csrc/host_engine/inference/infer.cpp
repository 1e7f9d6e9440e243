#include "host_engine/inference/infer.h"

#include "common/map_tensors.h"
#include "device/device.h"
#include "host_engine/inference/call_warnings.h"
#include "host_engine/inference/dry_run.h"
#include "host_engine/inference/memory_format.h"
#include "host_engine/inference/output_plan_reader.h"
#include "kernel/default_kernel.h"
#include "kernel/dispatch_key_guard.h"
#include "kernel/thread_state.h"
#include "profiler/unrecorded.h"
#include "stream/capture.h"

#include <algorithm>
#include <unordered_map>

namespace openreg {
namespace {

using c10::IValue;

// The call with Meta tensors instead of device tensors. Host scalars stay as they are, since wrapped numbers
// affect type promotion.
class MetaCall {
 public:
  MetaCall(const OpTraits& traits, const torch::jit::Stack& stack) : traits_(traits) {
    const size_t begin = stack.size() - traits.arguments;
    for (size_t i = 0; i < traits.arguments; ++i) {
      stack_.push_back(translate(stack[begin + i]));
    }
    arguments_ = stack_;
  }

  OutputPlanPtr infer(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
    auto plan = c10::make_intrusive<OutputPlan>();
    empty_outputs();
    {
      const DispatchKeyGuard below;
      op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &stack_);
    }
    plan->can_launch = read_results(traits_, stack_, c10::kMeta, inputs_, *plan) &&
                       read_resizes(traits_, stack, arguments_, c10::kMeta, *plan);
    return plan;
  }

 private:
  // PyTorch resizes an empty output without a warning. The launch gives the warning about a resize; a Meta
  // kernel in Python would give a second one with a different text.
  void empty_outputs() {
    for (size_t i = 0; i < traits_.arguments; ++i) {
      if (traits_.is_out[i] && arguments_[i].isTensor() && arguments_[i].toTensor().defined()) {
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
    c10::TensorImpl* meta_impl = meta.unsafeGetTensorImpl();
    meta_impl->set_sizes_and_strides(impl->sizes(), impl->strides(), impl->storage_offset());
    if (impl->is_conj()) {
      meta_impl->_set_conj(true);
    }
    if (impl->is_neg()) {
      meta_impl->_set_neg(true);
    }
    if (impl->is_wrapped_number()) {
      meta_impl->set_wrapped_number(true);
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

  const OpTraits& traits_;
  torch::jit::Stack stack_;
  torch::jit::Stack arguments_;
  std::vector<const c10::StorageImpl*> inputs_;
};

struct Entry {
  std::vector<int64_t> words;
  OutputPlanPtr plan;
};

// Cache limit; cleared when exceeded (dynamic shapes).
constexpr size_t kMaxPlans = 16384;

std::unordered_multimap<uint64_t, Entry>& cache() {
  static thread_local std::unordered_multimap<uint64_t, Entry> plans;
  return plans;
}

OutputPlanPtr* find(uint64_t hash, const std::vector<int64_t>& words) {
  const auto [begin, end] = cache().equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    if (C10_LIKELY(it->second.words == words)) {
      return &it->second.plan;
    }
  }
  return nullptr;
}

const OutputPlanPtr& keep(uint64_t hash, std::vector<int64_t> words, OutputPlanPtr plan) {
  if (OutputPlanPtr* known = find(hash, words)) {
    return *known = std::move(plan);
  }
  auto& plans = cache();
  if (plans.size() >= kMaxPlans) {
    plans.clear();
  }
  return plans.emplace(hash, Entry{std::move(words), std::move(plan)})->second.plan;
}

// Note [Inference in C++]
// PyTorch has a default kernel for structured operators: it computes the shapes of the outputs, allocates
// them and calls the out form. In an InferenceScope the engine returns from the out form without running it,
// and the outputs have the inferred shapes. That takes microseconds. A Meta kernel may be Python and take a
// millisecond, and its first call imports many modules.
OutputPlanPtr infer_by_default(const c10::OperatorHandle& op, const OpTraits& traits,
                               const torch::jit::Stack& stack) {
  torch::jit::Stack call(stack.end() - static_cast<ptrdiff_t>(traits.arguments), stack.end());
  auto seen = storages_of(call);
  {
    const DispatchKeyGuard below;
    const InferenceScope inferring;
    op.redispatchBoxed(kDefault, &call);
  }
  auto plan = c10::make_intrusive<OutputPlan>();
  plan->can_launch = read_results(traits, call, kDevice, std::move(seen), *plan);
  return plan;
}

// The functional form of an out form with one output, if PyTorch infers its shapes in C++.
std::optional<c10::OperatorHandle> structured_functional_form(const c10::OperatorHandle& op) {
  const auto& arguments = op.schema().arguments();
  const c10::OperatorName& name = op.operator_name();
  if (op.schema().returns().size() != 1 || arguments.empty() || !arguments.back().is_out()) {
    return std::nullopt;
  }
  const size_t suffix = name.overload_name.rfind("_out");
  const std::string stem = suffix == std::string::npos ? std::string() : name.overload_name.substr(0, suffix);
  for (const std::string& overload : {stem, std::string("Tensor")}) {
    const auto found = c10::Dispatcher::singleton().findSchema({name.name, overload});
    if (!found.has_value() || found->schema().arguments().size() + 1 != arguments.size() ||
        !found->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional)) {
      continue;
    }
    const auto& others = found->schema().arguments();
    if (std::equal(others.begin(), others.end(), arguments.begin(),
                   [](const c10::Argument& a, const c10::Argument& b) { return *a.type() == *b.type(); })) {
      return found;
    }
  }
  return std::nullopt;
}

// For an out form whose output already has the inferred shape and dtype, such as x.mul_(2), which calls
// mul.out. Null in other cases.
OutputPlanPtr infer_fitting_output(const c10::OperatorHandle& op, const OpTraits& traits,
                                   const torch::jit::Stack& stack) {
  const auto functional = structured_functional_form(op);
  if (!functional.has_value() || !stack.back().isTensor() || !stack.back().toTensor().defined()) {
    return {};
  }
  torch::jit::Stack call(stack.end() - static_cast<ptrdiff_t>(traits.arguments), stack.end() - 1);
  {
    const DispatchKeyGuard below;
    const InferenceScope inferring;
    functional->redispatchBoxed(kDefault, &call);
  }
  const at::Tensor& output = stack.back().toTensor();
  const at::Tensor& inferred = call.back().toTensor();
  if (output.sizes() != inferred.sizes() || output.scalar_type() != inferred.scalar_type()) {
    return {};
  }
  auto plan = c10::make_intrusive<OutputPlan>();
  plan->results.emplace_back().argument = static_cast<int>(traits.arguments) - 1;
  plan->can_launch = true;
  return plan;
}

// Whether the call only writes its one tensor argument and returns it: there is nothing to infer.
bool changes_only_itself(const OpTraits& traits, const torch::jit::Stack& stack) {
  if (traits.returned.size() != 1 || traits.returned[0] != 0 || traits.arguments == 0) {
    return false;
  }
  const size_t begin = stack.size() - traits.arguments;
  for (size_t i = 1; i < traits.arguments; ++i) {
    const IValue& value = stack[begin + i];
    if (value.isTensor() || value.isTensorList() || is_optional_tensor_list(value)) {
      return false;
    }
  }
  return traits.written[0] && stack[begin].isTensor() && !traits.has(OpFlag::kResizes);
}

OutputPlanPtr plan_for_itself() {
  auto plan = c10::make_intrusive<OutputPlan>();
  plan->results.emplace_back().argument = 0;
  plan->can_launch = true;
  return plan;
}

OutputPlanPtr plan_without_results() {
  auto plan = c10::make_intrusive<OutputPlan>();
  plan->can_launch = true;
  return plan;
}

OutputPlanPtr cannot_launch() {
  return c10::make_intrusive<OutputPlan>();
}

OutputPlanPtr infer_by_shape_function(const c10::OperatorHandle& op, const OpTraits& traits,
                                      const torch::jit::Stack& stack) {
  auto plan = c10::make_intrusive<OutputPlan>();
  plan->can_launch = traits.rules.shapes(&stack[stack.size() - traits.arguments], *plan) &&
                     kernel_accepts(op, traits, stack, OnRejection::CheckDtypes);
  return plan;
}

// Tries the cheapest complete method first: a shape function; PyTorch's inference for structured operators; a
// dry run; a Meta kernel (most are Python).
OutputPlanPtr infer_results(const c10::OperatorHandle& op, const OpTraits& traits,
                            const torch::jit::Stack& stack) {
  if (traits.rules.check != nullptr && traits.rules.check(&stack[stack.size() - traits.arguments])) {
    return cannot_launch();
  }
  if (traits.rules.shapes != nullptr) {
    return infer_by_shape_function(op, traits, stack);
  }
  if (traits.is_structured) {
    OutputPlanPtr plan = infer_by_default(op, traits, stack);
    return kernel_accepts(op, traits, stack, OnRejection::CheckDtypes) ? plan : cannot_launch();
  }
  if (OutputPlanPtr plan = infer_fitting_output(op, traits, stack)) {
    return kernel_accepts(op, traits, stack, OnRejection::CheckDtypes) ? plan : cannot_launch();
  }
  if (may_dry_run(traits, stack) && !traits.has(OpFlag::kMayRejectData) && is_small(traits, stack)) {
    return plan_by_dry_run(op, traits, stack);
  }
  if (changes_only_itself(traits, stack)) {
    return kernel_accepts(op, traits, stack, OnRejection::RunSynchronously) ? plan_for_itself()
                                                                            : cannot_launch();
  }
  OutputPlanPtr plan =
      traits.returned.empty() ? plan_without_results() : MetaCall(traits, stack).infer(op, stack);
  return kernel_accepts(op, traits, stack, OnRejection::CheckDtypes) ? plan : cannot_launch();
}

// Whether the result dtype depends on torch.set_default_dtype. That setting is process-wide, and the program
// may change it before a launched kernel runs.
bool needs_default_dtype(const OpTraits& traits, const torch::jit::Stack& stack, const OutputPlan& plan) {
  const at::ScalarType now = c10::get_default_dtype_as_scalartype();
  if (C10_LIKELY(now == at::kFloat)) {
    return false;
  }
  bool decided = false;  // the dtype of an argument decides
  for (size_t i = stack.size() - traits.arguments; i < stack.size(); ++i) {
    for_each_tensor(stack[i], [&](const at::Tensor& tensor) {
      decided |= tensor.defined() && !at::isIntegralType(tensor.scalar_type(), /*includeBool=*/true);
    });
  }
  return !decided && std::ranges::any_of(plan.results, [&](const OutputPlan::Result& result) {
    return std::ranges::any_of(result.tensors, [&](const TensorSpec& spec) {
      return spec.defined && c10::toRealValueType(spec.dtype.toScalarType()) == now;
    });
  });
}

// Whether the call has check_errors=True: the kernel throws data-dependent errors.
bool checks_errors(const OpTraits& traits, const torch::jit::Stack& stack) {
  return traits.checks_errors >= 0 &&
         stack[stack.size() - traits.arguments + static_cast<size_t>(traits.checks_errors)].toBool();
}

OutputPlanPtr infer(const c10::OperatorHandle& op, const OpTraits& traits, const torch::jit::Stack& stack) {
  if (checks_errors(traits, stack)) {
    return c10::make_intrusive<OutputPlan>();
  }
  const DisableRecordFunctionGuard unrecorded;
  try {
    OutputPlanPtr plan = infer_results(op, traits, stack);
    if (needs_default_dtype(traits, stack, *plan)) {
      return cannot_launch();
    }
    apply_memory_format(traits, stack, *plan);
    return plan;
  } catch (const c10::OutOfMemoryError&) {
    throw;  // not cached: the next call may succeed
  } catch (const std::exception&) {
    // Either the shapes depend on data, or the arguments are invalid. In both cases the call runs
    // synchronously, and the kernel throws its error if there is one.
    return cannot_launch();
  }
}

// Operators whose Meta kernel is known to be wrong. The first call with a key runs synchronously and its
// results become the plan, unless a dry run is cheap or the stream is captured, where nothing can run.
bool must_run_first(const OpTraits& traits, const torch::jit::Stack& stack) {
  return traits.has(OpFlag::kShapesFromKernel) && traits.rules.shapes == nullptr && !any_capture() &&
         !(may_dry_run(traits, stack) && is_small(traits, stack));
}

}  // namespace

const OutputPlanPtr& plan_for(const c10::OperatorHandle& op, const OpTraits& traits, const LaunchKey& key,
                              const torch::jit::Stack& stack, bool* fresh,
                              std::vector<c10::Warning>* warnings) {
  const OutputPlanPtr* known = find(key.hash(), key.words());
  *fresh = known == nullptr;
  if (C10_LIKELY(known != nullptr)) {
    return *known;
  }
  if (must_run_first(traits, stack)) {
    static const auto* unknown = new OutputPlanPtr(c10::make_intrusive<OutputPlan>());
    return *unknown;
  }
  // Copies: inference may call operators, which overwrite the thread's key.
  const uint64_t hash = key.hash();
  std::vector<int64_t> words = key.words();
  const bool expects_warnings = may_warn(op, traits, stack);
  WarningCollector collector(/*of_kernels=*/expects_warnings);
  OutputPlanPtr plan = traits.has(OpFlag::kShapesFromKernel) && traits.rules.shapes == nullptr
                           ? plan_by_dry_run(op, traits, stack)
                           : infer(op, traits, stack);
  if (plan->resizes.empty()) {  // otherwise the launch warns about the resize
    *warnings = collector.take();
  }
  plan->may_warn = expects_warnings || !warnings->empty();
  plan->warns = plan->may_warn;
  return keep(hash, std::move(words), std::move(plan));
}

void remember_plan(const OpTraits& traits, const LaunchKey& key, const torch::jit::Stack& stack) {
  auto plan = c10::make_intrusive<OutputPlan>();
  plan->can_launch = read_results(traits, stack, kDevice, {}, *plan);
  keep(key.hash(), key.words(), std::move(plan));
}

}  // namespace openreg
