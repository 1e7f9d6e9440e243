/*
 * The kernel library: functions with agreed names and argument blocks, which a driver may offer as built-in
 * functions (device_code.h). The integration with PyTorch launches those that it finds, and runs every other
 * operator on the host. A driver offers any subset.
 *
 * The name of a function is "<group>.<operation>.<dtype>". The dtype is that of all inputs, and of the output
 * unless noted otherwise: float32, float64, float16, bfloat16, int64, int32, int16, int8, uint8, bool.
 *
 * - unary.<op>: abs ceil cos erf exp floor log neg reciprocal relu rsqrt sigmoid sin sqrt tanh
 * - binary.<op>: add and sub (a + scalar * b, a - scalar * b), lerp (a + scalar * (b - a)), mul div maximum
 *   minimum pow; relu_backward, sigmoid_backward, tanh_backward: a is the gradient, b the input of relu, or
 *   the output of the others
 * - ternary.<op>: addcmul (a + scalar * b * c), addcdiv (a + scalar * b / c)
 * - compare.<op>: eq ne lt le gt ge; the output is bool
 * - fill.value: no input; the output is the scalar
 * - where.select: the first input is bool
 * - reduce.<op>: sum (scaled by the scalar) max min
 * - copy.<from>.<to>: converts, as a C cast does; a number is true if it is not 0
 * - copy.bytes.<size>: copies elements of 1, 2, 4, 8 or 16 bytes
 * - matmul.gemm: c = alpha * (a @ b) + beta * c
 * - index.gather: dense = indexed[index]; index.scatter_add: indexed[index] += dense
 *
 * The grid and the block are 1: a function splits the work itself.
 */
#ifndef OPENREG_KERNEL_LIBRARY_H_
#define OPENREG_KERNEL_LIBRARY_H_

#include "openreg/device_code.h"

#define OR_KERNEL_DIMS 16
#define OR_KERNEL_OPERANDS 4

/* Of all groups except matmul and index. All operands have the same sizes; a broadcast operand has strides of
 * 0, as has the output of a reduction in reduced dimensions. Operand 0 is the output. It does not overlap
 * itself, except in a reduction. */
typedef struct orElementwiseArgs {
  uint32_t struct_size;
  uint32_t dims;                 /* 0: one element */
  int64_t sizes[OR_KERNEL_DIMS]; /* the first dimension usually has the smallest strides; no size is 0 */
  int64_t strides[OR_KERNEL_OPERANDS][OR_KERNEL_DIMS]; /* in bytes; may be negative */
  void* data[OR_KERNEL_OPERANDS];
  double scalar;      /* for floating-point dtypes */
  int64_t int_scalar; /* for integers and bool */
} orElementwiseArgs;

/* Batches of matrices: a is m x k, b is k x n, c is m x n. Strides are in elements: batch, row, column. If
 * beta is 0, c is not read. */
typedef struct orMatmulArgs {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t batch, m, n, k;
  const void* a;
  const void* b;
  void* c;
  int64_t a_strides[3];
  int64_t b_strides[3];
  int64_t c_strides[3];
  double alpha;
  double beta;
} orMatmulArgs;

/* An element of `dense` for each index: that of `indexed` at the index in the indexed dimension, and at the
 * position of the index in all others. No size is 0. Indices of scatter_add may repeat. */
typedef struct orIndexArgs {
  uint32_t struct_size;
  uint32_t dims;
  int64_t sizes[OR_KERNEL_DIMS];           /* of index and dense */
  int64_t index_strides[OR_KERNEL_DIMS];   /* in bytes, as all strides here; the index is int64 */
  int64_t dense_strides[OR_KERNEL_DIMS];   /* of the operand with one element for each index */
  int64_t indexed_strides[OR_KERNEL_DIMS]; /* of the operand that the index addresses; 0 in the indexed
                                              dimension */
  const int64_t* index;
  void* dense;
  void* indexed;
  int64_t indexed_size;   /* an index that is negative or not smaller fails the function */
  int64_t indexed_stride; /* of the indexed dimension */
} orIndexArgs;

#endif /* OPENREG_KERNEL_LIBRARY_H_ */
