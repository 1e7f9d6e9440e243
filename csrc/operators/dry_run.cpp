#include "operators/dry_run.h"

#include "operators/map_tensors.h"
#include "operators/plan_reader.h"
#include "operators/quiet.h"
#include "operators/signature.h"
#include "operators/stand_ins.h"

#include <ATen/Context.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <vector>

namespace openreg {
namespace {

using c10::IValue;

constexpr int64_t kLargestDim = 8;
constexpr int64_t kSmall = 1 << 16;     // elements
constexpr size_t kMostAnswers = 16384;  // cleared when exceeded: a program with ever new numbers

enum class Answer { Accepts, NotImplemented, Rejects };

// A kernel that is not deterministic alerts, if that is wanted: with an error or with a warning.
struct AlertHandler final : c10::WarningHandler {
  bool alerted = false;
  void process(const c10::Warning&) override { alerted = true; }
};

// `arguments` and `results`: what the kernel was called with, and the stack that it left; may be null.
Answer try_call(const c10::OperatorHandle& op, const OperatorFacts& facts, const torch::jit::Stack& stack,
                StandIn stand_in, torch::jit::Stack* arguments = nullptr,
                torch::jit::Stack* results = nullptr) {
  try {
    const KernelGuard guard;
    torch::jit::Stack call = stand_ins(facts, stack, stand_in);
    if (arguments != nullptr) {
      *arguments = call;
    }
    AlertHandler alerts;
    std::optional<c10::WarningUtils::WarningHandlerGuard> listen;
    if (C10_UNLIKELY(at::globalContext().deterministicAlgorithms())) {
      listen.emplace(&alerts);
    }
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &call);
    if (results != nullptr) {
      *results = std::move(call);
    }
    return alerts.alerted ? Answer::Rejects : Answer::Accepts;
  } catch (const c10::NotImplementedError&) {
    return Answer::NotImplemented;
  } catch (const std::exception&) {  // the real call says why
    return Answer::Rejects;
  }
}

Answer try_zeros_and_ones(const c10::OperatorHandle& op, const OperatorFacts& facts,
                          const torch::jit::Stack& stack, StandIn stand_in) {
  const Answer answer = try_call(op, facts, stack, stand_in);
  if (answer != Answer::Rejects) {
    return answer;
  }
  stand_in.value = 1;
  return try_call(op, facts, stack, stand_in);
}

bool has_string(const OperatorFacts& facts, const torch::jit::Stack& stack) {
  return std::any_of(stack.end() - static_cast<ptrdiff_t>(facts.arguments), stack.end(),
                     [](const IValue& value) { return value.isString(); });
}

// Whether the kernel accepts the same shapes in dtypes that every kernel has.
bool accepts_other_dtypes(const c10::OperatorHandle& op, const OperatorFacts& facts,
                          const torch::jit::Stack& stack) {
  for (const StandIn::Dtypes dtypes : {StandIn::Dtypes::Common, StandIn::Dtypes::Float}) {
    if (try_zeros_and_ones(op, facts, stack, {kLargestDim, 0, dtypes}) == Answer::Accepts) {
      return true;
    }
  }
  return false;
}

bool decide(const c10::OperatorHandle& op, const OperatorFacts& facts, const torch::jit::Stack& stack,
            OnRejection on_rejection) {
  switch (try_zeros_and_ones(op, facts, stack, {kLargestDim, 0, StandIn::Dtypes::AsGiven})) {
    case Answer::Accepts:
      return true;
    case Answer::NotImplemented:
      return false;
    case Answer::Rejects:
      break;
  }
  // Nothing else checks a string: the method of an approximation, the kind of a reduction.
  if (on_rejection == OnRejection::RunAtTheCall || at::globalContext().deterministicAlgorithms() ||
      (!facts.may_refuse_data && has_string(facts, stack))) {
    return false;
  }
  return on_rejection == OnRejection::Launch || !accepts_other_dtypes(op, facts, stack);
}

struct Known {
  std::vector<int64_t> words;
  bool accepts;
};

}  // namespace

bool may_dry_run(const OperatorFacts& facts, const torch::jit::Stack& stack) {
  if (!facts.is_pytorchs) {
    return false;
  }
  if (facts.name.find("backward") == std::string::npos) {
    return true;
  }
  // Integers that a forward has saved are lengths and indices. The kernel of the backward trusts them, and
  // reads where they say.
  bool has_integers = false;
  for (size_t i = stack.size() - facts.arguments; i < stack.size(); ++i) {
    for_each_tensor(stack[i], [&](const at::Tensor& tensor) {
      has_integers |= tensor.defined() && at::isIntegralType(tensor.scalar_type(), /*includeBool=*/false);
    });
  }
  return !has_integers;
}

bool is_small(const OperatorFacts& facts, const torch::jit::Stack& stack) {
  int64_t elements = 0;
  for (size_t i = stack.size() - facts.arguments; i < stack.size(); ++i) {
    for_each_tensor(stack[i],
                    [&](const at::Tensor& tensor) { elements += tensor.defined() ? tensor.numel() : 0; });
  }
  return elements < kSmall;
}

PlanPtr plan_by_dry_run(const c10::OperatorHandle& op, const OperatorFacts& facts,
                        const torch::jit::Stack& stack) {
  for (const int value : {0, 1}) {
    auto plan = c10::make_intrusive<Plan>();
    torch::jit::Stack arguments;
    torch::jit::Stack call;
    if (try_call(op, facts, stack, {.value = value}, &arguments, &call) == Answer::Accepts) {
      plan->can_launch = read_results(facts, call, c10::kCPU, storages_of(arguments), *plan) &&
                         read_resizes(facts, stack, arguments, c10::kCPU, *plan);
      return plan;
    }
  }
  return c10::make_intrusive<Plan>();
}

bool kernel_accepts(const c10::OperatorHandle& op, const OperatorFacts& facts, const torch::jit::Stack& stack,
                    OnRejection on_rejection) {
  if (!may_dry_run(facts, stack)) {
    return true;
  }
  static thread_local std::unordered_multimap<uint64_t, Known> answers;
  Signature signature;
  if (!signature.read(facts, stack, kLargestDim)) {
    return decide(op, facts, stack, on_rejection);
  }
  const auto [begin, end] = answers.equal_range(signature.hash());
  const auto found =
      std::find_if(begin, end, [&](const auto& entry) { return entry.second.words == signature.words(); });
  if (found != end) {
    return found->second.accepts;
  }
  const bool accepts = decide(op, facts, stack, on_rejection);
  if (answers.size() >= kMostAnswers) {
    answers.clear();
  }
  answers.emplace(signature.hash(), Known{signature.words(), accepts});
  return accepts;
}

}  // namespace openreg
