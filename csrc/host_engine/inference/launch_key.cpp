#include "host_engine/inference/launch_key.h"

#include "common/map_tensors.h"
#include "host_engine/ops/one_device.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>

namespace openreg {
namespace {

// Type tag of a value: the low byte of its first word.
enum Kind : int64_t {
  kNone,
  kUndefined,
  kDeviceTensor,
  kHostNumber,
  kInt,
  kDouble,
  kComplex,
  kBool,
  kInts,
  kDoubles,
  kBools,
  kTensors,
  kOptionalTensors,
  kNumbers,
  kDeviceValue,
  kText,
};

// Limits that decide whether an operator accepts a number: zero, the largest probability, and the ranges of
// the dtypes.
constexpr auto kLargest = std::to_array<double>({0, 1, 127, 128, 240, 255, 448, 32767, 32768, 57344, 65504,
                                                 65535, 2147483647, 2147483648, 4294967295, 9223372036e+9,
                                                 1844674407e+10, 3.3895313e+38, 3.4028235e+38});

// Process-wide settings that every call depends on: the default dtype, and the deterministic mode.
int64_t global_settings() {
  const at::Context& context = at::globalContext();
  return static_cast<int64_t>(c10::get_default_dtype_as_scalartype()) |
         (context.deterministicAlgorithms() ? 1 << 8 : 0) |
         (context.deterministicAlgorithmsWarnOnly() ? 1 << 9 : 0);
}

// Some kernels return results for backward only in grad mode.
int64_t grad_setting(const OpTraits& traits) {
  return traits.rules.has(OpFlag::kShapesFromKernel) && c10::GradMode::is_enabled() ? 1 << 10 : 0;
}

int64_t word(Kind kind, int64_t payload = 0) {
  return kind | (payload << 8);
}

// The sign and the width class (kLargest), which decide whether an operator accepts the number.
int64_t range_word(double value) {
  int64_t width = 0;
  for (const double largest : kLargest) {
    if (C10_LIKELY(std::abs(value) <= largest)) {
      break;
    }
    ++width;
  }
  return (value < 0 ? 1 : 0) | (width << 1);
}

// Numbers as words of a key. `value_independent`: the words hold only the ranges. A number that changes with
// every call then does not miss the cache every time.
int64_t number_word(double number, bool value_independent) {
  return value_independent ? range_word(number) : std::bit_cast<int64_t>(number);
}

int64_t number_word(int64_t number, bool value_independent) {
  return value_independent ? range_word(static_cast<double>(number)) : number;
}

}  // namespace

bool LaunchKey::read(const OpTraits& traits, const torch::jit::Stack& stack, int64_t largest_dim) {
  traits_ = &traits;
  largest_dim_ = largest_dim;
  device_ = -1;
  words_.clear();
  words_.push_back(reinterpret_cast<int64_t>(&traits));
  words_.push_back(global_settings() | grad_setting(traits));
  const size_t begin = stack.size() - traits.arguments;
  for (size_t i = 0; i < traits.arguments; ++i) {
    written_ = traits.written[i];
    if (!add(stack[begin + i], traits.value_independent[i])) {
      return false;
    }
  }
  if (C10_UNLIKELY(device_ < 0)) {
    if (traits.generator >= 0) {
      return false;  // random numbers need the device of a tensor or of a device argument
    }
    device_ = current_device();
  }
  add_hash();
  return true;
}

void LaunchKey::add_hash() {
  uint64_t hash = words_.size();
  for (const int64_t value : words_) {
    hash = (std::rotl(hash, 5) ^ static_cast<uint64_t>(value)) * 0x9E3779B97F4A7C15ull;
  }
  hash_ = hash ^ (hash >> 32);
}

bool LaunchKey::add(const at::Tensor& tensor) {
  if (!tensor.defined()) {
    words_.push_back(word(kUndefined));
    return true;
  }
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  const auto dtype = static_cast<int64_t>(tensor.scalar_type());
  const int64_t bits = dtype | (impl->is_wrapped_number() ? 1 << 8 : 0) | (impl->is_conj() ? 1 << 9 : 0) |
                       (impl->is_neg() ? 1 << 10 : 0) | (impl->dim() << 12);
  if (impl->device_type() != kDevice) {
    words_.push_back(word(kHostNumber, bits));
    const bool is_number = impl->device_type() == c10::kCPU && impl->dim() == 0 && !written_;
    if (is_number && !impl->is_wrapped_number()) {  // some kernels convert its value
      const c10::complex<double> value = tensor.item().toComplexDouble();
      words_.push_back(range_word(value.real()));
      words_.push_back(range_word(value.imag()));
    }
    return is_number;
  }
  if (C10_UNLIKELY(impl->key_set().has_any(
                       c10::DispatchKeySet({c10::DispatchKey::Sparse, c10::DispatchKey::SparseCsr,
                                            c10::DispatchKey::NestedTensor, c10::DispatchKey::Quantized})) ||
                   !impl->has_storage())) {
    return false;
  }
  note_device(device_, impl->device(), *traits_);
  words_.push_back(word(kDeviceTensor, bits));
  const at::IntArrayRef sizes = impl->sizes();
  const at::IntArrayRef strides = impl->strides();
  if (C10_UNLIKELY(std::ranges::any_of(sizes, [&](int64_t size) { return size > largest_dim_; }))) {
    for (const int64_t size : sizes) {
      words_.push_back(std::min(size, largest_dim_));
    }
    return true;
  }
  words_.insert(words_.end(), sizes.begin(), sizes.end());
  words_.insert(words_.end(), strides.begin(), strides.end());
  return true;
}

bool LaunchKey::add(const c10::IValue& value, bool value_independent) {
  if (value.isTensor()) {
    return add(value.toTensor());
  }
  if (value.isNone()) {
    words_.push_back(word(kNone));
  } else if (value.isInt()) {
    words_.push_back(word(kInt));
    words_.push_back(number_word(value.toInt(), value_independent));
  } else if (value.isDouble()) {
    words_.push_back(word(kDouble));
    words_.push_back(number_word(value.toDouble(), value_independent));
  } else if (value.isBool()) {
    words_.push_back(word(kBool, value_independent ? 0 : value.toBool()));
  } else if (value.isIntList()) {
    const auto list = value.toIntList();
    words_.push_back(word(kInts, static_cast<int64_t>(list.size())));
    for (const int64_t element : list) {
      words_.push_back(element);
    }
  } else if (value.isTensorList()) {
    const auto list = value.toTensorList();
    words_.push_back(word(kTensors, static_cast<int64_t>(list.size())));
    for (size_t i = 0; i < list.size(); ++i) {
      if (!add(list.get(i))) {
        return false;
      }
    }
  } else if (is_optional_tensor_list(value)) {
    words_.push_back(word(kOptionalTensors, static_cast<int64_t>(value.toListRef().size())));
    for (const c10::IValue& element : value.toListRef()) {
      if (!add(element.isTensor() ? element.toTensor() : at::Tensor())) {
        return false;
      }
    }
  } else if (value.isDevice()) {
    words_.push_back(word(kDeviceValue));
    if (value.toDevice().type() == kDevice) {
      note_device(device_, c10::Device(kDevice, resolve(value.toDevice())), *traits_);
    }
  } else if (value.isComplexDouble()) {
    words_.push_back(word(kComplex));
    words_.push_back(number_word(value.toComplexDouble().real(), value_independent));
    words_.push_back(number_word(value.toComplexDouble().imag(), value_independent));
  } else if (value.isBoolList()) {
    const auto list = value.toBoolList();
    words_.push_back(word(kBools, static_cast<int64_t>(list.size())));
    for (const bool element : list) {
      words_.push_back(element);
    }
  } else if (value.isDoubleList()) {
    const auto list = value.toDoubleList();
    words_.push_back(word(kDoubles, static_cast<int64_t>(list.size())));
    for (const double element : list) {
      words_.push_back(std::bit_cast<int64_t>(element));
    }
  } else if (value.isGenerator()) {
    words_.push_back(word(kNone));  // does not affect shapes
  } else if (value.isString()) {
    words_.push_back(word(kText));
    words_.push_back(static_cast<int64_t>(std::hash<std::string_view>()(value.toStringView())));
  } else if (value.isList()) {
    // Scalar lists of foreach operators: types decide dtypes; values do not matter.
    words_.push_back(word(kNumbers, static_cast<int64_t>(value.toListRef().size())));
    for (const c10::IValue& element : value.toListRef()) {
      if (!element.isScalar() || !add(element, true)) {
        return false;
      }
    }
  } else {
    return false;
  }
  return true;
}

}  // namespace openreg
