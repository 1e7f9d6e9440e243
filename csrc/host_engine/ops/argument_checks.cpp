#include "host_engine/ops/argument_checks.h"

#include <ATen/ExpandUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_meta_dispatch.h>

#include <algorithm>

namespace openreg {
namespace {

using c10::IValue;

bool is_defined(const IValue& value) {
  return value.isTensor() && value.toTensor().defined();
}

bool is_mask(const std::optional<at::Tensor>& index) {
  return index.has_value() && index->defined() &&
         (index->scalar_type() == at::kBool || index->scalar_type() == at::kByte);
}

// Whether each mask has the shape of the dimensions that it indexes.
bool masks_fit(const at::Tensor& self, const std::vector<std::optional<at::Tensor>>& indices) {
  int64_t dim = 0;
  for (const auto& index : indices) {
    if (!is_mask(index)) {
      ++dim;
      continue;
    }
    for (const int64_t size : index->sizes()) {
      if (dim >= self.dim() || self.size(dim++) != size) {
        return false;
      }
    }
  }
  return dim <= self.dim();
}

at::Tensor without_data(const at::Tensor& tensor) {
  return at::empty(tensor.sizes(), tensor.options().device(c10::kMeta));
}

// The output padding must be smaller than the stride or the dilation. A list of one number applies to all
// dimensions.
bool output_padding_too_large(const IValue* arguments) {
  const auto strides = arguments[3].toDimVector();
  const auto dilations = arguments[5].toDimVector();
  const auto padding = arguments[7].toDimVector();
  const auto number = [](const c10::DimVector& list, size_t i) {
    return list.size() == 1 ? list[0] : list.at(i);
  };
  for (size_t i = 0; i < padding.size(); ++i) {
    if (padding[i] >= number(strides, i) && padding[i] >= number(dilations, i)) {
      return true;
    }
  }
  return false;
}

}  // namespace

// Checks the indices with the Meta kernel of index, and the shape of the values. The number of elements that
// a mask selects depends on data, so only the shapes of masks are checked.
bool checks::index_put(const IValue* arguments) {
  const at::Tensor& self = arguments[0].toTensor();
  const at::Tensor& values = arguments[2].toTensor();
  const auto indices = arguments[1].toOptionalTensorVector();
  if (self.scalar_type() != values.scalar_type()) {
    return true;
  }
  if (std::ranges::any_of(indices, is_mask)) {
    return !masks_fit(self, indices);
  }
  c10::List<std::optional<at::Tensor>> places;
  for (const auto& index : indices) {
    places.push_back(index.has_value() && index->defined() ? std::optional(without_data(*index))
                                                           : std::nullopt);
  }
  const at::Tensor read = at::meta::index(without_data(self), places);
  return !at::is_expandable_to(values.sizes(), read.sizes());
}

bool checks::put(const IValue* arguments) {
  const at::Tensor& self = arguments[0].toTensor();
  const at::Tensor& index = arguments[1].toTensor();
  const at::Tensor& source = arguments[2].toTensor();
  return index.numel() != source.numel() || index.scalar_type() != at::kLong ||
         source.scalar_type() != self.scalar_type() || (self.numel() == 0 && index.numel() != 0);
}

bool checks::dimension_is_empty(const IValue* arguments) {
  const at::Tensor& self = arguments[0].toTensor();
  return self.dim() > 0 && self.size(arguments[1].toInt()) == 0;
}

bool checks::index_select(const IValue* arguments) {
  const at::Tensor& self = arguments[0].toTensor();
  const at::Tensor& index = arguments[2].toTensor();
  return index.dim() > 1 || (self.dim() == 0 && index.numel() != 1) ||
         (dimension_is_empty(arguments) && index.numel() != 0);
}

bool checks::multinomial(const IValue* arguments) {
  constexpr int64_t kMaxCategories = 1 << 24;
  const at::Tensor& self = arguments[0].toTensor();
  const int64_t samples = arguments[1].toInt();
  const bool replacement = arguments[2].toBool();
  return !at::isFloatingType(self.scalar_type()) || self.dim() < 1 || self.dim() > 2 || samples <= 0 ||
         (!replacement && samples > self.size(-1)) || self.size(-1) == 0 || self.size(-1) > kMaxCategories;
}

bool checks::multinomial_out(const IValue* arguments) {
  return multinomial(arguments) || arguments[4].toTensor().scalar_type() != at::kLong;
}

bool checks::bucketize(const IValue* arguments) {
  return arguments[1].toTensor().dim() != 1;
}

bool checks::nll_loss(const IValue* arguments) {
  const IValue& weight = arguments[2];
  const at::ScalarType target = arguments[1].toTensor().scalar_type();
  return (target != at::kLong && target != at::kByte) ||
         (is_defined(weight) && weight.toTensor().scalar_type() != arguments[0].toTensor().scalar_type());
}

// The arguments after the gradient begin as those of the loss. For both numbers of dimensions.
bool checks::nll_loss_backward(const IValue* arguments) {
  const at::ScalarType self = arguments[1].toTensor().scalar_type();
  return nll_loss(arguments + 1) || arguments[0].toTensor().scalar_type() != self ||
         arguments[6].toTensor().scalar_type() != self;
}

// The target has one class for each position, the weights one element for each class.
bool checks::nll_loss2d(const IValue* arguments) {
  const at::Tensor& self = arguments[0].toTensor();
  const at::Tensor& target = arguments[1].toTensor();
  if (self.dim() != 4 || target.dim() != 3 || target.scalar_type() != at::kLong ||
      target.size(0) != self.size(0) || target.sizes().slice(1) != self.sizes().slice(2)) {
    return true;
  }
  const IValue& weight = arguments[2];
  return is_defined(weight) &&
         (weight.toTensor().numel() != self.size(1) || weight.toTensor().scalar_type() != self.scalar_type());
}

bool checks::grid_sampler(const IValue* arguments) {
  return arguments[0].toTensor().scalar_type() != arguments[1].toTensor().scalar_type();
}

bool checks::masked_scatter(const IValue* arguments) {
  const at::Tensor& self = arguments[0].toTensor();
  const at::Tensor& mask = arguments[1].toTensor();
  return mask.scalar_type() != at::kBool || arguments[2].toTensor().scalar_type() != self.scalar_type() ||
         !at::is_expandable_to(mask.sizes(), self.sizes());
}

bool checks::masked_fill(const IValue* arguments) {
  const at::Tensor& self = arguments[0].toTensor();
  const at::Tensor& mask = arguments[1].toTensor();
  const IValue& value = arguments[2];
  const bool on_host = value.isScalar() || (value.toTensor().is_cpu() && value.toTensor().dim() == 0);
  if (on_host) {  // throws on overflow
    at::empty({1}, self.options().device(c10::kCPU))
        .fill_(value.isScalar() ? value.toScalar() : value.toTensor().item());
  }
  return mask.scalar_type() != at::kBool || !at::is_expandable_to(mask.sizes(), self.sizes()) ||
         (value.isTensor() &&
          (value.toTensor().dim() != 0 || !at::canCast(value.toTensor().scalar_type(), self.scalar_type())));
}

bool checks::embedding_renorm(const IValue* arguments) {
  const at::ScalarType indices = arguments[1].toTensor().scalar_type();
  return arguments[0].toTensor().dim() != 2 || (indices != at::kLong && indices != at::kInt);
}

// Its kernel then returns the first argument in its own shape.
bool checks::addmv(const IValue* arguments) {
  return arguments[1].toTensor().numel() == 0;
}

bool checks::matrix_product(const IValue* arguments) {
  return arguments[0].toTensor().scalar_type() != arguments[1].toTensor().scalar_type();
}

bool checks::convolution(const IValue* arguments) {
  const at::Tensor& input = arguments[0].toTensor();
  const at::Tensor& weight = arguments[1].toTensor();
  const bool transposed = arguments[6].toBool();
  const int64_t groups = arguments[8].toInt();
  if (input.dim() != weight.dim() || weight.dim() < 2 || groups <= 0 || weight.size(0) < groups ||
      weight.size(0) % groups != 0) {
    return true;
  }
  const auto any_below = [](const IValue& numbers, int64_t least) {
    return std::ranges::any_of(numbers.toDimVector(), [&](int64_t number) { return number < least; });
  };
  if (any_below(arguments[3], 1) || any_below(arguments[4], 0) || any_below(arguments[5], 1) ||
      any_below(arguments[7], 0)) {  // stride, padding, dilation, output padding
    return true;
  }
  if (transposed && output_padding_too_large(arguments)) {
    return true;
  }
  const int64_t from = transposed ? weight.size(0) : weight.size(1) * groups;
  const int64_t to = transposed ? weight.size(1) * groups : weight.size(0);
  const bool bias_fits =
      !is_defined(arguments[2]) || (arguments[2].toTensor().sizes() == at::IntArrayRef(to) &&
                                    arguments[2].toTensor().scalar_type() == input.scalar_type());
  return input.size(1) != from || input.scalar_type() != weight.scalar_type() || !bias_fits;
}

bool checks::addmm(const IValue* arguments) {
  const at::Tensor& rows = arguments[1].toTensor();
  const at::Tensor& columns = arguments[2].toTensor();
  return rows.dim() != 2 || columns.dim() != 2 ||
         !at::is_expandable_to(arguments[0].toTensor().sizes(), {rows.size(0), columns.size(1)});
}

bool checks::assert_async(const IValue* arguments) {
  return arguments[0].toTensor().numel() != 1;
}

// Without bounds the kernel reads the range from the data, and rejects one that is not finite.
bool checks::histc(const IValue* arguments) {
  return arguments[2].toScalar().toDouble() == arguments[3].toScalar().toDouble();
}

// The CPU has no LU without pivoting.
bool checks::lu_factor(const IValue* arguments) {
  return !arguments[1].toBool();
}

// total_L=None: the kernel reads the length of the result from the offsets.
bool checks::padded_dense_to_jagged(const IValue* arguments) {
  return arguments[2].isNone();
}

// Throws if the dtype cannot represent all numbers below n.
bool checks::randperm_out(const IValue* arguments) {
  at::native::check_supported_max_int_with_precision(arguments[0].toInt(), arguments[2].toTensor());
  return false;
}

// unsafe=False: the kernel checks the lengths.
bool checks::segment_reduce(const IValue* arguments) {
  return !arguments[6].toBool();
}

bool checks::is_empty(const IValue* arguments) {
  return arguments[0].toTensor().numel() == 0;
}

}  // namespace openreg
