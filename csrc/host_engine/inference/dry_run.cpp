#include "host_engine/inference/dry_run.h"

#include "common/map_tensors.h"
#include "host_engine/inference/dry_run_arg_spec.h"
#include "host_engine/inference/launch_key.h"
#include "host_engine/inference/output_plan_reader.h"
#include "kernel/kernel_guard.h"

#include <ATen/Context.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_map>
#include <vector>

namespace openreg {
namespace {

using c10::IValue;

constexpr int64_t kLargestDim = 8;
constexpr int64_t kMaxSmallElements = 1 << 16;
constexpr size_t kMaxCachedResults = 16384;  // the cache is cleared when exceeded (dynamic shapes)

enum class DryRunResult { Accepts, NotImplemented, Rejects };

// With torch.use_deterministic_algorithms, a non-deterministic kernel throws or warns (warn_only). Detects
// the warning.
struct AlertHandler final : c10::WarningHandler {
  bool alerted = false;
  void process(const c10::Warning&) override { alerted = true; }
};

// `arguments` receives the kernel's arguments, `results` the stack after the call. Both may be null.
DryRunResult try_call(const c10::OperatorHandle& op, const OpTraits& traits, const torch::jit::Stack& stack,
                      DryRunArgSpec spec, torch::jit::Stack* arguments = nullptr,
                      torch::jit::Stack* results = nullptr) {
  try {
    const KernelGuard guard;
    torch::jit::Stack call = make_dry_run_args(traits, stack, spec);
    if (arguments != nullptr) {
      *arguments = call;
    }
    AlertHandler alerts;
    std::optional<c10::WarningUtils::WarningHandlerGuard> handler_guard;
    if (C10_UNLIKELY(at::globalContext().deterministicAlgorithms())) {
      handler_guard.emplace(&alerts);
    }
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &call);
    if (results != nullptr) {
      *results = std::move(call);
    }
    return alerts.alerted ? DryRunResult::Rejects : DryRunResult::Accepts;
  } catch (const c10::NotImplementedError&) {
    return DryRunResult::NotImplemented;
  } catch (const std::exception&) {  // the synchronous call throws the error
    return DryRunResult::Rejects;
  }
}

DryRunResult try_zeros_and_ones(const c10::OperatorHandle& op, const OpTraits& traits,
                                const torch::jit::Stack& stack, DryRunArgSpec spec) {
  if (!traits.has(OpFlag::kNoDryRunWithZeros)) {
    const DryRunResult result = try_call(op, traits, stack, spec);
    if (result != DryRunResult::Rejects) {
      return result;
    }
  }
  spec.value = 1;
  return try_call(op, traits, stack, spec);
}

bool has_string(const OpTraits& traits, const torch::jit::Stack& stack) {
  return std::any_of(stack.end() - static_cast<ptrdiff_t>(traits.arguments), stack.end(),
                     [](const IValue& value) { return value.isString(); });
}

// Whether an argument is a number that no integer holds: the kernel throws when it converts the number.
bool has_wide_number(const OpTraits& traits, const torch::jit::Stack& stack) {
  constexpr auto kWidest = static_cast<double>(std::numeric_limits<int64_t>::max());
  const auto is_wide = [](const IValue& value) {
    return value.isComplexDouble() || (value.isDouble() && !(std::abs(value.toDouble()) < kWidest));
  };
  return std::any_of(
      stack.end() - static_cast<ptrdiff_t>(traits.arguments), stack.end(), [&](const IValue& value) {
        return is_wide(value) || (value.isList() && std::ranges::any_of(value.toListRef(), is_wide));
      });
}

// Whether a dry run with kLargestDim has smaller shapes than the call.
bool exceeds_dry_run_size(const OpTraits& traits, const torch::jit::Stack& stack) {
  bool cut = false;
  for (size_t i = stack.size() - traits.arguments; i < stack.size(); ++i) {
    for_each_tensor(stack[i], [&](const at::Tensor& tensor) {
      cut |= tensor.defined() &&
             std::ranges::any_of(tensor.sizes(), [](int64_t size) { return size > kLargestDim; });
    });
  }
  return cut;
}

// Whether the kernel accepts the same shapes in dtypes that every kernel supports.
bool accepts_other_dtypes(const c10::OperatorHandle& op, const OpTraits& traits,
                          const torch::jit::Stack& stack) {
  using Dtypes = DryRunArgSpec::Dtypes;
  for (const Dtypes dtypes : {Dtypes::Common, Dtypes::Float, Dtypes::FloatForBool}) {
    if (try_zeros_and_ones(op, traits, stack, {kLargestDim, 0, dtypes}) == DryRunResult::Accepts) {
      return true;
    }
  }
  return false;
}

bool decide(const c10::OperatorHandle& op, const OpTraits& traits, const torch::jit::Stack& stack,
            OnRejection on_rejection) {
  switch (try_zeros_and_ones(op, traits, stack, {kLargestDim, 0, DryRunArgSpec::Dtypes::AsGiven})) {
    case DryRunResult::Accepts:
      return true;
    case DryRunResult::NotImplemented:
      return false;
    case DryRunResult::Rejects:
      break;
  }
  // Only the kernel checks string arguments (approximation method, kind of reduction).
  if (on_rejection == OnRejection::RunSynchronously || at::globalContext().deterministicAlgorithms() ||
      has_wide_number(traits, stack) || (!traits.has(OpFlag::kMayRejectData) && has_string(traits, stack))) {
    return false;
  }
  if (!exceeds_dry_run_size(traits, stack) && !traits.has(OpFlag::kMayRejectData)) {
    return false;
  }
  return !accepts_other_dtypes(op, traits, stack);
}

struct CachedResult {
  std::vector<int64_t> key;
  bool accepts;
};

}  // namespace

bool may_dry_run(const OpTraits& traits, const torch::jit::Stack& stack) {
  if (!traits.is_aten) {
    return false;
  }
  if (!traits.has(OpFlag::kNoDryRunWithIntegers)) {
    return true;
  }
  // Integers that the forward saved are lengths and indices. The backward kernel uses them without bounds
  // checks.
  bool has_integers = false;
  for (size_t i = stack.size() - traits.arguments; i < stack.size(); ++i) {
    for_each_tensor(stack[i], [&](const at::Tensor& tensor) {
      has_integers |= tensor.defined() && at::isIntegralType(tensor.scalar_type(), /*includeBool=*/false);
    });
  }
  return !has_integers;
}

bool is_small(const OpTraits& traits, const torch::jit::Stack& stack) {
  int64_t elements = 0;
  for (size_t i = stack.size() - traits.arguments; i < stack.size(); ++i) {
    for_each_tensor(stack[i],
                    [&](const at::Tensor& tensor) { elements += tensor.defined() ? tensor.numel() : 0; });
  }
  return elements < kMaxSmallElements;
}

OutputPlanPtr plan_by_dry_run(const c10::OperatorHandle& op, const OpTraits& traits,
                              const torch::jit::Stack& stack) {
  for (int value = traits.has(OpFlag::kNoDryRunWithZeros) ? 1 : 0; value <= 1; ++value) {
    auto plan = c10::make_intrusive<OutputPlan>();
    torch::jit::Stack arguments;
    torch::jit::Stack call;
    if (try_call(op, traits, stack, {.value = value}, &arguments, &call) == DryRunResult::Accepts) {
      plan->can_launch = read_results(traits, call, c10::kCPU, storages_of(arguments), *plan) &&
                         read_resizes(traits, stack, arguments, c10::kCPU, *plan);
      return plan;
    }
  }
  return c10::make_intrusive<OutputPlan>();
}

bool kernel_accepts(const c10::OperatorHandle& op, const OpTraits& traits, const torch::jit::Stack& stack,
                    OnRejection on_rejection) {
  if (!may_dry_run(traits, stack)) {
    return true;
  }
  static thread_local std::unordered_multimap<uint64_t, CachedResult> cache;
  LaunchKey key;
  if (!key.read(traits, stack, kLargestDim)) {
    return decide(op, traits, stack, on_rejection);
  }
  const auto [begin, end] = cache.equal_range(key.hash());
  const auto found =
      std::find_if(begin, end, [&](const auto& entry) { return entry.second.key == key.words(); });
  if (found != end) {
    return found->second.accepts;
  }
  const bool accepts = decide(op, traits, stack, on_rejection);
  if (cache.size() >= kMaxCachedResults) {
    cache.clear();
  }
  cache.emplace(key.hash(), CachedResult{key.words(), accepts});
  return accepts;
}

}  // namespace openreg
