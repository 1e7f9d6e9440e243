// Reductions and fills; see Note [Library operators].
#include "device/on_device.h"
#include "operators/library/launch.h"
#include "operators/library/library_op.h"

#include <ATen/Dispatch.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/amax_meta.h>
#include <ATen/ops/amax_ops.h>
#include <ATen/ops/amin_meta.h>
#include <ATen/ops/amin_ops.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argmax_meta.h>
#include <ATen/ops/argmax_ops.h>
#include <ATen/ops/argmin_meta.h>
#include <ATen/ops/argmin_ops.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/fill_ops.h>
#include <ATen/ops/linalg_vector_norm_meta.h>
#include <ATen/ops/linalg_vector_norm_ops.h>
#include <ATen/ops/max_ops.h>
#include <ATen/ops/mean_meta.h>
#include <ATen/ops/mean_ops.h>
#include <ATen/ops/min_ops.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/sum_meta.h>
#include <ATen/ops/sum_ops.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zero_ops.h>

#include <cmath>
#include <limits>

namespace openreg {
namespace {

using at::Tensor;
using F = LibraryFunction;
namespace meta = at::meta;
namespace ops = at::_ops;

bool sum(const Tensor& self, at::OptionalIntArrayRef dims, bool keepdim, std::optional<at::ScalarType>,
         const Tensor& out) {
  return launch_reduction(F::sum, self, out, dims, keepdim);
}

bool mean(const Tensor& self, at::OptionalIntArrayRef dims, bool keepdim, std::optional<at::ScalarType>,
          const Tensor& out) {
  if (self.numel() == 0) {
    return offered({F::fill}, out.scalar_type(), out.device().index()) &&
           (out.fill_(std::numeric_limits<double>::quiet_NaN()), true);
  }
  const double scale = static_cast<double>(out.numel()) / static_cast<double>(self.numel());
  return at::isFloatingType(out.scalar_type()) && launch_reduction(F::sum, self, out, dims, keepdim, scale);
}

template <F Function>
constexpr auto kExtremum = [](const Tensor& self, at::IntArrayRef dims, bool keepdim, const Tensor& out) {
  return launch_reduction(Function, self, out, dims, keepdim);
};

// The extremum of all elements. That of none is an error of the CPU kernel.
template <F Function>
std::optional<Tensor> extremum_of_all(const Tensor& self) {
  const Tensor out = at::empty({}, self.options());
  return self.numel() != 0 && launch_reduction(Function, self, out, {}, false) ? std::optional(out)
                                                                               : std::nullopt;
}

// The first position of the extremum, or of a NaN: the least of the positions where the element is one.
template <F Function>
constexpr auto kPosition =
    [](const Tensor& self, std::optional<int64_t> dim, bool keepdim, const Tensor& out) {
      const c10::DeviceIndex device = self.device().index();
      if (self.numel() == 0 || !offered({Function, F::eq, F::ne}, self.scalar_type(), device) ||
          !offered({F::min, F::where, F::fill}, at::kLong, device)) {
        return false;
      }
      const bool all = !dim.has_value() || self.dim() == 0;
      const Tensor x = all ? self.reshape(-1) : self;
      const int64_t along = all ? 0 : at::maybe_wrap_dim(*dim, self.dim());
      const Tensor found = at::empty_like(x.narrow(along, 0, 1));
      if (!launch_reduction(Function, x, found, at::OptionalIntArrayRef(along), true)) {
        return false;
      }
      std::vector<int64_t> shape(static_cast<size_t>(x.dim()), 1);
      shape[static_cast<size_t>(along)] = x.size(along);
      const Tensor positions = at::arange(x.size(along), self.options().dtype(at::kLong)).view(shape);
      const Tensor end = number_on_device(x.size(along), at::kLong, self.device());
      Tensor candidates = at::where(at::eq(x, found), positions, end);
      if (at::isFloatingType(self.scalar_type())) {
        candidates = at::where(at::ne(x, x), positions, candidates);
      }
      return launch_reduction(F::min, candidates, all ? out.squeeze() : out, at::OptionalIntArrayRef(along),
                              !all && keepdim);
    };

// The norms 1, 2 and infinity.
bool vector_norm(const Tensor& self, const at::Scalar& ord, at::OptionalIntArrayRef dims, bool keepdim,
                 std::optional<at::ScalarType>, const Tensor& out) {
  const double order = ord.toDouble();
  const at::ScalarType dtype = compute_dtype(out.scalar_type());
  const bool is_max = std::isinf(order) && order > 0;
  if ((order != 1 && order != 2 && !is_max) || self.is_complex() || (is_max && self.numel() == 0) ||
      !offered({F::abs, F::mul, F::sum, F::max, F::sqrt}, dtype, out.device().index())) {
    return false;
  }
  const Tensor x = self.to(dtype);
  const Tensor terms = order == 2 ? at::mul(x, x) : at::abs(x);
  const Tensor result = out.scalar_type() == dtype ? out : at::empty_like(out, dtype);
  if (!launch_reduction(is_max ? F::max : F::sum, terms, result, dims, keepdim)) {
    return false;
  }
  if (order == 2) {
    result.sqrt_();
  }
  if (!result.is_same(out)) {
    out.copy_(result);
  }
  return true;
}

// Throws if the dtype cannot hold the number, as all devices do.
void check_overflow(const at::Scalar& value, at::ScalarType dtype) {
  AT_DISPATCH_ALL_TYPES_AND3(at::kHalf, at::kBFloat16, at::kBool, dtype, "fill_",
                             [&] { static_cast<void>(value.to<scalar_t>()); });
}

// An overlapping tensor is filled on the host.
bool fill_number(Tensor& self, const at::Scalar& value) {
  if (!offered({F::fill}, self.scalar_type(), self.device().index()) || value.isComplex() ||
      at::has_internal_overlap(self) == at::MemOverlap::Yes) {
    return false;
  }
  check_overflow(value, self.scalar_type());
  return launch_fill(self, value);
}

bool fill_tensor(Tensor& self, const Tensor& value) {
  if (value.dim() != 0) {
    return false;  // an error of the CPU kernel
  }
  if (value.is_cpu()) {
    return fill_number(self, value.item());
  }
  self.copy_(value);
  return true;
}

bool zero(Tensor& self) {
  return fill_number(self, 0);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  structured_op<meta::structured_sum_dim_IntList, &sum, ops::sum_dim_IntList, ops::sum_IntList_out>(m,
                                                                                                    {F::sum});
  structured_op<meta::structured_mean_dim, &mean, ops::mean_dim, ops::mean_out>(m, {F::sum});
  structured_op<meta::structured_amax, kExtremum<F::max>, ops::amax, ops::amax_out>(m, {F::max});
  structured_op<meta::structured_amin, kExtremum<F::min>, ops::amin, ops::amin_out>(m, {F::min});
  plain_op<ops::max, &extremum_of_all<F::max>>(m, {F::max});
  plain_op<ops::min, &extremum_of_all<F::min>>(m, {F::min});
  structured_op<meta::structured_argmax, kPosition<F::max>, ops::argmax, ops::argmax_out>(
      m, {F::max, F::eq, F::where});
  structured_op<meta::structured_argmin, kPosition<F::min>, ops::argmin, ops::argmin_out>(
      m, {F::min, F::eq, F::where});
  structured_op<meta::structured_linalg_vector_norm, &vector_norm, ops::linalg_vector_norm,
                ops::linalg_vector_norm_out>(m, {F::abs, F::mul, F::sum, F::max, F::sqrt});
  plain_op<ops::fill__Scalar, &fill_number>(m, {F::fill});
  plain_op<ops::fill__Tensor, &fill_tensor>(m, {F::fill});
  plain_op<ops::zero_, &zero>(m, {F::fill});
}

}  // namespace
}  // namespace openreg
