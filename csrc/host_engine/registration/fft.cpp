// Fourier transforms in half precision. CUDA supports them. PyTorch's composite functions reject them for
// other device types, before they call a kernel. So the input is upcast above autograd, which records two
// casts and a transform.
#include "host_engine/dtypes/upcast.h"
#include "host_engine/ops/op_traits.h"
#include "kernel/default_kernel.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace openreg {
namespace {

void transform(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const OpTraits& traits = op_traits(op);
  if (needs_upcast(traits, *stack)) {
    run_upcast(op, traits, stack);
  } else {
    op.redispatchBoxed(kDefault, stack);
  }
}

constexpr const char* kTransforms[] = {
    "fft_fft",  "fft_ifft",  "fft_rfft",  "fft_irfft",  "fft_hfft",  "fft_ihfft",
    "fft_fft2", "fft_ifft2", "fft_rfft2", "fft_irfft2", "fft_hfft2", "fft_ihfft2",
    "fft_fftn", "fft_ifftn", "fft_rfftn", "fft_irfftn", "fft_hfftn", "fft_ihfftn",
};

void register_transforms(torch::Library& m) {
  for (const char* name : kTransforms) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&transform>());
  }
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  register_transforms(m);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_transforms(m);
}

}  // namespace
}  // namespace openreg
