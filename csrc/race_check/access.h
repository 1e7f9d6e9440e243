// The bytes that one launch accesses in one tensor.
//
// Thread safety: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace openreg::races {

/// Runs of bytes at regular distances, for tensors with gaps. The outermost dimension is first; runs of
/// different indices do not overlap.
struct Geometry {
  struct Dimension {
    uintptr_t count;
    uintptr_t stride;  // in bytes
    bool operator==(const Dimension&) const = default;
  };
  std::vector<Dimension> dimensions;
  uintptr_t run;  // bytes of one run

  bool operator==(const Geometry&) const = default;
};

/// A tensor access. `geometry` is NULL if the tensor has no gaps.
struct Access {
  uintptr_t begin;
  uintptr_t end;
  uintptr_t storage_begin;  // the storage that contains the tensor
  uintptr_t storage_end;
  bool write;
  std::shared_ptr<const Geometry> geometry;
};

/// The access to a tensor at `data`. `strides` are in elements, and not negative. Returns false for a tensor
/// without elements.
bool make_access(uintptr_t data, std::span<const int64_t> sizes, std::span<const int64_t> strides,
                 size_t itemsize, uintptr_t storage, size_t storage_bytes, bool write, Access* access);

/// Whether every byte of `inner` is in `outer`. False if that is not obvious.
bool covers(const Access& outer, const Access& inner);

/// Whether the two have a byte in common. False if that takes too long to find out.
bool overlap(const Access& a, const Access& b);

}  // namespace openreg::races
