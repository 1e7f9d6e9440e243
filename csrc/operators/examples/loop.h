// The part of a TensorIterator that a launched kernel needs: sizes, strides, dtypes and addresses.
//
// PyTorch passes a TensorIterator to elementwise and reduction kernels. It has broadcast the operands,
// promoted the dtypes, checked the devices and allocated the output. It lives on the caller's stack, and a
// launched kernel may run after the caller has returned. A Loop is a copy of the part that the kernel needs.
// It holds kernel-view addresses and owns no memory, so it can be copied into a launch and run on any thread.
//
// Operands are in the iterator's order, outputs first. On a device other than the CPU an iterator does not
// convert dtypes: an operand has the dtype of its tensor, and a scalar may be in host memory. map converts on
// load and store where the types differ. The bytes of a host scalar are copied into the Loop. A bool in
// memory may be any byte, as in `torch.uint8` data viewed as `torch.bool`, so elements are read with
// c10::load.
#pragma once

#include <ATen/TensorIterator.h>
#include <c10/core/DynamicCast.h>
#include <c10/util/Load.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <array>
#include <utility>

namespace openreg {

struct Operand {
  char* data = nullptr;  // kernel-view address; NULL for a host scalar, which is in `number`
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  c10::SmallVector<int64_t, 4> strides;  // in bytes, innermost dimension first
  alignas(16) std::array<char, 16> number{};
};

class Loop {
 public:
  explicit Loop(const at::TensorIteratorBase& iter);

  /// Calls body(pointers, strides, length) for each run along the innermost dimension, with the address of
  /// the first element and the stride in bytes for each operand.
  template <typename Body>
  void for_each_run(Body body) const;

  /// Writes function(inputs...) to the single output, for each element. Converts from and to the tensors'
  /// dtypes.
  template <typename Out, typename... In, typename Function>
  void map(Function function) const;

  /// Reduces one input along the dimensions in which the output has stride 0.
  template <typename T, typename Accumulator, typename Combine>
  void reduce(Accumulator initial, Combine combine) const;

 private:
  using Pointers = c10::SmallVector<char*, 4>;

  Loop() = default;
  Pointers first_elements() const;
  /// A Loop over the reduced dimensions (output stride 0), or over the others.
  Loop part(bool reduced) const;
  template <typename Body>
  void for_each_run(Pointers pointers, Body body) const;

  c10::SmallVector<int64_t, 4> sizes_;  // innermost first
  c10::SmallVector<Operand, 3> operands_;
};

template <typename Body>
void Loop::for_each_run(Body body) const {
  for_each_run(first_elements(), body);
}

template <typename Body>
void Loop::for_each_run(Pointers pointers, Body body) const {
  c10::SmallVector<int64_t, 4> strides;
  for (const Operand& operand : operands_) {
    strides.push_back(operand.strides.empty() ? 0 : operand.strides[0]);
  }
  c10::SmallVector<int64_t, 4> index(sizes_.size(), 0);
  while (true) {
    body(pointers, strides, sizes_.empty() ? 1 : sizes_[0]);
    size_t dim = 1;
    for (; dim < sizes_.size(); ++dim) {
      const bool wraps = ++index[dim] == sizes_[dim];
      const int64_t steps = wraps ? 1 - sizes_[dim] : 1;
      for (size_t i = 0; i < operands_.size(); ++i) {
        pointers[i] += steps * operands_[i].strides[dim];
      }
      if (!wraps) {
        break;
      }
      index[dim] = 0;
    }
    if (dim >= sizes_.size()) {
      return;
    }
  }
}

template <typename Out, typename... In, typename Function>
void Loop::map(Function function) const {
  const auto run = [&]<size_t... I>(std::index_sequence<I...>) {
    const bool same_types = operands_[0].dtype == c10::CppTypeToScalarType<Out>::value &&
                            ((operands_[I + 1].dtype == c10::CppTypeToScalarType<In>::value) && ...);
    for_each_run([&](const Pointers& data, const auto& strides, int64_t length) {
      if (same_types && strides[0] == sizeof(Out) && ((strides[I + 1] == sizeof(In)) && ...)) {
        Out* const out = reinterpret_cast<Out*>(data[0]);
        for (int64_t k = 0; k < length; ++k) {  // vectorized by the compiler
          out[k] = function(c10::load(reinterpret_cast<const In*>(data[I + 1]) + k)...);
        }
      } else if (same_types) {
        for (int64_t k = 0; k < length; ++k) {
          *reinterpret_cast<Out*>(data[0] + k * strides[0]) =
              function(c10::load<In>(data[I + 1] + k * strides[I + 1])...);
        }
      } else {
        for (int64_t k = 0; k < length; ++k) {
          c10::cast_and_store<Out>(
              operands_[0].dtype, data[0] + k * strides[0],
              function(c10::fetch_and_cast<In>(operands_[I + 1].dtype, data[I + 1] + k * strides[I + 1])...));
        }
      }
    });
  };
  run(std::index_sequence_for<In...>());
}

template <typename T, typename Accumulator, typename Combine>
void Loop::reduce(Accumulator initial, Combine combine) const {
  // Results that are accumulated together, so that input reads stay sequential.
  constexpr int64_t kBlock = 256;
  const Loop results = part(/*reduced=*/false);
  const Loop elements = part(/*reduced=*/true);
  results.for_each_run([&](const Pointers& data, const auto& strides, int64_t length) {
    for (int64_t first = 0; first < length; first += kBlock) {
      const int64_t block = std::min(kBlock, length - first);
      std::array<Accumulator, kBlock> totals;
      totals.fill(initial);
      const Pointers start{data[0] + first * strides[0], data[1] + first * strides[1]};
      elements.for_each_run(start, [&](const Pointers& from, const auto& step, int64_t count) {
        const auto add = [&](int64_t j, int64_t k) {
          totals[k] = combine(totals[k], c10::load<T>(from[1] + j * step[1] + k * strides[1]));
        };
        if (step[1] < strides[1]) {
          for (int64_t k = 0; k < block; ++k) {
            for (int64_t j = 0; j < count; ++j) {
              add(j, k);
            }
          }
        } else {
          for (int64_t j = 0; j < count; ++j) {
            for (int64_t k = 0; k < block; ++k) {
              add(j, k);
            }
          }
        }
      });
      for (int64_t k = 0; k < block; ++k) {
        *reinterpret_cast<T*>(start[0] + k * strides[0]) = static_cast<T>(totals[k]);
      }
    }
  });
}

}  // namespace openreg
