// Scenario 3: custom operators, with forward and backward registered as separate operators.
//
// When: the backward has its own kernel and should appear by name in profiles and graphs. Such an operator
// needs three registrations: the schema, a kernel for the device, and a kernel for AutogradPrivateUse1 that
// adds a node to the autograd graph and calls the device kernel. A fourth, for Meta, returns the shape and
// dtype of the result without computing it; FakeTensor and torch.compile need it. Without a separate backward
// operator, scenario 4 needs less code.
//
// The operator can be in a namespace of the library or in an existing one. Both are shown. The code is the
// same: TORCH_LIBRARY_FRAGMENT extends a namespace that any library may have defined. In a namespace of
// another project, choose a name that the project will not use. The operator namespace `openreg` does not
// change with the device name, because programs call torch.ops.openreg.
#include "autograd/node.h"
#include "kernel/kernel.h"
#include "operators/examples/loop.h"

#include <ATen/Dispatch.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/library.h>

#include <cmath>
#include <string>

namespace openreg {
namespace {

using torch::autograd::variable_list;

struct InOpenreg {
  static constexpr const char* forward = "openreg::custom_abs";
  static constexpr const char* backward = "openreg::custom_abs_backward";
};

struct InAten {
  static constexpr const char* forward = "aten::_openreg_custom_abs";
  static constexpr const char* backward = "aten::_openreg_custom_abs_backward";
};

// ---- Kernels

at::Tensor custom_abs(const at::Tensor& self) {
  at::Tensor out = at::empty_like(self);
  const at::TensorIterator iter = at::TensorIterator::unary_op(out, self);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, self.scalar_type(), "custom_abs", [&] {
    if (iter.numel() > 0) {
      launch_kernel("custom_abs", self.device().index(), [loop = Loop(iter)] {
        loop.map<scalar_t, scalar_t>([](scalar_t value) { return static_cast<scalar_t>(std::abs(value)); });
      });
    }
  });
  return out;
}

at::Tensor custom_abs_backward(const at::Tensor& grad, const at::Tensor& self) {
  at::Tensor out = at::empty_like(self);
  const at::TensorIterator iter = at::TensorIterator::binary_op(out, grad, self);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, self.scalar_type(), "custom_abs_backward", [&] {
    if (iter.numel() > 0) {
      launch_kernel("custom_abs_backward", self.device().index(), [loop = Loop(iter)] {
        loop.map<scalar_t, scalar_t, scalar_t>([](scalar_t gradient, scalar_t value) {
          const scalar_t zero(0);
          return static_cast<scalar_t>(value > zero ? gradient : value < zero ? -gradient : zero);
        });
      });
    }
  });
  return out;
}

at::Tensor custom_abs_meta(const at::Tensor& self) {
  return at::empty_like(self);
}

at::Tensor custom_abs_backward_meta(const at::Tensor&, const at::Tensor& self) {
  return at::empty_like(self);
}

// ---- Autograd

template <typename Names>
at::Tensor call_forward(const at::Tensor& self) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow(Names::forward, "")
                             .template typed<at::Tensor(const at::Tensor&)>();
  return op.call(self);
}

template <typename Names>
at::Tensor call_backward(const at::Tensor& grad, const at::Tensor& self) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow(Names::backward, "")
                             .template typed<at::Tensor(const at::Tensor&, const at::Tensor&)>();
  return op.call(grad, self);
}

// The derivative of abs with respect to `self`, and of abs_backward with respect to `grad`, is the sign of
// `self`. So one node serves both, and since it calls the backward operator, derivatives of any order work.
// The derivative of the sign is zero, so `self` of abs_backward gets no gradient.
template <typename Names>
struct TimesSign : torch::autograd::TraceableFunction {
  variable_list apply(variable_list&& grads) override {
    variable_list result(num_outputs());
    if (grads[0].defined() && task_should_compute_output(0)) {
      result[0] = call_backward<Names>(grads[0], self.unpack());
    }
    return result;
  }
  void release_variables() override { self.reset_data(); }
  std::string name() const override { return "CustomAbsBackward"; }

  torch::autograd::SavedVariable self;
};

// Calls `below` below autograd. If `from` requires grad, adds a node that propagates the gradient to `from`.
template <typename Names, typename Below>
at::Tensor with_node(const at::Tensor& from, const at::Tensor& self, Below below) {
  decltype(make_node<TimesSign<Names>>()) node;
  if (torch::autograd::compute_requires_grad(from)) {
    node = make_node<TimesSign<Names>>();
    node->set_next_edges(torch::autograd::collect_next_edges(from));
    node->self = torch::autograd::SavedVariable(self, /*is_output=*/false);
  }
  at::Tensor result = [&] {
    const at::AutoDispatchBelowAutograd guard;
    return below();
  }();
  if (node) {
    torch::autograd::set_history(result, node);
  }
  return result;
}

template <typename Names>
at::Tensor custom_abs_autograd(const at::Tensor& self) {
  return with_node<Names>(self, self, [&] { return call_forward<Names>(self); });
}

template <typename Names>
at::Tensor custom_abs_backward_autograd(const at::Tensor& grad, const at::Tensor& self) {
  return with_node<Names>(grad, self, [&] { return call_backward<Names>(grad, self); });
}

// ---- Registration in a new namespace

TORCH_LIBRARY_FRAGMENT(openreg, m) {
  m.def("custom_abs(Tensor self) -> Tensor");
  m.def("custom_abs_backward(Tensor grad, Tensor self) -> Tensor");
}

TORCH_LIBRARY_IMPL(openreg, PrivateUse1, m) {
  m.impl("custom_abs", custom_abs);
  m.impl("custom_abs_backward", custom_abs_backward);
}

TORCH_LIBRARY_IMPL(openreg, AutogradPrivateUse1, m) {
  m.impl("custom_abs", custom_abs_autograd<InOpenreg>);
  m.impl("custom_abs_backward", custom_abs_backward_autograd<InOpenreg>);
}

TORCH_LIBRARY_IMPL(openreg, Meta, m) {
  m.impl("custom_abs", custom_abs_meta);
  m.impl("custom_abs_backward", custom_abs_backward_meta);
}

// ---- Registration in an existing namespace

TORCH_LIBRARY_FRAGMENT(aten, m) {
  m.def("_openreg_custom_abs(Tensor self) -> Tensor");
  m.def("_openreg_custom_abs_backward(Tensor grad, Tensor self) -> Tensor");
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_openreg_custom_abs", custom_abs);
  m.impl("_openreg_custom_abs_backward", custom_abs_backward);
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("_openreg_custom_abs", custom_abs_autograd<InAten>);
  m.impl("_openreg_custom_abs_backward", custom_abs_backward_autograd<InAten>);
}

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("_openreg_custom_abs", custom_abs_meta);
  m.impl("_openreg_custom_abs_backward", custom_abs_backward_meta);
}

}  // namespace
}  // namespace openreg
