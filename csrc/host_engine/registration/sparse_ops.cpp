// Registers the engine for sparse tensors.
#include "host_engine/engine.h"
#include "host_engine/ops/op_traits.h"
#include "host_engine/registration/layouts.h"
#include "host_engine/registration/register_kernels.h"

namespace openreg {
namespace {

template <c10::DispatchKey kCpuKey>
void run_sparse_operator(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (op_traits(op).has(OpFlag::kSparseMetadata)) {
    op.redispatchBoxed(c10::DispatchKeySet(kCpuKey), stack);
  } else {
    run_wrapped_operator(op, stack);
  }
}

}  // namespace

void register_sparse_engine() {
  using c10::DispatchKey;
  register_for_all<&run_sparse_operator<DispatchKey::SparseCPU>>(DispatchKey::SparsePrivateUse1,
                                                                 DispatchKey::SparseCPU);
  register_for_all<&run_sparse_operator<DispatchKey::SparseCsrCPU>>(DispatchKey::SparseCsrPrivateUse1,
                                                                    DispatchKey::SparseCsrCPU);
}

}  // namespace openreg
