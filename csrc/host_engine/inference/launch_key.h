// What decides the shapes of an operator's results: the operator, and of its arguments the sizes, strides,
// dtypes and integers. Two calls with equal keys have results of equal shapes.
#pragma once

#include "host_engine/ops/op_traits.h"

#include <ATen/core/stack.h>

#include <cstdint>
#include <limits>
#include <vector>

namespace openreg {

class LaunchKey {
 public:
  /// Reads the last arguments of the stack. Returns false if there is something among them that a launch
  /// cannot take: the call then has to wait. Throws if tensors are on different devices.
  /// Dimensions count up to `largest_dim`; strides do not count if that cuts anything.
  bool read(const OpTraits& traits, const torch::jit::Stack& stack,
            int64_t largest_dim = std::numeric_limits<int64_t>::max());

  const std::vector<int64_t>& words() const { return words_; }
  uint64_t hash() const { return hash_; }
  /// The device of the arguments; -1 if there is none among them.
  c10::DeviceIndex device() const { return device_; }

 private:
  bool add(const c10::IValue& value, bool by_kind);
  bool add(const at::Tensor& tensor);
  void add_hash();

  std::vector<int64_t> words_;
  uint64_t hash_ = 0;
  const OpTraits* traits_ = nullptr;
  bool written_ = false;  // the argument that is being read is: a host tensor cannot be, later
  c10::DeviceIndex device_ = -1;
  int64_t largest_dim_ = std::numeric_limits<int64_t>::max();
};

}  // namespace openreg
