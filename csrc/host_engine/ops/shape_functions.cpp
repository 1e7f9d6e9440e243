#include "host_engine/ops/shape_functions.h"

#include "host_engine/ops/output_plan.h"

#include <ATen/ExpandUtils.h>
#include <ATen/OpMathType.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/ConvUtils.h>
#include <ATen/native/cpu/mixed_data_type.h>
#include <ATen/native/layer_norm.h>
#include <c10/util/strides.h>

#include <vector>

namespace openreg {
namespace {

using c10::IValue;

at::Tensor optional_tensor(const IValue& value) {
  return value.isTensor() ? value.toTensor() : at::Tensor();
}

void add_undefined(OutputPlan& plan) {
  plan.results.emplace_back().tensors.emplace_back();
}

void add_strided(OutputPlan& plan, at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype) {
  TensorSpec& spec = plan.results.emplace_back().tensors.emplace_back();
  spec.defined = true;
  spec.dtype = c10::scalarTypeToTypeMeta(dtype);
  spec.sizes.assign(sizes.begin(), sizes.end());
  spec.strides.assign(strides.begin(), strides.end());
  spec.bytes = at::detail::computeStorageNbytes(sizes, strides, spec.dtype.itemsize());
}

void add_contiguous(OutputPlan& plan, at::IntArrayRef sizes, at::ScalarType dtype) {
  add_strided(plan, sizes, c10::contiguous_strides(sizes), dtype);
}

// As at::empty_like with MemoryFormat::Preserve.
void add_like(OutputPlan& plan, const at::Tensor& like) {
  if (like.is_non_overlapping_and_dense()) {
    add_strided(plan, like.sizes(), like.strides(), like.scalar_type());
  } else {
    add_strided(plan, like.sizes(), at::infer_dense_strides(like.sizes(), like.strides()),
                like.scalar_type());
  }
}

// Contiguous, but with dimensions 1 and 2 swapped in memory.
void add_transposed(OutputPlan& plan, at::IntArrayRef sizes, at::ScalarType dtype) {
  std::vector<int64_t> swapped = sizes.vec();
  std::swap(swapped[1], swapped[2]);
  const c10::DimVector contiguous = c10::contiguous_strides(swapped);
  std::vector<int64_t> strides(contiguous.begin(), contiguous.end());
  std::swap(strides[1], strides[2]);
  add_strided(plan, sizes, strides, dtype);
}

// A list of one number applies to all dimensions.
c10::DimVector for_each_dim(const IValue& value, int64_t dims) {
  auto numbers = value.toDimVector();
  if (numbers.size() == 1) {
    numbers.resize(static_cast<size_t>(dims), numbers[0]);
  }
  return numbers;
}

}  // namespace

bool shapes::like_first(const IValue* arguments, OutputPlan& plan) {
  add_like(plan, arguments[0].toTensor());
  return true;
}

bool shapes::layer_norm(const IValue* arguments, OutputPlan& plan) {
  const at::Tensor& input = arguments[0].toTensor();
  const auto normalized = arguments[1].toDimVector();
  const at::Tensor weight = optional_tensor(arguments[2]);
  const at::Tensor bias = optional_tensor(arguments[3]);
  const bool mixed = at::native::is_mixed_type(input, weight, bias);
  if (mixed) {
    at::native::check_mixed_data_type(input, weight, bias);
  } else if (weight.defined() && bias.defined() && weight.scalar_type() != bias.scalar_type()) {
    return false;
  }
  at::native::_check_layer_norm_inputs(input, normalized, weight, bias);
  const at::ScalarType statistics = at::native::param_scalar_type(input, mixed);
  c10::DimVector sizes(input.sizes());
  std::fill(sizes.end() - static_cast<ptrdiff_t>(normalized.size()), sizes.end(), 1);
  add_contiguous(plan, input.sizes(), input.scalar_type());
  add_contiguous(plan, sizes, statistics);
  add_contiguous(plan, sizes, statistics);
  return true;
}

bool shapes::layer_norm_backward(const IValue* arguments, OutputPlan& plan) {
  const at::Tensor& input = arguments[1].toTensor();
  const at::Tensor weight = optional_tensor(arguments[5]);
  const at::Tensor bias = optional_tensor(arguments[6]);
  const auto mask = arguments[7].toBoolList();
  at::native::_check_layer_norm_inputs(input, arguments[2].toDimVector(), weight, bias);
  const at::Tensor* like[] = {&input, &weight, &bias};
  for (size_t i = 0; i < 3; ++i) {
    if (!mask.get(i)) {
      add_undefined(plan);
    } else if (like[i]->defined()) {
      add_contiguous(plan, like[i]->sizes(), like[i]->scalar_type());
    } else {
      return false;
    }
  }
  return true;
}

bool shapes::flash_attention(const IValue* arguments, OutputPlan& plan) {
  const at::Tensor& query = arguments[0].toTensor();
  const at::Tensor& key = arguments[1].toTensor();
  const at::Tensor& value = arguments[2].toTensor();
  if (!at::isFloatingType(query.scalar_type()) || query.dim() != 4 || key.dim() != 4 || value.dim() != 4 ||
      arguments[3].toDouble() != 0 || query.size(3) != value.size(3) || key.size(3) != value.size(3)) {
    return false;
  }
  add_like(plan, query);
  add_transposed(plan, query.sizes().slice(0, 3), at::toOpMathType(query.scalar_type()));
  return true;
}

bool shapes::flash_attention_backward(const IValue* arguments, OutputPlan& plan) {
  for (size_t i = 1; i <= 3; ++i) {
    const at::Tensor& tensor = arguments[i].toTensor();
    if (tensor.dim() != 4) {
      return false;
    }
    add_transposed(plan, tensor.sizes(), tensor.scalar_type());
  }
  return true;
}

bool shapes::index_select(const IValue* arguments, OutputPlan& plan) {
  const at::Tensor& self = arguments[0].toTensor();
  const at::Tensor& index = arguments[2].toTensor();
  if (index.scalar_type() != at::kLong && index.scalar_type() != at::kInt) {
    return false;
  }
  c10::DimVector sizes(self.sizes());
  const int64_t dim = at::maybe_wrap_dim(arguments[1].toInt(), self.dim());
  if (!sizes.empty()) {
    sizes[static_cast<size_t>(dim)] = index.numel();
  }
  add_contiguous(plan, sizes, self.scalar_type());
  return true;
}

bool shapes::embedding_dense_backward(const IValue* arguments, OutputPlan& plan) {
  const at::Tensor& grad = arguments[0].toTensor();
  if (grad.dim() == 0) {
    return false;
  }
  add_contiguous(plan, {arguments[2].toInt(), grad.size(-1)}, grad.scalar_type());
  return true;
}

bool shapes::convolution(const IValue* arguments, OutputPlan& plan) {
  const at::Tensor& input = arguments[0].toTensor();
  const at::Tensor& weight = arguments[1].toTensor();
  const int64_t dims = input.dim() - 2;
  const auto stride = for_each_dim(arguments[3], dims);
  const auto padding = for_each_dim(arguments[4], dims);
  const auto dilation = for_each_dim(arguments[5], dims);
  const auto output_padding = for_each_dim(arguments[7], dims);
  const bool transposed = arguments[6].toBool();
  const auto fits = [dims](const c10::DimVector& numbers) {
    return numbers.size() == static_cast<size_t>(dims);
  };
  if (dims < 1 || !fits(stride) || !fits(padding) || !fits(dilation) ||
      (transposed && !fits(output_padding))) {
    return false;
  }
  const std::vector<int64_t> sizes =
      transposed ? at::native::conv_input_size(input.sizes(), weight.sizes(), padding, output_padding, stride,
                                               dilation, arguments[8].toInt())
                 : at::native::conv_output_size(input.sizes(), weight.sizes(), padding, stride, dilation);
  for (int64_t i = 0; i < dims; ++i) {
    const auto k = static_cast<size_t>(i);
    const bool kernel_fits =
        transposed || input.size(i + 2) + 2 * padding[k] > dilation[k] * (weight.size(i + 2) - 1);
    if (!kernel_fits || sizes[k + 2] <= 0) {
      return false;
    }
  }
  add_contiguous(plan, sizes, input.scalar_type());
  return true;
}

bool shapes::convolution_backward(const IValue* arguments, OutputPlan& plan) {
  const at::Tensor& grad = arguments[0].toTensor();
  const auto mask = arguments[10].toBoolList();
  for (size_t i = 0; i < 3; ++i) {
    if (!mask.get(i)) {
      add_undefined(plan);
    } else if (i < 2) {
      add_contiguous(plan, arguments[1 + i].toTensor().sizes(), grad.scalar_type());
    } else if (arguments[3].isIntList()) {
      add_contiguous(plan, arguments[3].toDimVector(), grad.scalar_type());
    } else {
      return false;
    }
  }
  return true;
}

// The Meta kernel returns a loss in the layout of the target; kernels return a contiguous one.
bool shapes::nll_loss2d(const IValue* arguments, OutputPlan& plan) {
  const at::Tensor& self = arguments[0].toTensor();
  const bool reduced = arguments[3].toInt() != at::Reduction::None;
  add_contiguous(plan, reduced ? at::IntArrayRef() : arguments[1].toTensor().sizes(), self.scalar_type());
  add_contiguous(plan, {}, self.scalar_type());
  return true;
}

// The layout of CUDA, which the Meta kernel gives to all devices but the CPU. torch.compile relies on it.
bool shapes::nonzero_static(const IValue* arguments, OutputPlan& plan) {
  const int64_t size = arguments[1].toInt();
  if (size < 0) {
    return false;
  }
  add_strided(plan, {size, arguments[0].toTensor().dim()}, {1, size}, at::kLong);
  return true;
}

// The kernel writes argument 0 and returns it. argument_checks.h checks the arguments.
bool shapes::in_place(const IValue*, OutputPlan& plan) {
  plan.results.emplace_back().argument = 0;
  return true;
}

}  // namespace openreg
