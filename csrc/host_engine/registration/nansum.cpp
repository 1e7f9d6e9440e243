// nansum. CUDA supports it for complex tensors; the CPU kernel does not.
#include "host_engine/engine.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/sum.h>
#include <torch/library.h>

namespace openreg {
namespace {

void nansum(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t begin = stack->size() - op.schema().arguments().size();
  at::Tensor self = (*stack)[begin].toTensor();
  if ((*stack)[begin + 1].isIntList() && (*stack)[begin + 1].toIntVector().empty()) {
    // An empty list means all dimensions, but the Meta kernel reduces none.
    (*stack)[begin + 1] = c10::IValue();
  }
  if (!self.is_complex()) {
    run_operator(op, stack);
    return;
  }
  self = self.masked_fill(at::isnan(self), 0);
  const auto dims = (*stack)[begin + 1].toOptional<std::vector<int64_t>>();
  const bool keepdim = (*stack)[begin + 2].toBool();
  const auto dtype = (*stack)[begin + 3].toOptional<at::ScalarType>();
  const at::OptionalIntArrayRef over = dims.has_value() ? at::OptionalIntArrayRef(*dims) : std::nullopt;
  const bool has_out = op.schema().arguments().size() == 5;
  at::Tensor out = has_out ? (*stack)[begin + 4].toTensor() : at::Tensor();
  stack->resize(begin);
  if (has_out) {
    at::sum_out(out, self, over, keepdim, dtype);
    stack->emplace_back(std::move(out));
  } else {
    stack->emplace_back(at::sum(self, over, keepdim, dtype));
  }
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("nansum", torch::CppFunction::makeFromBoxedFunction<&nansum>());
  m.impl("nansum.out", torch::CppFunction::makeFromBoxedFunction<&nansum>());
}

}  // namespace
}  // namespace openreg
