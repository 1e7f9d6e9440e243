#include "host_engine/engine.h"

#include "common/map_tensors.h"
#include "diagnostics/op_stats.h"
#include "host_engine/dtypes/upcast.h"
#include "host_engine/inference/call_warnings.h"
#include "host_engine/inference/infer.h"
#include "host_engine/kernel_allocator.h"
#include "host_engine/kernel_results.h"
#include "host_engine/launch/launch.h"
#include "host_engine/ops/one_device.h"
#include "host_engine/ops/op_traits.h"
#include "host_engine/ops/output_plan.h"
#include "kernel/arg_alias.h"
#include "kernel/kernel.h"
#include "kernel/thread_state.h"
#include "layouts/composite.h"
#include "memory/device_allocator.h"
#include "memory/kernel_view.h"
#include "random/generator.h"
#include "stream/capture.h"
#include "stream/schedule.h"

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <algorithm>

namespace openreg {
namespace {

using c10::IValue;

// One synchronous operator call: replaces the arguments, runs the kernel, converts the results.
class Call {
 public:
  Call(const c10::OperatorHandle& op, const OpTraits& traits, torch::jit::Stack* stack, bool dense)
      : op_(op), traits_(traits), stack_(*stack), begin_(stack->size() - traits_.arguments), dense_(dense) {}

  void prepare() {
    for (size_t i = 0; i < traits_.arguments; ++i) {
      prepare_argument(i);
    }
    // A device generator dispatches a call to the device even if all tensors are on the host.
    TORCH_CHECK(device_ >= 0 || traits_.generator < 0,
                "Expected a 'cpu' device type for generator but found '", orGetDeviceName(), "'");
    if (device_ < 0) {
      device_ = current_device();
    }
    if (traits_.generator >= 0) {
      const IValue& given = stack_[begin_ + static_cast<size_t>(traits_.generator)];
      random_ = reserve_random(given.toOptional<at::Generator>(), device_);
    }
    check_host_tensors();
  }

  void run() {
    TORCH_CHECK_NOT_IMPLEMENTED(traits_.has_cpu_kernel || !dense_, "the operator '", traits_.name,
                                "' is not available on ", orGetDeviceName(),
                                ": it has neither a kernel for the device nor one for the CPU");
    DeviceScope scope(device_);
    // A view of a sparse tensor has new indices or values, which a kernel computes.
    if (traits_.kind == ExecutionKind::View && dense_) {
      const DispatchKeyGuard below;
      call_cpu_kernel();
      return;
    }
    check_uncaptured(device_, "the operator '" + traits_.name + "', which runs synchronously,");
    propagate_requires_grad();
    note_run(traits_);
    try {
      run_kernel(traits_.name.c_str(), device_, [this] { call_cpu_kernel(); });
    } catch (...) {
      for (const WrittenArg& written : written_) {
        written.place.restore();
      }
      throw;
    }
  }

  /// Returns false if the kernel resized an argument: then the results are not a plan for the next call.
  bool finish() {
    bool resized = false;
    for (const WrittenArg& written : written_) {
      resized |= sync_metadata(written.device, written.alias);
    }
    for (const Wrapper& input : wrappers_) {
      if (input.written) {
        assign(input.device, to_device(input.alias));
      }
    }
    const size_t first = stack_.size() - traits_.returned.size();
    for (size_t i = 0; i < traits_.returned.size(); ++i) {
      finish_result(stack_[first + i], traits_.returned[i]);
    }
    return !resized;
  }

 private:
  struct WrittenArg {
    at::Tensor device;
    at::Tensor alias;
    AliasPlace place;
  };

  void call_cpu_kernel() {
    if (traits_.generator >= 0) {  // set here: kernels that this thread ran while waiting share its generator
      stack_[begin_ + static_cast<size_t>(traits_.generator)] = generator_at(random_.now());
    }
    std::optional<KernelScope> on_host;
    if (C10_UNLIKELY(!traits_.is_aten)) {
      on_host.emplace(ThreadState::kHost);
    }
    if (dense_) {
      op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack_);
    } else {
      op_.callBoxed(&stack_);  // dispatches by the layout of the arguments
    }
  }

  void prepare_argument(size_t i) {
    IValue& value = stack_[begin_ + i];
    const bool writes = traits_.written[i];
    if (value.isTensor()) {
      const at::Tensor& tensor = value.toTensor();
      if (on_device(tensor) && is_composite(tensor)) {
        value = prepare_wrapper(tensor, i, writes);
      } else if (on_device(tensor)) {
        note_device(device_, tensor.device(), traits_);
        at::Tensor alias = alias_for(tensor, writes);
        IValue before = std::exchange(value, IValue(alias));
        keep(std::move(before).toTensor(), std::move(alias), i, writes);
      } else {
        note_host(tensor, writes);
      }
    } else if (value.isDevice() && value.toDevice().type() == kDevice) {
      note_device(device_, c10::Device(kDevice, resolve(value.toDevice())), traits_);
      value = c10::Device(c10::kCPU);
    } else {
      value = map_tensors(value, [&](const at::Tensor& tensor) { return prepare_tensor(tensor, writes); });
    }
  }

  // A tensor that is passed twice gets one alias: kernels compare outputs with inputs by identity.
  at::Tensor alias_for(const at::Tensor& tensor, bool writes) {
    at::Tensor aliased = alias(tensor, writes);
    for (const Input& input : inputs_) {
      if (input.device.is_same(tensor) &&
          (tensor.numel() == 0 || input.alias.storage().is_alias_of(aliased.storage()))) {
        return input.alias;
      }
    }
    return aliased;
  }

  at::Tensor prepare_tensor(const at::Tensor& tensor, bool writes) {
    if (!on_device(tensor)) {
      note_host(tensor, writes);
      return tensor;
    }
    if (is_composite(tensor)) {
      return prepare_wrapper(tensor, kInList, writes);
    }
    note_device(device_, tensor.device(), traits_);
    at::Tensor alias = alias_for(tensor, writes);
    keep(tensor, alias, kInList, writes);
    return alias;
  }

  // Some sparse kernels compute the outputs for backward only if an argument requires grad.
  void propagate_requires_grad() {
    const auto requires_grad = [](const auto& input) { return input.device.requires_grad(); };
    if (wrappers_.empty() || !(std::any_of(wrappers_.begin(), wrappers_.end(), requires_grad) ||
                               std::any_of(inputs_.begin(), inputs_.end(), requires_grad))) {
      return;
    }
    for (size_t i = 0; i < traits_.arguments; ++i) {
      const IValue& value = stack_[begin_ + i];
      if (value.isTensor() && value.toTensor().defined() &&
          at::isFloatingType(value.toTensor().scalar_type())) {
        value.toTensor().unsafeGetTensorImpl()->set_requires_grad(true);
      }
    }
  }

  at::Tensor prepare_wrapper(const at::Tensor& tensor, size_t argument, bool writes) {
    at::Tensor alias =
        map_components(tensor, [&](const at::Tensor& part) { return prepare_tensor(part, writes); });
    wrappers_.push_back({tensor, alias, argument, writes});
    return alias;
  }

  void keep(at::Tensor device, at::Tensor alias, size_t argument, bool writes) {
    if (writes) {
      written_.push_back({device, alias, AliasPlace(alias)});
    }
    inputs_.push_back({std::move(device), std::move(alias), argument});
  }

  void note_host(const at::Tensor& tensor, bool writes) {
    if (tensor.defined() && (tensor.dim() > 0 || writes) && !host_.has_value()) {
      host_ = tensor.device();
    }
  }

  // As on CUDA: only 0-dim tensors may be on the host. Indexing accepts host and device indices.
  void check_host_tensors() const {
    if (!host_.has_value() || inputs_.empty() || traits_.has(OpFlag::kTakesHostTensors)) {
      return;
    }
    const c10::Device device(kDevice, device_);
    if (traits_.has(OpFlag::kIndexing)) {
      TORCH_CHECK(is_on_device(0),
                  "indices should be either on cpu or on the same device as the indexed tensor (", *host_,
                  ")");
      if (traits_.arguments < 3 || is_on_device(2) || is_host_scalar(2)) {
        return;
      }
    }
    // Pointwise operators check all tensors first.
    TORCH_CHECK(!has_host_output() || op_.hasTag(at::Tag::pointwise),
                "Expected all tensors to be on the same device. Expected out tensor to have device ", device,
                ", but got ", *host_, " instead");
    TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ",
                device, " and ", *host_, "! (when checking arguments of ", traits_.name, ")");
  }

  bool is_on_device(size_t argument) const { return tensor_of_argument(argument, {}).isTensor(); }

  bool has_host_output() const {
    for (size_t i = 0; i < traits_.arguments; ++i) {
      const IValue& value = stack_[begin_ + i];
      if (traits_.is_out[i] && value.isTensor() && value.toTensor().defined() && !is_on_device(i)) {
        return true;
      }
    }
    return false;
  }

  bool is_host_scalar(size_t argument) const {
    const IValue& value = stack_[begin_ + argument];
    return !value.isTensor() || (value.toTensor().dim() == 0 && !traits_.written[argument]);
  }

  void finish_result(IValue& value, int argument) {
    if (argument != OpTraits::kNewTensor) {
      if (value.isTensor()) {
        value = tensor_of_argument(static_cast<size_t>(argument), value);
      }
    } else {
      value = map_tensors(value, [this](const at::Tensor& tensor) { return to_device(tensor); });
    }
  }

  IValue tensor_of_argument(size_t argument, const IValue& otherwise) const {
    for (const Input& input : inputs_) {
      if (input.argument == argument) {
        return input.device;
      }
    }
    for (const Wrapper& input : wrappers_) {
      if (input.argument == argument) {
        return input.device;
      }
    }
    return otherwise;
  }

  at::Tensor to_device(const at::Tensor& made) {
    if (!made.defined() || !made.is_cpu()) {
      return made;
    }
    if (is_composite(made)) {
      return map_components(made, [this](const at::Tensor& part) { return to_device(part); });
    }
    return device_tensor(device_storage(made), made);
  }

  // The device storage of a kernel's result: that of an input if the result is a view of it; the storage that
  // was taken over before if two results share memory; otherwise it is taken over now.
  c10::Storage device_storage(const at::Tensor& made) {
    const c10::Storage& storage = made.storage();
    for (const auto& [seen, taken] : taken_) {
      if (seen == storage.unsafeGetStorageImpl()) {
        return taken;
      }
    }
    for (const Input& input : inputs_) {
      c10::StorageImpl* candidate =
          input.device.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
      if (storage.data() != nullptr && kernel_view(const_cast<void*>(candidate->data())) == storage.data()) {
        return c10::Storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(candidate));
      }
    }
    c10::Storage taken = take_ownership(storage, device_);
    taken_.emplace_back(storage.unsafeGetStorageImpl(), taken);
    return taken;
  }

  static constexpr size_t kInList = SIZE_MAX;

  struct Input {
    at::Tensor device;
    at::Tensor alias;
    size_t argument;  // or kInList
  };

  struct Wrapper {
    at::Tensor device;
    at::Tensor alias;
    size_t argument;  // or kInList
    bool written;
  };

  const c10::OperatorHandle& op_;
  const OpTraits& traits_;
  torch::jit::Stack& stack_;
  const size_t begin_;
  const bool dense_;  // all tensor arguments are dense
  c10::DeviceIndex device_ = -1;
  PhiloxState random_;
  std::optional<c10::Device> host_;  // the device of a host tensor argument that is written or not 0-dim
  c10::SmallVector<Input, 4> inputs_;
  c10::SmallVector<WrittenArg, 2> written_;
  c10::SmallVector<Wrapper, 1> wrappers_;
  c10::SmallVector<std::pair<c10::StorageImpl*, c10::Storage>, 2> taken_;
};

// Runs the call and merges the warnings of inference and kernel without duplicates. Whether the kernel warned
// decides whether the next call with this key is launched.
void run_and_warn(Call& call, const CallWarnings& warnings) {
  WarningObserver observer;
  call.run();
  observer.add_missing(warnings.inferred);
  if (warnings.plan) {
    warnings.plan->warns = observer.any();
  }
}

// During inference: returns the outputs of an out form without running it. Other forms are not called during
// inference.
void return_outputs(const OpTraits& traits, torch::jit::Stack* stack) {
  const size_t begin = stack->size() - traits.arguments;
  torch::jit::Stack results;
  for (const int argument : traits.returned) {
    TORCH_CHECK_NOT_IMPLEMENTED(argument != OpTraits::kNewTensor, traits.name,
                                " cannot run while shapes are inferred");
    results.push_back((*stack)[begin + static_cast<size_t>(argument)]);
  }
  stack->resize(begin);
  stack->insert(stack->end(), results.begin(), results.end());
}

}  // namespace

void run_operator(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const OpTraits& traits = op_traits(op);
  if (C10_UNLIKELY(thread_state.inferring)) {
    return_outputs(traits, stack);
    return;
  }
  if (C10_UNLIKELY(traits.rules.dtypes != 0) && C10_UNLIKELY(needs_upcast(traits, *stack))) {
    run_upcast(op, traits, stack);
    return;
  }
  const OperatorCall noted(op, traits, stack);
  LaunchKey key;  // set if `remember`
  bool remember = false;
  CallWarnings warnings;
  const bool blocking = schedule() == orScheduleBlocking;
  if (C10_LIKELY(traits.kind == ExecutionKind::Launch && (!blocking || any_capture()))) {
    if (launch(op, traits, stack, /*only_captured=*/blocking, &warnings)) {
      return;
    }
    remember = !blocking && traits.has(OpFlag::kShapesFromKernel) && key.read(traits, *stack);
  }
  Call call(op, traits, stack, /*dense=*/true);
  call.prepare();
  if (C10_UNLIKELY(warnings.expected())) {
    run_and_warn(call, warnings);
  } else {
    call.run();
  }
  if (call.finish() && remember) {
    remember_plan(traits, key, *stack);
  }
}

void run_wrapped_operator(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const OpTraits& traits = op_traits(op);
  const OperatorCall noted(op, traits, stack);
  Call call(op, traits, stack, /*dense=*/false);
  call.prepare();
  call.run();
  call.finish();
}

}  // namespace openreg
