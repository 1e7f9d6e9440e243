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

#include <ATen/TensorIterator.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

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
      use_given(sizes, strides, options);
    } else {
      output_ = strides.empty() ? at::empty(sizes, options) : at::empty_strided(sizes, strides, options);
    }
    // A TensorIterator has to store its output.
    if constexpr (std::is_base_of_v<at::TensorIteratorBase, Kernel>) {
      Kernel::set_output_raw_strided(index, sizes, strides, options OR_NAMES_ARGUMENT);
    }
  }

  const at::Tensor& maybe_get_output(int64_t) override { return output_; }

 private:
  void use_given(at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) {
    TORCH_CHECK(options.dtype() == output_.dtype(), "Expected out tensor to have dtype ", options.dtype(),
                ", but got ", output_.dtype(), " instead");
    TORCH_CHECK(options.device() == output_.device(), "Expected out tensor to have device ", options.device(),
                ", but got ", output_.device(), " instead");
    if (at::native::resize_output(output_, sizes) && !strides.empty()) {
      output_.as_strided_(sizes, strides);
    }
  }

  at::Tensor output_;
};

}  // namespace openreg
