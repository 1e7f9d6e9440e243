#include "operators/examples/loop.h"

#include "diagnostics/tensor_access.h"
#include "memory/kernel_view.h"

#include <cstring>

namespace openreg {

Loop::Loop(const at::TensorIteratorBase& iter) : sizes_(iter.shape().begin(), iter.shape().end()) {
  for (int i = 0; i < iter.ntensors(); ++i) {
    if (C10_UNLIKELY(races::on())) {
      collect_access(iter.tensor(i), i < iter.noutputs());
    }
    Operand& operand = operands_.emplace_back();
    operand.dtype = iter.tensor_base(i).scalar_type();
    operand.strides.assign(iter.strides(i).begin(), iter.strides(i).end());
    if (iter.is_cpu_scalar(i)) {
      std::memcpy(operand.number.data(), iter.data_ptr(i), iter.tensor_base(i).element_size());
    } else {
      check_has_memory(*iter.tensor_base(i).unsafeGetTensorImpl());
      operand.data = static_cast<char*>(kernel_view(iter.data_ptr(i)));
    }
  }
}

Loop::Pointers Loop::first_elements() const {
  Pointers pointers;
  for (const Operand& operand : operands_) {
    pointers.push_back(operand.data != nullptr ? operand.data : const_cast<char*>(operand.number.data()));
  }
  return pointers;
}

Loop Loop::part(bool reduced) const {
  Loop part;
  part.operands_ = operands_;
  for (Operand& operand : part.operands_) {
    operand.strides.clear();
  }
  for (size_t dim = 0; dim < sizes_.size(); ++dim) {
    if ((operands_[0].strides[dim] == 0) == reduced) {
      part.sizes_.push_back(sizes_[dim]);
      for (size_t i = 0; i < operands_.size(); ++i) {
        part.operands_[i].strides.push_back(operands_[i].strides[dim]);
      }
    }
  }
  return part;
}

}  // namespace openreg
