// Reductions of CPU tensors for all dtypes.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

namespace openreg::distributed {

/// A c10d::ReduceOp whose factor, if any, can be read by a kernel.
struct Reduction {
  c10d::ReduceOp::RedOpType op = c10d::ReduceOp::SUM;
  double factor = 1;         // of PREMUL_SUM
  at::Tensor tensor_factor;  // of PREMUL_SUM; defined instead of `factor`

  bool scales() const { return op == c10d::ReduceOp::PREMUL_SUM; }
  /// The operation on the scaled values.
  c10d::ReduceOp::RedOpType combine_op() const;
};

/// Throws if the operation is not defined for the dtype.
void check_reduction(const char* name, c10d::ReduceOp::RedOpType op, c10::ScalarType dtype);

/// values *= factor.
void scale(const Reduction& reduction, const at::Tensor& values);

/// result = a op b, or a if b is not defined. `result` is neither.
void combine(const at::Tensor& result, const at::Tensor& a, const at::Tensor& b,
             c10d::ReduceOp::RedOpType op);

/// into = into op values. `op`: from Reduction::combine_op.
void reduce_into(const at::Tensor& into, const at::Tensor& values, c10d::ReduceOp::RedOpType op);

/// For AVG: values /= count.
void finish_reduction(const Reduction& reduction, const at::Tensor& values, int count);

}  // namespace openreg::distributed
