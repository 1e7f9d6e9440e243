// Loops over strided operands; see orElementwiseArgs.
#pragma once

#include "function.h"
#include "low_float.h"
#include "openreg/kernel_library.h"

#include <type_traits>

namespace openreg::discrete {

/// Calls `body` with the kernel-view addresses of the operands, for each element.
template <int Operands, typename Body>
void for_each_element(const orDiscreteLaunch& launch, const orElementwiseArgs& args, Body body) {
  char* at[Operands];
  for (int i = 0; i < Operands; ++i) at[i] = static_cast<char*>(args.data[i]) + launch.memory;
  int64_t index[OR_KERNEL_DIMS] = {};
  for (;;) {
    body(at);
    uint32_t dim = 0;
    for (; dim < args.dims; ++dim) {
      for (int i = 0; i < Operands; ++i) at[i] += args.strides[i][dim];
      if (++index[dim] < args.sizes[dim]) break;
      for (int i = 0; i < Operands; ++i) at[i] -= args.strides[i][dim] * args.sizes[dim];
      index[dim] = 0;
    }
    if (dim == args.dims) return;
  }
}

/// A bool in memory may be any byte.
template <typename T>
Compute<T> load(const char* at) {
  if constexpr (std::is_same_v<T, bool>) {
    return *reinterpret_cast<const unsigned char*>(at) != 0;
  } else {
    return static_cast<Compute<T>>(*reinterpret_cast<const T*>(at));
  }
}

/// Converts between any two dtypes.
template <typename T, typename From>
void store(char* at, From value) {
  *reinterpret_cast<T*>(at) = static_cast<T>(static_cast<Compute<T>>(value));
}

template <typename T>
Compute<T> scalar_of(const orElementwiseArgs& args) {
  if constexpr (std::is_floating_point_v<Compute<T>>) {
    return static_cast<Compute<T>>(args.scalar);
  } else {
    return static_cast<T>(args.int_scalar);
  }
}

/// out = Op(a)
template <typename T, auto Op>
orError_t unary(const orDiscreteLaunch* launch, const void* given) {
  const auto& args = *static_cast<const orElementwiseArgs*>(given);
  for_each_element<2>(*launch, args, [](char** at) { store<T>(at[0], Op(load<T>(at[1]))); });
  return orSuccess;
}

/// out = Op(a, b, scalar)
template <typename Out, typename T, auto Op>
orError_t binary(const orDiscreteLaunch* launch, const void* given) {
  const auto& args = *static_cast<const orElementwiseArgs*>(given);
  const Compute<T> scalar = scalar_of<T>(args);
  for_each_element<3>(*launch, args,
                      [=](char** at) { store<Out>(at[0], Op(load<T>(at[1]), load<T>(at[2]), scalar)); });
  return orSuccess;
}

/// out = Op(a, b, c, scalar)
template <typename T, auto Op>
orError_t ternary(const orDiscreteLaunch* launch, const void* given) {
  const auto& args = *static_cast<const orElementwiseArgs*>(given);
  const Compute<T> scalar = scalar_of<T>(args);
  for_each_element<4>(*launch, args, [=](char** at) {
    store<T>(at[0], Op(load<T>(at[1]), load<T>(at[2]), load<T>(at[3]), scalar));
  });
  return orSuccess;
}

}  // namespace openreg::discrete
