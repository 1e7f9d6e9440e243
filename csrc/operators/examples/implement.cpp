// Scenario 1: a kernel of our own for an operator that PyTorch defines.
//
// When: the chip has code for this operator. This is what most of a backend consists of.
//
// TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) ties a function to an operator's name; the schema, the autograd
// formula, the forms in Python are PyTorch's. operators/required/factory_and_view_ops.cpp does the same for
// the operators that every device has to have and that launch nothing: they make tensors or look at memory in
// another way. This one computes, so it shows the rest: broadcasting and promotion from a TensorIterator,
// every dtype, every stride, a launch that does not wait.
//
// Only the out form has a kernel here. logical_xor and logical_xor_ have a composite one in PyTorch that
// calls the out form, on every device; `torch._C._dispatch_dump("aten::logical_xor")` shows it.
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
  // The dtype is looked at here and not in the kernel: what is not supported raises at the call.
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
