// Matrix products; see orMatmulArgs.
#pragma once

#include "elementwise.h"

#include <algorithm>
#include <vector>

namespace openreg::discrete {

/// Accumulates in double.
template <typename T>
orError_t gemm(const orDiscreteLaunch* launch, const void* given) {
  const auto& args = *static_cast<const orMatmulArgs*>(given);
  const auto at = [&](const void* data, const int64_t* strides, int64_t batch, int64_t row, int64_t column) {
    return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(data) + static_cast<uintptr_t>(launch->memory)) +
           batch * strides[0] + row * strides[1] + column * strides[2];
  };
  std::vector<double> row(static_cast<size_t>(args.n));
  for (int64_t batch = 0; batch < args.batch; ++batch) {
    for (int64_t i = 0; i < args.m; ++i) {
      std::ranges::fill(row, 0.0);
      for (int64_t l = 0; l < args.k; ++l) {
        const double factor = static_cast<Compute<T>>(*at(args.a, args.a_strides, batch, i, l));
        const T* b = at(args.b, args.b_strides, batch, l, 0);
        for (int64_t j = 0; j < args.n; ++j) {
          row[static_cast<size_t>(j)] += factor * static_cast<Compute<T>>(b[j * args.b_strides[2]]);
        }
      }
      for (int64_t j = 0; j < args.n; ++j) {
        T* c = at(args.c, args.c_strides, batch, i, j);
        const double before = args.beta == 0 ? 0 : args.beta * static_cast<Compute<T>>(*c);
        *c = static_cast<T>(static_cast<Compute<T>>(args.alpha * row[static_cast<size_t>(j)] + before));
      }
    }
  }
  return orSuccess;
}

}  // namespace openreg::discrete
