// Registers operators that run as functions of the driver's kernel library.
//
// Note [Library operators]
// A kernel of an operator launches functions and returns true, or the result. It returns false, or no
// result, if the driver lacks a function for the call; then the operator falls back to the CPU. A structured
// operator uses PyTorch's Meta function, which checks the arguments, broadcasts, promotes and allocates the
// output: `launch` gets the arguments of the Meta function and then the outputs, or only the TensorIterator
// and the arguments if the Meta function builds one. All forms (functional, in-place, out) are typed kernels
// of one template; the schema of the operator says which form it is.
//
// Kernels call at:: functions for the steps of a composite. These are library operators, too.
//
// Thread safety: registration happens while the library is loaded; the rest may be called from any thread.
#pragma once

#include "common/version.h"
#include "device_code/library_functions.h"
#include "diagnostics/op_stats.h"
#include "kernel/dispatch_key_guard.h"
#include "operators/cpu_fallback.h"
#include "operators/required/outputs.h"

#include <ATen/TensorIterator.h>
#include <ATen/core/TensorBase.h>
#include <ATen/native/CPUFallback.h>
#include <torch/library.h>

#include <array>
#include <initializer_list>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace openreg {

using Functions = std::initializer_list<LibraryFunction>;

/// Whether the driver has all functions, for the dtype.
bool offered(Functions functions, at::ScalarType dtype, c10::DeviceIndex device);

/// Registers a kernel for an operator, and records which functions it uses, for library_functions_of.
void add_library_op(torch::Library& m, const char* name, const char* overload, torch::CppFunction kernel,
                    Functions functions);

/// The functions of an operator; NULL if it is no library operator. The driver may lack them.
const std::vector<LibraryFunction>* library_functions_of(const c10::OperatorName& name);

namespace detail {

// The number of results of an operator.
template <typename T>
inline constexpr size_t kTupleSize = 1;
template <typename... T>
inline constexpr size_t kTupleSize<std::tuple<T...>> = sizeof...(T);

// Meta functions take references to optional arguments.
template <typename T>
const T& meta_argument(const T& argument) {
  return argument;
}
inline at::OptionalTensorRef meta_argument(const std::optional<at::Tensor>& argument) {
  return argument.has_value() && argument->defined() ? at::OptionalTensorRef(*argument)
                                                     : at::OptionalTensorRef();
}
inline at::OptionalScalarRef meta_argument(const std::optional<at::Scalar>& argument) {
  return argument.has_value() ? at::OptionalScalarRef(*argument) : at::OptionalScalarRef();
}

// A subclass of the class of a Meta function, with the outputs.
template <typename Meta, size_t Outputs, bool InPlace>
class MetaCall final : public Meta {
 public:
  explicit MetaCall(std::array<at::Tensor, Outputs> given) : outputs_(std::move(given)) {}

  void set_output_raw_strided(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options OR_NAMES_PARAMETER) override {
    at::Tensor& output = outputs_[static_cast<size_t>(index)];
    if (!output.defined()) {
      output = allocate_output(sizes, strides, options);
    } else if constexpr (InPlace) {
      check_in_place(output, sizes, options);
    } else {
      resize_given_output(output, sizes, strides, options);
    }
    if constexpr (std::is_base_of_v<at::TensorIteratorBase, Meta>) {
      Meta::set_output_raw_strided(index, sizes, strides, options OR_NAMES_ARGUMENT);
    }
  }
  const at::Tensor& maybe_get_output(int64_t index) override { return outputs_[static_cast<size_t>(index)]; }

  std::array<at::Tensor, Outputs>& outputs() { return outputs_; }

 private:
  std::array<at::Tensor, Outputs> outputs_;
};

template <typename Op, typename Meta, auto Launch, typename Schema = typename Op::schema>
struct StructuredKernel;

template <typename Op, typename Meta, auto Launch, typename Return, typename... Args>
struct StructuredKernel<Op, Meta, Launch, Return(Args...)> {
  static constexpr bool kFunctional =
      !(std::is_same_v<at::Tensor&, Args> || ...);  // else an argument is the output
  using Arguments = std::tuple<Args...>;
  static constexpr bool kInPlace =
      !kFunctional && std::is_same_v<std::tuple_element_t<0, Arguments>, at::Tensor&>;
  static constexpr size_t kOutputs = kTupleSize<Return>;
  static constexpr size_t kInputs = sizeof...(Args) - (kFunctional || kInPlace ? 0 : kOutputs);
  static constexpr size_t kFirstOutput = kInPlace ? 0 : kInputs;
  using Call = MetaCall<Meta, kOutputs, kInPlace>;
  using InputIndices = std::make_index_sequence<kInputs>;
  using OutputIndices = std::make_index_sequence<kOutputs>;

  static Return call(typename c10::remove_symint<Args>::type... args) {
    const OperatorCall noted(Op::name);
    const DispatchKeyGuard below;
    const auto all = std::tie(args...);
    Call call(given(all, OutputIndices()));
    if (C10_UNLIKELY(!run(call, all, InputIndices(), OutputIndices()))) {
      return at::native::call_fallback_fn<&fall_back, Op>::call(args...);
    }
    if constexpr (kFunctional) {
      return result(call, OutputIndices());
    } else {
      return outputs(all, OutputIndices());
    }
  }

 private:
  template <typename All, size_t... I>
  static std::array<at::Tensor, kOutputs> given(const All& all, std::index_sequence<I...>) {
    if constexpr (kFunctional) {
      return {};
    } else {
      return {std::get<kFirstOutput + I>(all)...};
    }
  }

  template <typename All, size_t... I, size_t... O>
  static bool run(Call& call, const All& all, std::index_sequence<I...>, std::index_sequence<O...>) {
    call.meta(meta_argument(std::get<I>(all))...);
    if constexpr (std::is_base_of_v<at::TensorIteratorBase, Meta>) {
      return Launch(static_cast<at::TensorIteratorBase&>(call), std::get<I>(all)...);
    } else {
      return Launch(std::get<I>(all)..., call.outputs()[O]...);
    }
  }

  template <size_t... O>
  static Return result(Call& call, std::index_sequence<O...>) {
    return Return(std::move(call.outputs()[O])...);
  }

  template <typename All, size_t... O>
  static Return outputs(const All& all, std::index_sequence<O...>) {
    if constexpr (kOutputs == 1) {
      return std::get<kFirstOutput>(all);
    } else {
      return Return(std::get<kFirstOutput + O>(all)...);
    }
  }
};

template <typename Op, auto Kernel, typename Schema = typename Op::schema>
struct PlainKernel;

template <typename Op, auto Kernel, typename Return, typename... Args>
struct PlainKernel<Op, Kernel, Return(Args...)> {
  static Return call(typename c10::remove_symint<Args>::type... args) {
    const OperatorCall noted(Op::name);
    const DispatchKeyGuard below;
    auto done = Kernel(args...);
    if (C10_UNLIKELY(!done)) {
      return at::native::call_fallback_fn<&fall_back, Op>::call(args...);
    }
    if constexpr (std::is_same_v<Return, at::Tensor&>) {
      // The output is the first argument of an in-place form, and the last one of an out form.
      constexpr bool kInPlace = std::is_same_v<std::tuple_element_t<0, std::tuple<Args...>>, at::Tensor&>;
      return std::get < kInPlace ? 0 : sizeof...(Args) - 1 > (std::tie(args...));
    } else {
      return std::move(*done);
    }
  }
};

}  // namespace detail

/// Registers forms of a structured operator; see Note [Library operators].
template <typename Meta, auto Launch, typename... Forms>
void structured_op(torch::Library& m, Functions functions) {
  (add_library_op(m, Forms::name, Forms::overload_name,
                  torch::CppFunction(&detail::StructuredKernel<Forms, Meta, Launch>::call), functions),
   ...);
}

/// Registers an operator that is not structured. The kernel returns a bool if the operator returns one of its
/// arguments, else an std::optional.
template <typename Op, auto Kernel>
void plain_op(torch::Library& m, Functions functions) {
  add_library_op(m, Op::name, Op::overload_name, torch::CppFunction(&detail::PlainKernel<Op, Kernel>::call),
                 functions);
}

}  // namespace openreg
