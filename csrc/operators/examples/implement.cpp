// Scenario 1: a device kernel for an operator of PyTorch.
//
// When: the chip has code for this operator. Most of a backend consists of such kernels.
//
// TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) registers a function under an operator's name. The schema, the
// autograd formula and the Python bindings exist in PyTorch. operators/required/factory_and_view_ops.cpp does
// the same for the required operators that launch nothing: factories and views. This operator computes, so it
// shows the rest: broadcasting and type promotion with a TensorIterator, all dtypes, all strides, and an
// asynchronous launch.
//
// Only the out form needs a kernel. PyTorch's composite kernels for logical_xor and logical_xor_ call the out
// form on every device; see `torch._C._dispatch_dump("aten::logical_xor")`.
#include "kernel/kernel.h"
#include "operators/examples/loop.h"

#include <ATen/Dispatch_v2.h>
#include <torch/library.h>

namespace openreg {
namespace {

at::Tensor& logical_xor_out(const at::Tensor& self, const at::Tensor& other, at::Tensor& out) {
  at::TensorIterator iter = at::TensorIterator::comparison_op(out, self, other);
  if (iter.numel() == 0) {
    return out;
  }
  // Dispatch on the dtype here and not in the kernel, so that an unsupported dtype throws at the call.
  AT_DISPATCH_V2(iter.common_dtype(), "logical_xor", AT_WRAP([&] {
                   launch_kernel("logical_xor", iter.device(0).index(), [loop = Loop(iter)] {
                     loop.map<bool, scalar_t, scalar_t>(
                         [](scalar_t a, scalar_t b) { return (a != scalar_t(0)) != (b != scalar_t(0)); });
                   });
                 }),
                 AT_EXPAND(AT_ALL_TYPES), AT_EXPAND(AT_COMPLEX_TYPES), AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES),
                 at::kBool, at::kHalf, at::kBFloat16);
  return out;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("logical_xor.out", logical_xor_out);
}

}  // namespace
}  // namespace openreg
