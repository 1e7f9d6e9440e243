// LSTM and GRU cells. PyTorch expects an accelerator to have a fused kernel for each; the CPU has none. Here
// the arithmetic of a cell is one launch, and the workspace stores the activated gates for backward.
#include "kernel/arg_alias.h"
#include "kernel/kernel.h"
#include "memory/kernel_view.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <tuple>
#include <utility>

namespace openreg {
namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;

// Launches the arithmetic of a cell. Without a kernel view, its operators are called on the device's tensors.
template <typename Body>
void launch_cell(const char* name, c10::DeviceIndex device, Body body) {
  if (has_kernel_view()) {
    launch_kernel(name, device, std::move(body));
  } else {
    body();
  }
}

// An alias to read. The tensor must be on the current device, which is that of the cell's state.
Tensor read(const Tensor& tensor) {
  const c10::Device device(kDevice, current_device());
  TORCH_CHECK(tensor.device() == device,
              "Expected all tensors to be on the same device, but found at least two devices, ", device,
              " and ", tensor.device(), "!");
  return has_kernel_view() ? alias(tensor, false) : tensor;
}

Tensor read(const MaybeTensor& tensor) {
  return tensor.has_value() && tensor->defined() ? read(*tensor) : Tensor();
}

Tensor write(const Tensor& tensor) {
  return tensor.defined() && has_kernel_view() ? alias(tensor, true) : tensor;
}

Tensor gates(const Tensor& input, int64_t count) {
  return at::empty({input.size(0), count}, input.options());
}

Tensor part(const Tensor& all, int64_t index, int64_t parts) {
  const int64_t width = all.size(1) / parts;
  return all.narrow(1, index * width, width);
}

// to = a + b (+ their biases)
void add_gates(Tensor to, const Tensor& a, const Tensor& b, const Tensor& a_bias, const Tensor& b_bias) {
  at::add_out(to, a, b);
  if (a_bias.defined()) {
    to.add_(a_bias).add_(b_bias);
  }
}

// Gates in the order input, forget, cell, output.
std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates,
                                             const Tensor& cx, const MaybeTensor& input_bias,
                                             const MaybeTensor& hidden_bias) {
  DeviceScope scope(cx.device().index());
  Tensor hy = at::empty_like(cx, at::MemoryFormat::Contiguous);
  Tensor cy = at::empty_like(cx, at::MemoryFormat::Contiguous);
  Tensor workspace = gates(input_gates, input_gates.size(1));
  launch_cell("lstm_cell", cx.device().index(),
              [ig = read(input_gates), hg = read(hidden_gates), cx = read(cx), ib = read(input_bias),
               hb = read(hidden_bias), hy = write(hy), cy = write(cy), all = write(workspace)]() mutable {
                add_gates(all, ig, hg, ib, hb);
                all.narrow(1, 0, all.size(1) / 2).sigmoid_();
                const Tensor i = part(all, 0, 4), f = part(all, 1, 4), g = part(all, 2, 4),
                             o = part(all, 3, 4);
                g.tanh_();
                o.sigmoid_();
                at::mul_out(cy, f, cx).addcmul_(i, g);
                at::tanh_out(hy, cy).mul_(o);
              });
  return {hy, cy, workspace};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const MaybeTensor& grad_hy, const MaybeTensor& grad_cy,
                                                      const Tensor& cx, const Tensor& cy,
                                                      const Tensor& workspace, bool has_bias) {
  DeviceScope scope(cx.device().index());
  Tensor grad_gates = at::empty_like(workspace);
  Tensor grad_cx = at::empty_like(cx, at::MemoryFormat::Contiguous);
  Tensor grad_bias = has_bias ? at::empty({workspace.size(1)}, workspace.options()) : Tensor();
  launch_cell("lstm_cell_backward", cx.device().index(),
              [ghy = read(grad_hy), gcy = read(grad_cy), cx = read(cx), cy = read(cy), all = read(workspace),
               to = write(grad_gates), gcx = write(grad_cx), gb = write(grad_bias)]() mutable {
                const Tensor i = part(all, 0, 4), f = part(all, 1, 4), g = part(all, 2, 4),
                             o = part(all, 3, 4);
                const Tensor tanh_cy = cy.tanh();
                Tensor into_cell = gcy.defined() ? gcy.clone() : at::zeros_like(cy);
                Tensor go = part(to, 3, 4);
                if (ghy.defined()) {
                  into_cell.add_(ghy * o * (1 - tanh_cy.square()));
                  go.copy_(ghy * tanh_cy * (1 - o) * o);
                } else {
                  go.zero_();
                }
                part(to, 0, 4).copy_(into_cell * g * (1 - i) * i);
                part(to, 1, 4).copy_(into_cell * cx * (1 - f) * f);
                part(to, 2, 4).copy_(into_cell * i * (1 - g.square()));
                at::mul_out(gcx, into_cell, f);
                if (gb.defined()) {
                  at::sum_out(gb, to, 0);
                }
              });
  return {grad_gates, grad_cx, grad_bias};
}

// Gates in the order reset, update, new. The workspace stores them, the old state, and the hidden part of the
// new gate, which the reset gate scales.
std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hx,
                                    const MaybeTensor& input_bias, const MaybeTensor& hidden_bias) {
  DeviceScope scope(hx.device().index());
  Tensor hy = at::empty_like(hx, at::MemoryFormat::Contiguous);
  Tensor workspace = gates(input_gates, 5 * hx.size(1));
  launch_cell("gru_cell", hx.device().index(),
              [ig = read(input_gates), hg = read(hidden_gates), hx = read(hx), ib = read(input_bias),
               hb = read(hidden_bias), hy = write(hy), all = write(workspace)]() mutable {
                const auto third = [](const Tensor& bias, int64_t index) {
                  return bias.defined() ? bias.narrow(0, index * (bias.size(0) / 3), bias.size(0) / 3) : bias;
                };
                Tensor r = part(all, 0, 5), z = part(all, 1, 5), n = part(all, 2, 5), hn = part(all, 4, 5);
                add_gates(r, part(ig, 0, 3), part(hg, 0, 3), third(ib, 0), third(hb, 0));
                add_gates(z, part(ig, 1, 3), part(hg, 1, 3), third(ib, 1), third(hb, 1));
                r.sigmoid_();
                z.sigmoid_();
                hn.copy_(part(hg, 2, 3));
                n.copy_(part(ig, 2, 3));
                if (ib.defined()) {
                  hn.add_(third(hb, 2));
                  n.add_(third(ib, 2));
                }
                n.addcmul_(r, hn).tanh_();
                part(all, 3, 5).copy_(hx);
                at::sub_out(hy, hx, n).mul_(z).add_(n);
              });
  return {hy, workspace};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& grad_hy,
                                                                     const Tensor& workspace, bool has_bias) {
  DeviceScope scope(grad_hy.device().index());
  const int64_t width = grad_hy.size(1);
  Tensor grad_input = gates(workspace, 3 * width);
  Tensor grad_hidden = gates(workspace, 3 * width);
  Tensor grad_hx = at::empty_like(grad_hy, at::MemoryFormat::Contiguous);
  Tensor input_bias = has_bias ? at::empty({3 * width}, workspace.options()) : Tensor();
  Tensor hidden_bias = has_bias ? at::empty({3 * width}, workspace.options()) : Tensor();
  launch_cell("gru_cell_backward", grad_hy.device().index(),
              [ghy = read(grad_hy), all = read(workspace), gi = write(grad_input), gh = write(grad_hidden),
               ghx = write(grad_hx), ib = write(input_bias), hb = write(hidden_bias)]() mutable {
                const Tensor r = part(all, 0, 5), z = part(all, 1, 5), n = part(all, 2, 5);
                const Tensor hx = part(all, 3, 5), hn = part(all, 4, 5);
                const Tensor into_new = ghy * (1 - z) * (1 - n.square());
                part(gi, 0, 3).copy_(into_new * hn * (1 - r) * r);
                part(gi, 1, 3).copy_(ghy * (hx - n) * (1 - z) * z);
                part(gi, 2, 3).copy_(into_new);
                gh.narrow(1, 0, 2 * ghy.size(1)).copy_(gi.narrow(1, 0, 2 * ghy.size(1)));
                part(gh, 2, 3).copy_(into_new * r);
                at::mul_out(ghx, ghy, z);
                if (ib.defined()) {
                  at::sum_out(ib, gi, 0);
                  at::sum_out(hb, gh, 0);
                }
              });
  return {grad_input, grad_hidden, grad_hx, input_bias, hidden_bias};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_thnn_fused_lstm_cell", lstm_cell);
  m.impl("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward);
  m.impl("_thnn_fused_gru_cell", gru_cell);
  m.impl("_thnn_fused_gru_cell_backward", gru_cell_backward);
}

}  // namespace
}  // namespace openreg
