#include "host_engine/launch/launch.h"

#include "common/map_tensors.h"
#include "diagnostics/op_stats.h"
#include "host_engine/inference/infer.h"
#include "host_engine/inference/overlap.h"
#include "host_engine/launch/kernel_reference.h"
#include "host_engine/launch/launched_op.h"
#include "host_engine/ops/output_plan.h"
#include "kernel/arg_alias.h"
#include "kernel/copy_kernel.h"
#include "kernel/launch_site.h"
#include "memory/device_allocator.h"
#include "memory/kernel_view.h"
#include "random/generator.h"
#include "storage/device_storage.h"
#include "storage/resize.h"
#include "stream/capture.h"
#include "stream/stream.h"

#include <ATen/core/List.h>
#include <ATen/native/Resize.h>

namespace openreg {
namespace {

using c10::IValue;

// Allocates a result. Its memory becomes an output buffer of the kernel.
at::Tensor make_result(const TensorSpec& spec, LaunchedOp& launched) {
  if (!spec.defined) {
    return {};
  }
  c10::DataPtr data = device_allocator().allocate(spec.bytes);
  launched.add_output_buffer(data.get() == nullptr ? nullptr : kernel_view(data.get()), spec.bytes);
  at::Tensor result = at::detail::make_tensor<c10::TensorImpl>(
      make_storage(std::move(data), spec.bytes), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      spec.dtype);
  result.unsafeGetTensorImpl()->set_sizes_and_strides(spec.sizes, spec.strides);
  return result;
}

IValue make_result(const OutputPlan::Result& result, LaunchedOp& launched) {
  if (!result.list) {
    return make_result(result.tensors[0], launched);
  }
  c10::List<at::Tensor> list;
  list.reserve(result.tensors.size());
  for (const TensorSpec& spec : result.tensors) {
    list.push_back(make_result(spec, launched));
  }
  return list;
}

// Resizes an output to the shape of the result, with PyTorch's warning.
void resize_output(const at::Tensor& output, const TensorSpec& to) {
  at::native::resize_output_check(output, to.sizes);
  c10::StorageImpl* storage = output.storage().unsafeGetStorageImpl();
  const size_t needed =
      at::detail::computeStorageNbytes(to.sizes, to.strides, to.dtype.itemsize(), output.storage_offset());
  if (needed > storage->nbytes()) {
    resize_storage(storage, needed);
  }
  output.unsafeGetTensorImpl()->set_sizes_and_strides(to.sizes, to.strides);
}

// Whether an output that is resized is also an input. Kernels reject that.
bool is_also_input(const OpTraits& traits, const torch::jit::Stack& stack, size_t argument) {
  const size_t begin = stack.size() - traits.arguments;
  const at::Tensor& output = stack[begin + argument].toTensor();
  for (size_t i = 0; i < traits.arguments; ++i) {
    const IValue& value = stack[begin + i];
    if (i != argument && value.isTensor() && value.toTensor().is_same(output)) {
      return true;
    }
  }
  return false;
}

// Host tensors and lists are copied: the program may change host tensors, and TorchScript lists, before the
// kernel runs.
void add_argument(LaunchedOp& launched, const IValue& value, bool writes) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (on_device(tensor)) {
      launched.add_alias(tensor, writes);
    } else {
      launched.add(launched.copy_host(tensor));
    }
  } else if (value.isDevice()) {
    launched.add(c10::Device(c10::kCPU));
  } else if (!value.isList()) {
    launched.add(value);
  } else if (value.isTensorList() || is_optional_tensor_list(value)) {
    launched.add(map_tensors(value, [&](const at::Tensor& tensor) {
      return on_device(tensor) ? launched.make_alias(tensor, writes) : launched.copy_host(tensor);
    }));
  } else {
    launched.add(value.use_count() == 1 ? value : IValue(value.toList().copy()));
  }
}

// Owns a LaunchedOp until it is submitted.
struct PendingLaunch {
  LaunchedOp* op = LaunchedOp::take();
  ~PendingLaunch() {
    if (op != nullptr) {
      LaunchedOp::recycle(op);
    }
  }
  void submit(const orKernel& kernel, orStream_t stream) {
    std::exchange(op, nullptr)->submit(kernel, stream);
  }
};

}  // namespace

bool launch(const c10::OperatorHandle& op, const OpTraits& traits, torch::jit::Stack* stack,
            bool only_captured, CallWarnings* warnings) {
  static thread_local LaunchKey key;
  if (!key.read(traits, *stack)) {
    return false;
  }
  const c10::DeviceIndex device = key.device();
  if (C10_UNLIKELY(only_captured) && !capturing(device)) {
    return false;
  }
  bool fresh = false;
  const OutputPlanPtr plan = plan_for(op, traits, key, *stack, &fresh, &warnings->inferred);
  note_plan(fresh);
  if (!plan->can_launch || (traits.writes_arguments && C10_UNLIKELY(writes_overlap(traits, *stack)))) {
    return false;
  }
  if (C10_UNLIKELY(plan->may_warn) && (plan->warns || c10::WarningUtils::get_warnAlways()) &&
      !capturing(device)) {
    warnings->plan = plan;
    return false;
  }
  DeviceScope scope(device);
  const size_t begin = stack->size() - traits.arguments;
  for (const OutputPlan::Resize& resize : plan->resizes) {
    if (is_also_input(traits, *stack, resize.argument)) {
      return false;
    }
    resize_output((*stack)[begin + resize.argument].toTensor(), resize.to);
  }
  if (C10_UNLIKELY(!plan->resizes.empty()) &&
      writes_overlap(traits, *stack)) {  // a resized output overlaps an argument
    return false;
  }
  PendingLaunch pending;
  const c10::KernelFunction& kernel = cpu_kernel(op);
  const bool is_aten = traits.is_aten && !is_boxed_only(kernel);
  pending.op->set(op, plan, is_aten);
  if (C10_UNLIKELY(!is_aten)) {
    pending.op->keep(op, traits, kernel);
  }
  if (C10_UNLIKELY(traits.has(OpFlag::kMayRejectData) || traits.has(OpFlag::kRarelyRejectsData) ||
                   !traits.is_aten)) {
    pending.op->set_site(launch_site());
  }
  if (traits.generator >= 0) {
    const auto given = (*stack)[begin + static_cast<size_t>(traits.generator)].toOptional<at::Generator>();
    pending.op->set_random(traits.generator, reserve_random(given, device));
  }
  for (size_t i = 0; i < traits.arguments; ++i) {
    add_argument(*pending.op, (*stack)[begin + i], traits.written[i]);
  }
  c10::SmallVector<IValue, 2> results;
  for (const OutputPlan::Result& result : plan->results) {
    results.push_back(result.argument == OpTraits::kNewTensor
                          ? make_result(result, *pending.op)
                          : (*stack)[begin + static_cast<size_t>(result.argument)]);
  }
  pending.submit(traits.kernel, current_stream_handle(device));
  note_launch();
  stack->erase(stack->end() - static_cast<ptrdiff_t>(traits.arguments), stack->end());
  for (IValue& result : results) {
    stack->push_back(std::move(result));
  }
  return true;
}

namespace {

void launch_copy_as_operator(const at::Tensor& dst, const at::Tensor& src) {
  static const c10::OperatorHandle copy = c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", "");
  static const orKernel kernel = LaunchedOp::kernel_named("copy");
  PendingLaunch pending;
  pending.op->set(copy, nullptr, false);
  pending.op->add_alias(dst, true);
  pending.op->add_alias(src, false);
  pending.op->add(false);
  pending.submit(kernel, current_stream_handle(dst.device().index()));
}

[[maybe_unused]] const bool registered = [] {
  set_copy_launcher(&launch_copy_as_operator);
  set_launch_kernel(&LaunchedOp::kernel_named);
  return true;
}();

}  // namespace

}  // namespace openreg
