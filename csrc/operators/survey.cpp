#include "operators/survey.h"

#include "operators/engine.h"
#include "operators/facts.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>

namespace openreg {
namespace {

using c10::DispatchKey;

bool has_kernel_of_ours(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(DispatchKey::PrivateUse1) &&
         op.getComputedKernelForDispatchKey(DispatchKey::PrivateUse1).debug() != kEngineLabel;
}

const char* support_on_engine(const OperatorFacts& facts) {
  if (!facts.has_cpu_kernel) {
    return "missing";
  }
  switch (facts.behaviour) {
    case Behaviour::Launch:
      return "borrowed";
    case Behaviour::View:
      return "view";
    case Behaviour::Wait:
      return "waits";
  }
  return "missing";
}

// In the order in which the dispatcher looks for a kernel.
const char* support_of(const c10::OperatorHandle& op, const OperatorFacts& facts) {
  if (has_kernel_of_ours(op)) {
    return "own";
  }
  if (op.hasKernelForDispatchKey(DispatchKey::PrivateUse1)) {
    return support_on_engine(facts);
  }
  if (op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional) ||
      op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd)) {
    return facts.behaviour == Behaviour::View ? "view" : "composite";
  }
  if (op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd)) {
    return "composite";
  }
  return support_on_engine(facts);
}

}  // namespace

std::vector<SurveyedOperator> survey(const std::string& name_space) {
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  std::vector<SurveyedOperator> all;
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findOp(name);
    if (name.getNamespace() != name_space || !op.has_value() || !op->hasSchema()) {
      continue;
    }
    const OperatorFacts& facts = facts_of(*op);
    all.push_back({facts.name, support_of(*op, facts), facts.depends_on_data});
  }
  std::ranges::sort(all, {}, &SurveyedOperator::name);
  return all;
}

}  // namespace openreg
