#include "host_engine/inference/dry_run_args.h"

#include "common/map_tensors.h"
#include "kernel/arg_alias.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_strided.h>
#include <c10/util/strides.h>

#include <algorithm>

namespace openreg {
namespace {

at::ScalarType dtype_for(at::ScalarType dtype, DryRunArgs::Dtypes dtypes) {
  if (dtypes == DryRunArgs::Dtypes::AsGiven || dtype == at::kBool) {
    return dtype;
  }
  return dtypes == DryRunArgs::Dtypes::Common && at::isIntegralType(dtype, /*includeBool=*/false)
             ? at::kLong
             : at::kFloat;
}

at::Tensor stand_in_for(const at::Tensor& tensor, const DryRunArgs& spec) {
  if (!on_device(tensor)) {
    return tensor.defined() ? tensor.clone() : tensor;
  }
  const auto options = tensor.options().device(c10::kCPU).dtype(dtype_for(tensor.scalar_type(), spec.dtypes));
  c10::DimVector sizes(tensor.sizes());
  const bool cut = std::ranges::any_of(sizes, [&](int64_t size) { return size > spec.largest_dim; });
  if (cut) {
    for (int64_t& size : sizes) {
      size = std::min(size, spec.largest_dim);
    }
  }
  c10::DimVector strides(cut ? at::IntArrayRef(c10::contiguous_strides(sizes)) : tensor.strides());
  // An expanded tensor cannot be filled, so it is expanded again.
  c10::DimVector own(sizes);
  for (size_t i = 0; i < own.size(); ++i) {
    own[i] = strides[i] == 0 ? std::min<int64_t>(own[i], 1) : own[i];
  }
  at::Tensor made = at::empty_strided(own, strides, options).fill_(spec.value).expand(sizes);
  c10::TensorImpl* impl = made.unsafeGetTensorImpl();
  if (tensor.is_conj() && made.is_complex()) {
    impl->_set_conj(true);
  }
  if (tensor.is_neg()) {
    impl->_set_neg(true);
  }
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    impl->set_wrapped_number(true);
  }
  return made;
}

}  // namespace

torch::jit::Stack dry_run_args(const OpTraits& traits, const torch::jit::Stack& stack, DryRunArgs spec) {
  torch::jit::Stack call;
  call.reserve(traits.arguments);
  for (size_t i = stack.size() - traits.arguments; i < stack.size(); ++i) {
    const c10::IValue& value = stack[i];
    if (value.isDevice() && value.toDevice().type() == kDevice) {
      call.emplace_back(c10::Device(c10::kCPU));
    } else {
      call.push_back(
          map_tensors(value, [&](const at::Tensor& tensor) { return stand_in_for(tensor, spec); }));
    }
  }
  if (traits.generator >= 0) {
    call[static_cast<size_t>(traits.generator)] = at::make_generator<at::CPUGeneratorImpl>(uint64_t{0});
  }
  return call;
}

}  // namespace openreg
