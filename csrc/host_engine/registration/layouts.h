// Registration of the engine for sparse, nested and quantized tensors. register_engine calls each function
// once.
#pragma once

namespace openreg {

/// Registers the engine for every operator that has a CPU kernel for sparse tensors.
void register_sparse_engine();

/// Registers the engine for every operator that has a CPU kernel for nested tensors.
void register_nested_engine();

/// Registers the engine for every operator that has a CPU kernel for quantized tensors.
void register_quantized_engine();

}  // namespace openreg
