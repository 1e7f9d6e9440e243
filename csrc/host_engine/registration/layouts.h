// Registration of the engine for tensors that are not dense. Each function is called once, when the library
// is loaded.
#pragma once

namespace openreg {

/// Takes every operator that has a CPU kernel for sparse tensors.
void register_sparse_engine();

/// Takes every operator that has a CPU kernel for nested tensors.
void register_nested_engine();

/// Takes every operator that has a CPU kernel for quantized tensors.
void register_quantized_engine();

}  // namespace openreg
