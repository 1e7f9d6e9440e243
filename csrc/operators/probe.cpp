#include "operators/probe.h"

#include "operators/alias.h"
#include "operators/map_tensors.h"
#include "operators/quiet.h"
#include "operators/signature.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace openreg {
namespace {

using c10::IValue;

enum class Answer { Accepts, Refuses, OtherError };
enum class Shapes { OneElement, AsGiven };

at::Tensor stand_in(const at::Tensor& tensor, Shapes shapes) {
  if (!on_device(tensor)) {
    return tensor.defined() ? tensor.clone() : tensor;
  }
  const std::vector<int64_t> ones(static_cast<size_t>(tensor.dim()), 1);
  return at::zeros(shapes == Shapes::OneElement ? at::IntArrayRef(ones) : tensor.sizes(),
                   tensor.options().device(c10::kCPU));
}

IValue stand_in(const IValue& value, Shapes shapes) {
  if (value.isDevice() && value.toDevice().type() == kDevice) {
    return c10::Device(c10::kCPU);
  }
  return map_tensors(value, [&](const at::Tensor& tensor) { return stand_in(tensor, shapes); });
}

bool is_about_dtypes(std::string_view words) {
  constexpr std::string_view kWords[] = {"not implemented", "support",  "dtype",  "type",
                                         "continuous",      "floating", "complex"};
  for (const std::string_view word : kWords) {
    if (words.find(word) != std::string_view::npos) {
      return true;
    }
  }
  return false;
}

bool agrees(const at::Tensor& made, const TensorSpec& spec) {
  return made.defined() == spec.defined && (!made.defined() || made.sizes() == at::IntArrayRef(spec.sizes) ||
                                            (made.numel() == 0 && c10::multiply_integers(spec.sizes) == 0));
}

// Whether the results that end the stack have the shapes of the plan.
bool agrees(const torch::jit::Stack& stack, const Plan& plan) {
  const size_t first = stack.size() - plan.results.size();
  for (size_t i = 0; i < plan.results.size(); ++i) {
    const auto& specs = plan.results[i].tensors;
    const IValue& made = stack[first + i];
    if (plan.results[i].argument == OperatorFacts::kFresh && made.isTensor() &&
        !agrees(made.toTensor(), specs[0])) {
      return false;
    }
  }
  return true;
}

// With a plan, its shapes have to be right too.
Answer ask(const c10::OperatorHandle& op, const OperatorFacts& facts, const torch::jit::Stack& stack,
           Shapes shapes, const Plan* plan = nullptr) {
  char why[512] = "";
  bool agreed = true;
  const auto call = [&] {
    torch::jit::Stack call;
    for (size_t i = stack.size() - facts.arguments; i < stack.size(); ++i) {
      call.push_back(stand_in(stack[i], shapes));
    }
    if (facts.generator >= 0) {  // the host's own generator stays as it is
      call[static_cast<size_t>(facts.generator)] = at::make_generator<at::CPUGeneratorImpl>(uint64_t{0});
    }
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &call);
    agreed = plan == nullptr || agrees(call, *plan);
  };
  // Division is what PyTorch's kernels refuse zeros for.
  if (run_quietly(call, why, sizeof(why)) == orSuccess || std::string_view(why) == "ZeroDivisionError") {
    return agreed ? Answer::Accepts : Answer::OtherError;
  }
  return is_about_dtypes(why) ? Answer::Refuses : Answer::OtherError;
}

constexpr int64_t kMuchWork = 1 << 16;

constexpr size_t kMostKnown = 16384;  // a program with ever new numbers

// How many elements the results have.
int64_t made_by(const Plan& plan) {
  int64_t elements = 0;
  for (const Plan::Result& result : plan.results) {
    for (const TensorSpec& spec : result.tensors) {
      elements += spec.defined ? c10::multiply_integers(spec.sizes) : 0;
    }
  }
  return elements;
}

int64_t elements_in(const OperatorFacts& facts, const torch::jit::Stack& stack) {
  int64_t elements = 0;
  for (size_t i = stack.size() - facts.arguments; i < stack.size(); ++i) {
    for_each_tensor(stack[i],
                    [&](const at::Tensor& tensor) { elements += tensor.defined() ? tensor.numel() : 0; });
  }
  return elements;
}

// Nobody else looks at words either: the method of an approximation, the kind of a reduction.
bool has_words(const OperatorFacts& facts, const torch::jit::Stack& stack) {
  return std::any_of(stack.end() - static_cast<ptrdiff_t>(facts.arguments), stack.end(),
                     [](const IValue& value) { return value.isString(); });
}

// A backward is given lengths, indices and saved results that describe the real data, and its kernel reads
// where they say. Its forward has been asked. Other people's kernels may do so too, and may have effects.
bool may_be_asked(const OperatorFacts& facts) {
  return facts.name.find("backward") == std::string::npos && facts.is_pytorchs;
}

// The dtypes, and what else may choose a kernel or be refused: words, switches, the dtype of the result,
// numbers.
std::vector<int64_t> kind_of(const c10::OperatorHandle& op, const OperatorFacts& facts,
                             const torch::jit::Stack& stack) {
  std::vector<int64_t> kind;
  const auto& schema = op.schema().arguments();
  const size_t begin = stack.size() - facts.arguments;
  for (size_t i = 0; i < facts.arguments; ++i) {
    const IValue& value = stack[begin + i];
    if (value.isString()) {
      kind.push_back(static_cast<int64_t>(std::hash<std::string_view>()(value.toStringView())));
    } else if (value.isBool()) {
      kind.push_back(value.toBool());
    } else if (value.isInt() && schema[i].name() == "dtype") {
      kind.push_back(value.toInt());
    } else if (value.isInt() || value.isDouble()) {
      kind.push_back(facts.by_kind[i] || facts.generator >= 0 ? number_word(value, facts.by_kind[i]) : 0);
    } else {
      for_each_tensor(value, [&](const at::Tensor& tensor) {
        kind.push_back(
            static_cast<int64_t>(tensor.defined() ? tensor.scalar_type() : at::ScalarType::Undefined));
      });
    }
  }
  return kind;
}

Answer ask_with_one_element(const c10::OperatorHandle& op, const OperatorFacts& facts,
                            const torch::jit::Stack& stack) {
  static thread_local std::map<std::pair<const OperatorFacts*, std::vector<int64_t>>, Answer> known;
  if (known.size() >= kMostKnown) {
    known.clear();
  }
  const auto [entry, is_new] = known.try_emplace({&facts, kind_of(op, facts, stack)}, Answer::Accepts);
  if (is_new) {
    entry->second = ask(op, facts, stack, Shapes::OneElement);
  }
  return entry->second;
}

}  // namespace

bool kernel_refuses(const c10::OperatorHandle& op, const OperatorFacts& facts, const torch::jit::Stack& stack,
                    const Plan& plan, bool alone) {
  if (!may_be_asked(facts)) {
    return false;
  }
  const bool little = made_by(plan) + elements_in(facts, stack) < kMuchWork;
  if (little && (alone || !facts.may_refuse_data)) {
    return ask(op, facts, stack, Shapes::AsGiven, &plan) != Answer::Accepts;
  }
  Answer answer = alone ? ask(op, facts, stack, Shapes::OneElement) : ask_with_one_element(op, facts, stack);
  if (answer != Answer::Accepts && little) {  // one element may be refused for its size
    answer = ask(op, facts, stack, Shapes::AsGiven);
  }
  return answer == Answer::Refuses ||
         (answer == Answer::OtherError && (alone || (!facts.may_refuse_data && has_words(facts, stack))));
}

}  // namespace openreg
