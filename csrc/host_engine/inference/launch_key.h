// Key of the launch cache: the operator, and the sizes, strides, dtypes and integers of its arguments. Two
// calls with equal keys have results of equal shapes.
#pragma once

#include "host_engine/ops/op_traits.h"

#include <ATen/core/stack.h>

#include <cstdint>
#include <limits>
#include <vector>

namespace openreg {

class LaunchKey {
 public:
  /// Makes the key of the arguments at the end of the stack. Returns false if a launch does not support one
  /// of them: the call must then run synchronously. Throws if tensors are on different devices. Dimensions
  /// are cut to `largest_dim`; the key of a tensor with a cut dimension has no strides.
  bool read(const OpTraits& traits, const torch::jit::Stack& stack,
            int64_t largest_dim = std::numeric_limits<int64_t>::max());

  const std::vector<int64_t>& words() const { return words_; }
  uint64_t hash() const { return hash_; }
  /// The device of the arguments, or the current device if none of them has one.
  c10::DeviceIndex device() const { return device_; }

 private:
  bool add(const c10::IValue& value, bool value_independent);
  bool add(const at::Tensor& tensor);
  void add_hash();

  std::vector<int64_t> words_;
  uint64_t hash_ = 0;
  const OpTraits* traits_ = nullptr;
  bool written_ = false;  // the operator writes the current argument, which rules out a host tensor
  c10::DeviceIndex device_ = -1;
  int64_t largest_dim_ = std::numeric_limits<int64_t>::max();
};

}  // namespace openreg
