// Calls one of PyTorch's structured kernels for this device.
//
// A structured operator is a class in at::native: meta() checks the arguments and sets the output's shape and
// dtype; impl() computes, often with a stub. For its own devices, PyTorch generates a subclass that allocates
// the output. This is the subclass for this device. It serves all forms: functional (no output given), out
// (output given) and in-place (the input is the output).
//
// For kernels with one output of any strides: their meta() calls set_output_raw_strided.
#pragma once

#include "common/version.h"
#include "operators/required/outputs.h"

#include <ATen/TensorIterator.h>

#include <type_traits>
#include <utility>

namespace openreg {

template <typename Kernel>
class StructuredCall final : public Kernel {
 public:
  explicit StructuredCall(at::Tensor output = {}) : output_(std::move(output)) {}

  template <typename... Args>
  at::Tensor operator()(const Args&... args) {
    this->meta(args...);
    this->impl(args..., output_);
    return output_;
  }

  void set_output_raw_strided(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options OR_NAMES_PARAMETER) override {
    if (output_.defined()) {
      resize_given_output(output_, sizes, strides, options);
    } else {
      output_ = allocate_output(sizes, strides, options);
    }
    // A TensorIterator has to store its output.
    if constexpr (std::is_base_of_v<at::TensorIteratorBase, Kernel>) {
      Kernel::set_output_raw_strided(index, sizes, strides, options OR_NAMES_ARGUMENT);
    }
  }

  const at::Tensor& maybe_get_output(int64_t) override { return output_; }

 private:
  at::Tensor output_;
};

}  // namespace openreg
