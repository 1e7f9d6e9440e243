// Overlap of a kernel's output with itself or with an input. The tensors are dense and on the device.
#pragma once

#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>

namespace openreg {

bool overlaps_itself(const at::Tensor& written);

/// How the memory of two tensors overlaps.
at::MemOverlapStatus overlap_status(const at::Tensor& written, const at::Tensor& other);

inline bool overlaps_partly(const at::Tensor& written, const at::Tensor& other) {
  return overlap_status(written, other) == at::MemOverlapStatus::Partial;
}

}  // namespace openreg
