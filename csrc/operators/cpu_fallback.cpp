// Operators without a kernel, in the library without the host engine: their tensors are copied to the host,
// the CPU kernel runs there, and its results are copied back. Slow and synchronous; it keeps a bring-up going
// while kernels are missing.
#include "operators/cpu_fallback.h"

#include "device/on_device.h"
#include "diagnostics/op_stats.h"
#include "operators/unannotated_writes.h"
#include "random/generator.h"
#include "random/generator_argument.h"

#include <ATen/core/Generator.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <c10/util/SmallVector.h>
#include <torch/library.h>

#include <array>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

namespace openreg {
namespace {

struct Fallback {
  OpDescription info;
  uint64_t calls = 0;
};

struct Fallbacks {
  std::mutex mutex;  // guards the map; entries are never erased
  std::unordered_map<std::string, Fallback> by_name;
};

Fallbacks& fallbacks() {
  static auto* made = new Fallbacks;
  return *made;
}

// Counts the call, and warns at the first one of each operator.
const OpDescription& count(const c10::OperatorHandle& op) {
  std::string name = c10::toString(op.operator_name());
  Fallback* found = nullptr;
  bool first = false;
  {
    std::lock_guard<std::mutex> lock(fallbacks().mutex);
    found = &fallbacks().by_name[name];
    first = found->calls++ == 0;
    if (first) {
      found->info.name = name;
      found->info.arguments = op.schema().arguments().size();
      found->info.results = op.schema().returns().size();
      found->info.has_cpu_kernel = true;
      found->info.depends_on_data =
          op.hasTag(at::Tag::data_dependent_output) || op.hasTag(at::Tag::dynamic_output_shape);
    }
  }
  if (first) {
    TORCH_WARN("the operator '", name, "' has no kernel for ", orGetDeviceName(),
               " and falls back to the CPU, with copies of its arguments and results. This is slow. Write a "
               "kernel for it, or offer a function of the kernel library.");
  }
  return found->info;
}

// The device of the first device tensor, or of a device argument.
std::optional<c10::DeviceIndex> device_of(const torch::jit::Stack& stack, size_t begin) {
  for (size_t i = begin; i < stack.size(); ++i) {
    if (stack[i].isTensor() && on_device(stack[i].toTensor())) {
      return stack[i].toTensor().device().index();
    }
    if (stack[i].isDevice() && stack[i].toDevice().type() == kDevice) {
      return stack[i].toDevice().has_index() ? stack[i].toDevice().index() : current_device();
    }
  }
  return std::nullopt;
}

// A random operator draws from the device's generator: the CPU kernel gets a CPU generator at its position. A
// device generator for host tensors stays, and the kernel rejects it.
void replace_generator(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  const int generator = generator_argument(op);
  const size_t begin = stack.size() - op.schema().arguments().size();
  const auto device = device_of(stack, begin);
  if (generator < 0 || !device.has_value()) {
    return;
  }
  c10::IValue& value = stack[begin + static_cast<size_t>(generator)];
  value = generator_at(reserve_random(value.toOptional<at::Generator>(), *device).now());
}

// Replaces arguments of unannotated_writes.h by host tensors. Returns pairs of the device and the host
// tensor, to copy back: PyTorch's fallback copies back only what the schema says.
c10::SmallVector<std::pair<at::Tensor, at::Tensor>, 2> move_unannotated_writes(const c10::OperatorHandle& op,
                                                                               torch::jit::Stack& stack) {
  c10::SmallVector<std::pair<at::Tensor, at::Tensor>, 2> moved;
  const size_t begin = stack.size() - op.schema().arguments().size();
  for (const size_t argument : unannotated_writes(op.operator_name().name)) {
    c10::IValue& value = stack[begin + argument];
    if (value.isTensor() && on_device(value.toTensor())) {
      moved.emplace_back(value.toTensor(), value.toTensor().cpu());
      value = moved.back().second;
    }
  }
  return moved;
}

// PyTorch's default for an out-of-tree device raises, so the fallback is not called for convolutions.
at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight,
                       const std::optional<at::Tensor>& bias, at::IntArrayRef stride, at::IntArrayRef padding,
                       at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding,
                       int64_t groups) {
  const std::optional<at::Tensor> host_bias =
      bias.has_value() && bias->defined() ? std::optional(bias->cpu()) : std::nullopt;
  return at::convolution(input.cpu(), weight.cpu(), host_bias, stride, padding, dilation, transposed,
                         output_padding, groups)
      .to(input.device());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& weight, at::IntArrayRef stride,
    at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding,
    int64_t groups, std::array<bool, 3> output_mask) {
  const int64_t channels = transposed ? weight.size(1) * groups : weight.size(0);
  const auto [grad_input, grad_weight, grad_bias] =
      at::convolution_backward(grad_output.cpu(), input.cpu(), weight.cpu(), at::IntArrayRef(channels),
                               stride, padding, dilation, transposed, output_padding, groups, output_mask);
  const auto to_device = [&](const at::Tensor& host) {
    return host.defined() ? host.to(input.device()) : host;
  };
  return {to_device(grad_input), to_device(grad_weight), to_device(grad_bias)};
}

// Reads a number: a synchronization on every device, and not a fallback.
at::Scalar local_scalar_dense(const at::Tensor& self) {
  return self.cpu().item();
}

}  // namespace

void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const OperatorCall call(op, count(op), stack);
  note_wait();
  replace_generator(op, *stack);
  const auto moved = move_unannotated_writes(op, *stack);
  at::native::cpu_fallback(op, stack);
  for (const auto& [device, host] : moved) {
    device.copy_(host);
  }
}

namespace {

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_local_scalar_dense", local_scalar_dense);
  m.impl("convolution_overrideable", convolution);
  m.impl("convolution_backward_overrideable", convolution_backward);
}

}  // namespace

std::map<std::string, uint64_t> cpu_fallbacks() {
  std::map<std::string, uint64_t> calls;
  std::lock_guard<std::mutex> lock(fallbacks().mutex);
  for (const auto& [name, fallback] : fallbacks().by_name) {
    calls.emplace(name, fallback.calls);
  }
  return calls;
}

}  // namespace openreg
