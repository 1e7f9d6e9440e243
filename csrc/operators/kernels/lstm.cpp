// LSTM over whole sequences. On an out-of-tree device, PyTorch's default launches one kernel for each gate
// product and each cell of each time step. The CPU has a kernel for the whole sequence of a layer, which is
// launched here once for each layer and direction.
//
// The layer operator has a derivative, so this function is registered above autograd and calls differentiable
// operators.
#include "device/device.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/lstm_native.h>
#include <ATen/ops/mkldnn_rnn_layer.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <tuple>
#include <vector>

namespace openreg {
namespace {

using at::Tensor;

constexpr int64_t kLstm = 2;  // the mode argument of mkldnn_rnn_layer

// Excludes traced tensors: a compiler optimizes the operators of PyTorch's default better.
bool plain_float(const Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat && tensor.device().type() == kDevice &&
         !tensor.key_set().has_any(
             c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::Functionalize})) &&
         !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
}

// Whether the layer kernel supports the arguments. PyTorch's default handles other and invalid arguments.
bool fits_layer_kernel(const Tensor& input, at::TensorList hx, at::TensorList params, bool has_biases,
                       int64_t num_layers, bool bidirectional) {
  const auto cells = static_cast<size_t>(num_layers * (bidirectional ? 2 : 1));
  return at::globalContext().userEnabledMkldnn() && !at::autocast::is_autocast_enabled(kDevice) &&
         input.dim() == 3 && input.sym_numel() != 0 && hx.size() == 2 && hx[0].dim() == 3 &&
         hx[0].sym_sizes() == hx[1].sym_sizes() && hx[0].sym_size(0) == static_cast<int64_t>(cells) &&
         params.size() == cells * (has_biases ? 4 : 2) && plain_float(input) &&
         std::ranges::all_of(hx, plain_float) && std::ranges::all_of(params, plain_float) &&
         params[0].dim() == 2 && params[0].size(1) == input.size(2) && params[0].size(0) == 4 * hx[0].size(2);
}

std::tuple<Tensor, Tensor, Tensor> lstm(const Tensor& input, at::TensorList hx, at::TensorList params,
                                        bool has_biases, int64_t num_layers, double dropout, bool train,
                                        bool bidirectional, bool batch_first) {
  if (!fits_layer_kernel(input, hx, params, has_biases, num_layers, bidirectional)) {
    return at::native::lstm(input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
                            batch_first);
  }
  const int64_t hidden_size = hx[0].size(2);
  const int64_t directions = bidirectional ? 2 : 1;
  const size_t per_cell = has_biases ? 4 : 2;
  const Tensor no_bias = has_biases ? Tensor() : at::zeros({4 * hidden_size}, input.options());
  Tensor sequence = (batch_first ? input.transpose(0, 1) : input).contiguous();
  std::vector<Tensor> last_hidden, last_cell;
  for (int64_t layer = 0; layer < num_layers; ++layer) {
    std::vector<Tensor> outputs;
    for (int64_t direction = 0; direction < directions; ++direction) {
      const int64_t index = layer * directions + direction;
      const Tensor* weights = &params[static_cast<size_t>(index) * per_cell];
      auto [output, hidden, cell, workspace] = at::mkldnn_rnn_layer(
          sequence, weights[0], weights[1], has_biases ? weights[2] : no_bias,
          has_biases ? weights[3] : no_bias, hx[0].select(0, index).contiguous(),
          hx[1].select(0, index).contiguous(), /*reverse=*/direction == 1, /*batch_sizes=*/{}, kLstm,
          hidden_size, num_layers, has_biases, bidirectional, /*batch_first=*/false, train);
      outputs.push_back(output);
      last_hidden.push_back(hidden);
      last_cell.push_back(cell);
    }
    sequence = directions == 1 ? outputs[0] : at::cat(outputs, -1);
    if (dropout != 0 && train && layer + 1 < num_layers) {
      sequence = at::dropout(sequence, dropout, /*train=*/true);
    }
  }
  return {batch_first ? sequence.transpose(0, 1) : sequence, at::stack(last_hidden, 0),
          at::stack(last_cell, 0)};
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("lstm.input", lstm);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("lstm.input", lstm);
}

}  // namespace
}  // namespace openreg
