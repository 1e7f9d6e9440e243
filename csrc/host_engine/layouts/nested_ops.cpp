// Registers the engine for nested tensors.
#include "host_engine/engine.h"
#include "host_engine/layouts/layouts.h"
#include "host_engine/register_kernels.h"

#include <string_view>
#include <unordered_set>

namespace openreg {
namespace {

constexpr auto kOurs = c10::DispatchKey::NestedTensorPrivateUse1;
constexpr auto kTheirs = c10::DispatchKey::NestedTensorCPU;

// These are made of operators on the buffer, whatever device it is on, or look at the shape alone: called on
// our wrapper they launch. The others read memory themselves and run on the engine.
bool is_made_of_operators(std::string_view name) {
  static const auto* names = new std::unordered_set<std::string_view>{
      "_nested_tensor_size",
      "_nested_tensor_strides",
      "_nested_tensor_storage_offsets",
      "_nested_select_backward",
      "_nested_from_padded_and_nested_example",
      "_pin_memory",
      "_softmax",
      "_softmax_backward_data",
      "_to_copy",
      "abs",
      "abs_",
      "add",
      "add_",
      "alias",
      "bmm",
      "cat",
      "chunk",
      "clone",
      "copy_",
      "cos",
      "detach",
      "div",
      "embedding",
      "empty_like",
      "eq",
      "fill_",
      "ge",
      "gelu",
      "gelu_",
      "gelu_backward",
      "gt",
      "is_pinned",
      "is_same_size",
      "isinf",
      "isnan",
      "isneginf",
      "isposinf",
      "linear",
      "linear_backward",
      "logical_not",
      "logical_not_",
      "masked_fill",
      "matmul",
      "matmul_backward",
      "mul",
      "mul_",
      "narrow",
      "native_dropout",
      "native_dropout_backward",
      "neg",
      "neg_",
      "normal_",
      "ones_like",
      "relu",
      "relu_",
      "select",
      "sgn",
      "sgn_",
      "silu",
      "silu_",
      "silu_backward",
      "sin",
      "split_with_sizes",
      "sqrt",
      "squeeze",
      "sub",
      "tanh",
      "tanh_",
      "threshold_backward",
      "transpose",
      "unbind",
      "unsqueeze",
      "values",
      "view",
      "where",
      "zero_",
  };
  return names->contains(name.substr(name.rfind(':') + 1));
}

void run_nested_operator(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (is_made_of_operators(op.operator_name().name) && op.hasKernelForDispatchKey(kTheirs)) {
    op.redispatchBoxed(c10::DispatchKeySet(kTheirs), stack);
  } else {
    run_wrapped_operator(op, stack);
  }
}

}  // namespace

void register_nested_engine() {
  register_for_all<&run_nested_operator>(kOurs, kTheirs);
}

}  // namespace openreg
