// Scenario 2: a kernel for one of PyTorch's stubs.
//
// When: PyTorch's function for the operator does everything but the arithmetic (checks, promotion, shapes,
// special cases) and then calls a DispatchStub, a table of functions by device type. One line adds the
// device's function, and PyTorch does the rest. The stubs are declared in ATen/native/*.h: about 500 in
// torch 2.13.
//
// A stub alone is not enough, since the dispatcher does not use it. The operators that call the stub must
// also be registered for the device, with the function in at::native that calls the stub (logical_not), or
// for a structured operator with its class (copysign, prod; see structured.h).
#include "kernel/kernel.h"
#include "operators/examples/loop.h"
#include "operators/examples/structured.h"

#include <ATen/Dispatch_v2.h>
#include <ATen/OpMathType.h>
#include <ATen/native/BinaryOps.h>
#include <ATen/native/ReduceOps.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/copysign_native.h>
#include <ATen/ops/logical_not_native.h>
#include <ATen/ops/prod_native.h>
#include <c10/util/copysign.h>
#include <torch/library.h>

#include <type_traits>

namespace openreg {
namespace {

void logical_not_kernel(at::TensorIteratorBase& iter) {
  if (iter.numel() == 0) {
    return;
  }
  AT_DISPATCH_V2(iter.dtype(1), "logical_not", AT_WRAP([&] {
                   launch_kernel("logical_not", iter.device(0).index(), [loop = Loop(iter)] {
                     loop.map<bool, scalar_t>([](scalar_t value) { return value == scalar_t(0); });
                   });
                 }),
                 AT_EXPAND(AT_ALL_TYPES), AT_EXPAND(AT_COMPLEX_TYPES), at::kBool, at::kHalf, at::kBFloat16);
}

void copysign_kernel(at::TensorIteratorBase& iter) {
  if (iter.numel() == 0) {
    return;
  }
  AT_DISPATCH_V2(
      iter.common_dtype(), "copysign", AT_WRAP([&] {
        launch_kernel("copysign", iter.device(0).index(), [loop = Loop(iter)] {
          loop.map<scalar_t, scalar_t, scalar_t>([](scalar_t a, scalar_t b) { return c10::copysign(a, b); });
        });
      }),
      AT_EXPAND(AT_FLOATING_TYPES), at::kHalf, at::kBFloat16);
}

// Half precision accumulates in float, bool in int.
template <typename T>
using Accumulator = std::conditional_t<std::is_same_v<T, bool>, int, at::opmath_type<T>>;

void prod_kernel(at::TensorIterator& iter) {
  AT_DISPATCH_V2(iter.dtype(0), "prod", AT_WRAP([&] {
                   using Total = Accumulator<scalar_t>;
                   launch_kernel("prod", iter.device(0).index(), [loop = Loop(iter)] {
                     loop.reduce<scalar_t>(Total(1), [](Total total, scalar_t value) {
                       return static_cast<Total>(total * static_cast<Total>(value));
                     });
                   });
                 }),
                 AT_EXPAND(AT_ALL_TYPES), AT_EXPAND(AT_COMPLEX_TYPES), AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES),
                 at::kBool, at::kComplexHalf, at::kHalf, at::kBFloat16);
}

using Copysign = StructuredCall<at::native::structured_copysign_out>;
using Prod = StructuredCall<at::native::structured_prod_out>;

at::Tensor copysign(const at::Tensor& self, const at::Tensor& other) {
  return Copysign()(self, other);
}

at::Tensor& copysign_out(const at::Tensor& self, const at::Tensor& other, at::Tensor& out) {
  Copysign{out}(self, other);
  return out;
}

at::Tensor& copysign_(at::Tensor& self, const at::Tensor& other) {
  Copysign{self}(self, other);
  return self;
}

at::Tensor prod_all(const at::Tensor& self, std::optional<at::ScalarType> dtype) {
  return at::native::prod(self, dtype);
}

at::Tensor& prod_all_out(const at::Tensor& self, std::optional<at::ScalarType> dtype, at::Tensor& out) {
  return at::native::prod_out(self, dtype, out);
}

at::Tensor prod_dim(const at::Tensor& self, int64_t dim, bool keepdim, std::optional<at::ScalarType> dtype) {
  return Prod()(self, dim, keepdim, dtype);
}

at::Tensor& prod_dim_out(const at::Tensor& self, int64_t dim, bool keepdim,
                         std::optional<at::ScalarType> dtype, at::Tensor& out) {
  Prod{out}(self, dim, keepdim, dtype);
  return out;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("logical_not.out", at::native::logical_not_out);
  m.impl("copysign.Tensor", copysign);
  m.impl("copysign.out", copysign_out);
  m.impl("copysign_.Tensor", copysign_);
  m.impl("prod", prod_all);
  m.impl("prod.out", prod_all_out);
  m.impl("prod.dim_int", prod_dim);
  m.impl("prod.int_out", prod_dim_out);
}

}  // namespace
}  // namespace openreg

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(logical_not_stub, &openreg::logical_not_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(copysign_stub, &openreg::copysign_kernel)
REGISTER_PRIVATEUSE1_DISPATCH(prod_stub, &openreg::prod_kernel)

}  // namespace at::native
