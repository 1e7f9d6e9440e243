#include "host_engine/inference/dry_run_arg_spec.h"

#include "common/map_tensors.h"
#include "kernel/arg_alias.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_strided.h>
#include <c10/util/strides.h>

#include <algorithm>

namespace openreg {
namespace {

at::ScalarType dtype_for(at::ScalarType dtype, DryRunArgSpec::Dtypes dtypes) {
  if (dtypes == DryRunArgSpec::Dtypes::AsGiven ||
      (dtype == at::kBool && dtypes != DryRunArgSpec::Dtypes::FloatForBool)) {
    return dtype;
  }
  return dtypes == DryRunArgSpec::Dtypes::Common && at::isIntegralType(dtype, /*includeBool=*/false)
             ? at::kLong
             : at::kFloat;
}

at::Tensor placeholder_for(const at::Tensor& tensor, const DryRunArgSpec& spec) {
  if (!on_device(tensor)) {
    // A clone of a wrapped number would be an ordinary tensor, with another result dtype.
    const bool may_change = tensor.defined() && !tensor.unsafeGetTensorImpl()->is_wrapped_number();
    return may_change ? tensor.clone() : tensor;
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
  // fill_ rejects expanded tensors: allocate without the expanded dimensions, fill, then expand.
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

torch::jit::Stack make_dry_run_args(const OpTraits& traits, const torch::jit::Stack& stack,
                                    DryRunArgSpec spec) {
  torch::jit::Stack call;
  call.reserve(traits.arguments);
  for (size_t i = stack.size() - traits.arguments; i < stack.size(); ++i) {
    const c10::IValue& value = stack[i];
    if (value.isDevice() && value.toDevice().type() == kDevice) {
      call.emplace_back(c10::Device(c10::kCPU));
    } else {
      call.push_back(
          map_tensors(value, [&](const at::Tensor& tensor) { return placeholder_for(tensor, spec); }));
    }
  }
  if (traits.generator >= 0) {
    call[static_cast<size_t>(traits.generator)] = at::make_generator<at::CPUGeneratorImpl>(uint64_t{0});
  }
  return call;
}

}  // namespace openreg
