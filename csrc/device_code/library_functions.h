// The functions of the driver's kernel library, and their handles.
//
// Note [Handles of library functions]
// A launch reads the handle of its function from an array, by function, dtype and device. The first launch
// asks the driver and stores the handle, or that there is none. No lock is held: threads that resolve the
// same function get the same handle.
//
// Thread safety: all functions may be called from any thread.
#pragma once

#include "device/device.h"

#include <c10/core/ScalarType.h>
#include <openreg/module.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace openreg {

// Names of kernel_library.h, without the dtype.
#define OR_LIBRARY_FUNCTIONS(_)                  \
  _(abs, "unary.abs")                            \
  _(ceil, "unary.ceil")                          \
  _(cos, "unary.cos")                            \
  _(erf, "unary.erf")                            \
  _(exp, "unary.exp")                            \
  _(floor, "unary.floor")                        \
  _(log, "unary.log")                            \
  _(neg, "unary.neg")                            \
  _(reciprocal, "unary.reciprocal")              \
  _(relu, "unary.relu")                          \
  _(rsqrt, "unary.rsqrt")                        \
  _(sigmoid, "unary.sigmoid")                    \
  _(sin, "unary.sin")                            \
  _(sqrt, "unary.sqrt")                          \
  _(tanh, "unary.tanh")                          \
  _(add, "binary.add")                           \
  _(sub, "binary.sub")                           \
  _(lerp, "binary.lerp")                         \
  _(mul, "binary.mul")                           \
  _(div, "binary.div")                           \
  _(maximum, "binary.maximum")                   \
  _(minimum, "binary.minimum")                   \
  _(pow, "binary.pow")                           \
  _(relu_backward, "binary.relu_backward")       \
  _(sigmoid_backward, "binary.sigmoid_backward") \
  _(tanh_backward, "binary.tanh_backward")       \
  _(addcmul, "ternary.addcmul")                  \
  _(addcdiv, "ternary.addcdiv")                  \
  _(eq, "compare.eq")                            \
  _(ne, "compare.ne")                            \
  _(lt, "compare.lt")                            \
  _(le, "compare.le")                            \
  _(gt, "compare.gt")                            \
  _(ge, "compare.ge")                            \
  _(fill, "fill.value")                          \
  _(where, "where.select")                       \
  _(sum, "reduce.sum")                           \
  _(max, "reduce.max")                           \
  _(min, "reduce.min")                           \
  _(gemm, "matmul.gemm")                         \
  _(gather, "index.gather")                      \
  _(scatter_add, "index.scatter_add")

enum class LibraryFunction : uint8_t {
#define OR_FUNCTION(function, name) function,
  OR_LIBRARY_FUNCTIONS(OR_FUNCTION)
#undef OR_FUNCTION
};

inline constexpr const char* kLibraryFunctionNames[] = {
#define OR_FUNCTION(function, name) name,
    OR_LIBRARY_FUNCTIONS(OR_FUNCTION)
#undef OR_FUNCTION
};

/// The dtypes of the kernel library are smaller than this.
inline constexpr size_t kLibraryDtypes = 16;

/// A handle is NULL until it is resolved, and this one if the driver does not have the function.
inline const auto kNoFunction = reinterpret_cast<orFunction_t>(~uintptr_t{0});

using FunctionHandle = std::atomic<orFunction_t>;
extern FunctionHandle library_handles[kMaxDevices][std::size(kLibraryFunctionNames)][kLibraryDtypes];

orFunction_t resolve_function(LibraryFunction function, at::ScalarType dtype, c10::DeviceIndex device);

/// The function for a dtype; NULL if the driver does not have it.
inline orFunction_t find_function(LibraryFunction function, at::ScalarType dtype, c10::DeviceIndex device) {
  if (C10_UNLIKELY(static_cast<size_t>(dtype) >= kLibraryDtypes)) {
    return nullptr;
  }
  const orFunction_t found =
      library_handles[device][static_cast<size_t>(function)][static_cast<size_t>(dtype)].load(
          std::memory_order_acquire);
  if (C10_UNLIKELY(found == nullptr)) {
    return resolve_function(function, dtype, device);
  }
  return found == kNoFunction ? nullptr : found;
}

/// The functions that convert between two dtypes, and that copy elements of a size; NULL if the driver does
/// not have them.
orFunction_t find_conversion(at::ScalarType from, at::ScalarType to, c10::DeviceIndex device);
orFunction_t find_byte_copy(size_t element_size, c10::DeviceIndex device);

/// Launches the function on the device's current stream. The argument block is copied.
void launch_function(orFunction_t function, const void* args, size_t size, c10::DeviceIndex device);

}  // namespace openreg
