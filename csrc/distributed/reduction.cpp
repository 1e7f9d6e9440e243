#include "distributed/reduction.h"

#include <ATen/ops/add.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <c10/util/Exception.h>

namespace openreg::distributed {
namespace {

using c10d::ReduceOp;

bool is_bitwise(ReduceOp::RedOpType op) {
  return op == ReduceOp::BAND || op == ReduceOp::BOR || op == ReduceOp::BXOR;
}

bool is_min_or_max(ReduceOp::RedOpType op) {
  return op == ReduceOp::MIN || op == ReduceOp::MAX;
}

// CPU kernels lack arithmetic of these dtypes. The dtype to compute with.
c10::ScalarType arithmetic_dtype(c10::ScalarType dtype, ReduceOp::RedOpType op) {
  if (c10::isFloat8Type(dtype)) return c10::kFloat;
  const bool widens = is_min_or_max(op);
  if (dtype == c10::kUInt16) return widens ? c10::kInt : c10::kShort;
  if (dtype == c10::kUInt32) return widens ? c10::kLong : c10::kInt;
  if (dtype == c10::kUInt64) return c10::kLong;  // without MIN and MAX
  return dtype;
}

void reduce_bool(const at::Tensor& into, const at::Tensor& values, ReduceOp::RedOpType op) {
  switch (op) {
    case ReduceOp::PRODUCT:
    case ReduceOp::MIN:
    case ReduceOp::BAND:
      into.logical_and_(values);
      return;
    case ReduceOp::BXOR:
      into.logical_xor_(values);
      return;
    default:
      into.logical_or_(values);
  }
}

}  // namespace

ReduceOp::RedOpType Reduction::combine_op() const {
  return op == ReduceOp::PREMUL_SUM || op == ReduceOp::AVG ? ReduceOp::SUM : op;
}

void check_reduction(const char* name, ReduceOp::RedOpType op, c10::ScalarType dtype) {
  const bool floating = c10::isFloatingType(dtype) || c10::isComplexType(dtype);
  const bool defined =
      !c10::isQIntType(dtype) && !c10::isBitsType(dtype) && !(is_bitwise(op) && floating) &&
      !(is_min_or_max(op) && (c10::isComplexType(dtype) || dtype == c10::kUInt64)) &&
      !(op == ReduceOp::AVG && (dtype == c10::kBool || c10::isBarebonesUnsignedType(dtype))) &&
      !(op == ReduceOp::PREMUL_SUM && !floating) && op != ReduceOp::UNUSED;
  TORCH_CHECK_TYPE(defined, name, ": the reduction ", static_cast<int>(op),
                   " (c10d::ReduceOp) is not defined for ", dtype);
}

void scale(const Reduction& reduction, const at::Tensor& values) {
  if (!reduction.scales()) return;
  if (reduction.tensor_factor.defined()) {
    values.mul_(reduction.tensor_factor);
  } else {
    values.mul_(reduction.factor);
  }
}

void reduce_into(const at::Tensor& into, const at::Tensor& values, ReduceOp::RedOpType op) {
  const c10::ScalarType dtype = into.scalar_type();
  if (dtype == c10::kBool) return reduce_bool(into, values, op);
  if (const auto wide = arithmetic_dtype(dtype, op); wide != dtype) {
    at::Tensor result = into.to(wide);
    reduce_into(result, values.to(wide), op);
    into.copy_(result);
    return;
  }
  switch (op) {
    case ReduceOp::SUM:
      into.add_(values);
      return;
    case ReduceOp::PRODUCT:
      into.mul_(values);
      return;
    case ReduceOp::MIN:
      at::minimum_out(const_cast<at::Tensor&>(into), into, values);
      return;
    case ReduceOp::MAX:
      at::maximum_out(const_cast<at::Tensor&>(into), into, values);
      return;
    case ReduceOp::BAND:
      into.bitwise_and_(values);
      return;
    case ReduceOp::BOR:
      into.bitwise_or_(values);
      return;
    case ReduceOp::BXOR:
      into.bitwise_xor_(values);
      return;
    default:
      TORCH_INTERNAL_ASSERT(false, "Reduction::combine_op returns no other operation");
  }
}

void combine(const at::Tensor& result, const at::Tensor& a, const at::Tensor& b, ReduceOp::RedOpType op) {
  if (b.defined() && op == ReduceOp::SUM && arithmetic_dtype(a.scalar_type(), op) == a.scalar_type() &&
      a.scalar_type() != c10::kBool) {
    at::add_out(const_cast<at::Tensor&>(result), a, b);  // one pass over the memory
    return;
  }
  result.copy_(a);
  if (b.defined()) reduce_into(result, b, op);
}

void finish_reduction(const Reduction& reduction, const at::Tensor& values, int count) {
  if (reduction.op != ReduceOp::AVG) return;
  const c10::ScalarType dtype = values.scalar_type();
  if (c10::isFloat8Type(dtype)) {
    values.copy_(values.to(c10::kFloat).div_(count));
  } else if (c10::isIntegralType(dtype, /*includeBool=*/false)) {
    values.div_(count, "trunc");
  } else {
    values.div_(count);
  }
}

}  // namespace openreg::distributed
