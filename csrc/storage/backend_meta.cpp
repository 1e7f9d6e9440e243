#include "storage/backend_meta.h"

#include "device/device.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/serialization/pickler_helper.h>

#include <utility>

namespace openreg {
namespace {

// Immutable, so that tensors can share it.
struct Flags final : c10::BackendMeta {
  explicit Flags(BackendFlags all) : all(std::move(all)) {}
  const BackendFlags all;
};

const Flags* flags_of(const at::TensorBase& tensor) {
  return dynamic_cast<const Flags*>(tensor.unsafeGetTensorImpl()->get_backend_meta());
}

void save(const at::Tensor& tensor, BackendFlags& saved) {
  if (const Flags* flags = flags_of(tensor)) {
    saved.insert(flags->all.begin(), flags->all.end());
  }
}

// PyTorch has already removed its own entries.
void load(const at::Tensor& tensor, BackendFlags& saved) {
  if (!saved.empty()) {
    set_backend_flags(tensor, saved);
  }
}

[[maybe_unused]] const bool registered = [] {
  torch::jit::TensorBackendMetaRegistry(kDevice, save, load);
  return true;
}();

}  // namespace

BackendFlags backend_flags(const at::TensorBase& tensor) {
  const Flags* flags = flags_of(tensor);
  return flags == nullptr ? BackendFlags() : flags->all;
}

void set_backend_flags(const at::TensorBase& tensor, BackendFlags flags) {
  TORCH_CHECK_VALUE(tensor.device().type() == kDevice, "backend metadata requires a ", orGetDeviceName(),
                    " tensor, but got a tensor on ", tensor.device());
  for (const char* reserved : {"conj", "neg"}) {
    TORCH_CHECK_VALUE(flags.count(reserved) == 0, "'", reserved,
                      "' is reserved by PyTorch's serialization; use another name");
  }
  c10::intrusive_ptr<c10::BackendMeta> meta;
  if (!flags.empty()) {
    meta = c10::make_intrusive<Flags>(std::move(flags));
  }
  tensor.unsafeGetTensorImpl()->set_backend_meta(std::move(meta));
}

}  // namespace openreg
