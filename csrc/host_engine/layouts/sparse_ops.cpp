// Registers the engine for sparse tensors.
#include "host_engine/engine.h"
#include "host_engine/layouts/layouts.h"
#include "host_engine/register_kernels.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace openreg {
namespace {

// These look at the wrapper and not at data, and do not ask which device it is for.
constexpr std::array<std::string_view, 24> kWrapperOnly = {"_indices",
                                                           "_values",
                                                           "indices",
                                                           "values",
                                                           "_nnz",
                                                           "is_coalesced",
                                                           "_coalesced_",
                                                           "sparse_dim",
                                                           "dense_dim",
                                                           "_dimI",
                                                           "_dimV",
                                                           "crow_indices",
                                                           "col_indices",
                                                           "ccol_indices",
                                                           "row_indices",
                                                           "sparse_resize_",
                                                           "sparse_resize_and_clear_",
                                                           "_sparse_coo_tensor_with_dims",
                                                           "_sparse_coo_tensor_with_dims_and_tensors",
                                                           "_sparse_compressed_tensor_unsafe",
                                                           "_sparse_compressed_tensor_with_dims",
                                                           "empty",
                                                           "resize_as_sparse_",
                                                           "resize_"};

bool looks_at_wrapper_only(const c10::OperatorHandle& op) {
  const std::string_view name = op.operator_name().name;
  return std::ranges::find(kWrapperOnly, name.substr(name.rfind(':') + 1)) != kWrapperOnly.end();
}

template <c10::DispatchKey kCpuKey>
void run_sparse_operator(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (looks_at_wrapper_only(op)) {
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
