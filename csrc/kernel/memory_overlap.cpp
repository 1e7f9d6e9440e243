#include "kernel/memory_overlap.h"

namespace openreg {

bool overlaps_itself(const at::Tensor& written) {
  return at::has_internal_overlap(written.unsafeGetTensorImpl()) == at::MemOverlap::Yes;
}

at::MemOverlapStatus overlap_status(const at::Tensor& written, const at::Tensor& other) {
  const c10::TensorImpl* a = written.unsafeGetTensorImpl();
  const c10::TensorImpl* b = other.unsafeGetTensorImpl();
  return a->unsafe_storage().unsafeGetStorageImpl() == b->unsafe_storage().unsafeGetStorageImpl()
             ? at::get_overlap_status(a, b)
             : at::MemOverlapStatus::No;
}

}  // namespace openreg
