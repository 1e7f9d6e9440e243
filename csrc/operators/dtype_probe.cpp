#include "operators/dtype_probe.h"

#include "operators/alias.h"
#include "operators/map_tensors.h"
#include "operators/quiet.h"
#include "operators/signature.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

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
  constexpr std::string_view kWords[] = {"not implemented", "support", "dtype", "type",
                                         "continuous",      "floating"};
  for (const std::string_view word : kWords) {
    if (words.find(word) != std::string_view::npos) {
      return true;
    }
  }
  return false;
}

Answer ask(const c10::OperatorHandle& op, const OperatorFacts& facts, const torch::jit::Stack& stack,
           Shapes shapes) {
  char why[512] = "";
  const auto call = [&] {
    torch::jit::Stack call;
    for (size_t i = stack.size() - facts.arguments; i < stack.size(); ++i) {
      call.push_back(stand_in(stack[i], shapes));
    }
    if (facts.generator >= 0) {  // the host's own generator stays as it is
      call[static_cast<size_t>(facts.generator)] = at::make_generator<at::CPUGeneratorImpl>(uint64_t{0});
    }
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &call);
  };
  if (run_quietly(call, why, sizeof(why)) == orSuccess) {
    return Answer::Accepts;
  }
  return is_about_dtypes(why) ? Answer::Refuses : Answer::OtherError;
}

// One element may be refused for its size. Then the real sizes are tried, if that is not much work. Where
// every error counts they are tried at once: kernels take other ways for one element.
constexpr int64_t kMuchWork = 1 << 16;

constexpr size_t kMostKnown = 16384;  // a program with ever new numbers

bool refuses(const c10::OperatorHandle& op, const OperatorFacts& facts, const torch::jit::Stack& stack,
             bool any_error) {
  int64_t elements = 0;
  for (size_t i = stack.size() - facts.arguments; i < stack.size(); ++i) {
    map_tensors(stack[i], [&](const at::Tensor& tensor) {
      elements += tensor.defined() ? tensor.numel() : 0;
      return tensor;
    });
  }
  const bool little = elements < kMuchWork;
  Answer answer = ask(op, facts, stack, any_error && little ? Shapes::AsGiven : Shapes::OneElement);
  if (answer != Answer::Accepts && !any_error && little) {
    answer = ask(op, facts, stack, Shapes::AsGiven);
  }
  return answer == Answer::Refuses || (answer == Answer::OtherError && any_error);
}

}  // namespace

bool kernel_refuses(const c10::OperatorHandle& op, const OperatorFacts& facts, const torch::jit::Stack& stack,
                    bool any_error) {
  // A backward is given lengths, indices and saved results that describe the real data, and its kernel reads
  // where they say. Its forward has been asked. Other people's kernels may do so too, and may have effects.
  if (facts.name.find("backward") != std::string::npos || !facts.is_pytorchs) {
    return false;
  }
  // The dtypes, and what else may choose a kernel or be refused: words, switches, the dtype of the result,
  // numbers.
  std::vector<int64_t> kind{any_error};
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
      map_tensors(value, [&](const at::Tensor& tensor) {
        kind.push_back(
            static_cast<int64_t>(tensor.defined() ? tensor.scalar_type() : at::ScalarType::Undefined));
        return tensor;
      });
    }
  }
  static thread_local std::map<std::pair<const OperatorFacts*, std::vector<int64_t>>, bool> known;
  if (known.size() >= kMostKnown) {
    known.clear();
  }
  const auto [entry, is_new] = known.try_emplace({&facts, std::move(kind)}, false);
  if (is_new) {
    entry->second = refuses(op, facts, stack, any_error);
  }
  return entry->second;
}

}  // namespace openreg
