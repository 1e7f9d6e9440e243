// Scenario 4: an operator with its derivative in one class, torch::autograd::Function.
//
// When: the backward can be written with existing operators. The class is registered for AutogradPrivateUse1.
// forward() runs below autograd, backward() above it, so double backward works. The class creates the node,
// the edges and the saved variables.
//
// Three cases: the result is the input, the result is a view of the input, and the result has its own memory
// and the backward uses the input.
#include "kernel/kernel.h"
#include "operators/examples/loop.h"

#include <ATen/Dispatch.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

namespace openreg {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The backward halves the gradient, so that a test can tell that it ran.
constexpr double kFactor = 0.5;

struct ReturnsSelf : torch::autograd::Function<ReturnsSelf> {
  static at::Tensor forward(AutogradContext*, const at::Tensor& self) { return self; }
  static variable_list backward(AutogradContext*, const variable_list& grads) { return {grads[0] * kFactor}; }
};

struct Aliasing : torch::autograd::Function<Aliasing> {
  static at::Tensor forward(AutogradContext*, const at::Tensor& self) { return self.view_as(self); }
  static variable_list backward(AutogradContext*, const variable_list& grads) { return {grads[0] * kFactor}; }
};

// ---- New result, saved input

at::Tensor cube(const at::Tensor& self) {
  at::Tensor out = at::empty_like(self);
  const at::TensorIterator iter = at::TensorIterator::unary_op(out, self);
  AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND2(
      at::kHalf, at::kBFloat16, self.scalar_type(), "custom_autograd_fn_cube", [&] {
        if (iter.numel() > 0) {
          launch_kernel("custom_autograd_fn_cube", self.device().index(), [loop = Loop(iter)] {
            loop.map<scalar_t, scalar_t>(
                [](scalar_t value) { return static_cast<scalar_t>(value * value * value); });
          });
        }
      });
  return out;
}

at::Tensor cube_meta(const at::Tensor& self) {
  return at::empty_like(self);
}

at::Tensor call_cube(const at::Tensor& self) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("openreg::custom_autograd_fn_cube", "")
                             .typed<at::Tensor(const at::Tensor&)>();
  return op.call(self);
}

struct Cube : torch::autograd::Function<Cube> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& self) {
    context->save_for_backward({self});
    const at::AutoDispatchBelowAutograd guard;
    return call_cube(self);
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const at::Tensor self = context->get_saved_variables()[0];
    return {grads[0] * (self * self * 3).conj()};
  }
};

// ---- Registration

// Function::apply is a template; a registered kernel needs the signature of the schema.
at::Tensor returns_self(const at::Tensor& input) {
  return ReturnsSelf::apply(input);
}
at::Tensor aliasing(const at::Tensor& input) {
  return Aliasing::apply(input);
}
at::Tensor cube_autograd(const at::Tensor& input) {
  return Cube::apply(input);
}

TORCH_LIBRARY_FRAGMENT(openreg, m) {
  m.def("custom_autograd_fn_returns_self(Tensor input) -> Tensor");
  m.def("custom_autograd_fn_aliasing(Tensor(a) input) -> Tensor(a)");
  m.def("custom_autograd_fn_cube(Tensor input) -> Tensor");
}

TORCH_LIBRARY_IMPL(openreg, AutogradPrivateUse1, m) {
  m.impl("custom_autograd_fn_returns_self", returns_self);
  m.impl("custom_autograd_fn_aliasing", aliasing);
  m.impl("custom_autograd_fn_cube", cube_autograd);
}

TORCH_LIBRARY_IMPL(openreg, PrivateUse1, m) {
  m.impl("custom_autograd_fn_cube", cube);
}

TORCH_LIBRARY_IMPL(openreg, Meta, m) {
  m.impl("custom_autograd_fn_cube", cube_meta);
}

}  // namespace
}  // namespace openreg
