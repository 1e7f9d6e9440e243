#include "storage/backend_meta.h"

#include "device/device.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/serialization/pickler_helper.h>

#include <utility>

namespace openreg {
namespace {

// Never changed once a tensor has it, so that tensors can have one in common.
struct Marks final : c10::BackendMeta {
  explicit Marks(BackendMarks all) : all(std::move(all)) {}
  const BackendMarks all;
};

const Marks* marks_of(const at::TensorBase& tensor) {
  return dynamic_cast<const Marks*>(tensor.unsafeGetTensorImpl()->get_backend_meta());
}

void save(const at::Tensor& tensor, BackendMarks& saved) {
  if (const Marks* marks = marks_of(tensor)) {
    saved.insert(marks->all.begin(), marks->all.end());
  }
}

// PyTorch has taken out what is its own.
void load(const at::Tensor& tensor, BackendMarks& saved) {
  if (!saved.empty()) {
    set_backend_marks(tensor, saved);
  }
}

[[maybe_unused]] const bool registered = [] {
  torch::jit::TensorBackendMetaRegistry(kDevice, save, load);
  return true;
}();

}  // namespace

BackendMarks backend_marks(const at::TensorBase& tensor) {
  const Marks* marks = marks_of(tensor);
  return marks == nullptr ? BackendMarks() : marks->all;
}

void set_backend_marks(const at::TensorBase& tensor, BackendMarks marks) {
  TORCH_CHECK_VALUE(tensor.device().type() == kDevice, "backend metadata belongs to tensors of ",
                    OR_DEVICE_NAME, "; this one is on ", tensor.device());
  for (const char* taken : {"conj", "neg"}) {
    TORCH_CHECK_VALUE(marks.count(taken) == 0, "'", taken,
                      "' is a name under which PyTorch saves something of its own; use another");
  }
  c10::intrusive_ptr<c10::BackendMeta> meta;
  if (!marks.empty()) {
    meta = c10::make_intrusive<Marks>(std::move(marks));
  }
  tensor.unsafeGetTensorImpl()->set_backend_meta(std::move(meta));
}

}  // namespace openreg
