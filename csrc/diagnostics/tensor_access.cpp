#include "diagnostics/tensor_access.h"

#include "common/map_tensors.h"
#include "device/on_device.h"
#include "diagnostics/watched_launch.h"
#include "layouts/composite.h"
#include "memory/host_allocator.h"
#include "memory_check/memory_check.h"
#include "stream/checked_stream.h"

namespace openreg {
namespace {

using Accesses = c10::SmallVector<races::Access, 6>;

constexpr const char* kCopy = "aten::copy_";

thread_local int scopes = 0;
thread_local Accesses collected;

void add(const at::Tensor& tensor, bool write, Accesses* accesses) {
  if (C10_UNLIKELY(is_composite(tensor))) {
    map_components(tensor, [&](const at::Tensor& part) {
      if (on_device(part)) {
        add(part, write, accesses);
      }
      return part;
    });
    return;
  }
  races::Access access;
  if (make_access(tensor, write, &access)) {
    accesses->push_back(std::move(access));
  }
}

}  // namespace

bool start_memory_check(size_t quarantine) {
  return memory_check::start({quarantine, &site_of_call});
}

bool make_access(const at::Tensor& tensor, bool write, races::Access* access) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (!impl->has_storage() || impl->numel() == 0) {
    return false;
  }
  const c10::StorageImpl* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  const auto base = reinterpret_cast<uintptr_t>(storage->data());
  if (base == 0) {
    return false;
  }
  const auto sizes = impl->sizes();
  const auto strides = impl->strides();
  const size_t offset = static_cast<size_t>(impl->storage_offset()) * impl->itemsize();
  return races::make_access(base + offset, {sizes.data(), sizes.size()}, {strides.data(), strides.size()},
                            impl->itemsize(), base, storage->nbytes(), write, access);
}

void declare_copy(const at::Tensor& dst, const at::Tensor& src, c10::Stream stream) {
  Accesses accesses;
  for (const auto& [tensor, write] : {std::pair(&src, false), std::pair(&dst, true)}) {
    if (!on_device(*tensor)) {
      if (!tensor->is_cpu() || !is_pinned(tensor->const_data_ptr())) {
        continue;
      }
      if (!races::any_pinned()) {
        watch_host_accesses();
      }
    }
    add(*tensor, write, &accesses);
  }
  races::access(races::launch(checked_stream(stream), kCopy, call_site()), accesses);
}

void collect_access(const at::Tensor& tensor, bool write) {
  if (scopes == 0 && on_device(tensor)) {
    add(tensor, write, &collected);
  }
}

void launch_collected(const char* name, c10::Stream stream) {
  const Accesses accesses = std::exchange(collected, {});
  if (!accesses.empty()) {
    races::access(races::launch(checked_stream(stream), name, site_of_call()), accesses);
  }
}

TensorAccessScope::TensorAccessScope() : site_(site_of_call()) {
  ++scopes;
  collected.clear();
}

TensorAccessScope::TensorAccessScope(const c10::OperatorHandle& op, const OpDescription& op_info,
                                     const torch::jit::Stack* stack, bool synchronizes)
    : site_(site_of_call()), op_info_(&op_info), stack_(stack), synchronizes_(synchronizes) {
  ++scopes;
  collected.clear();
  if (op_info.is_view) {
    return;
  }
  const auto& arguments = op.schema().arguments();
  const size_t begin = stack->size() - op_info.arguments;
  for (size_t i = 0; i < op_info.arguments; ++i) {
    const c10::AliasInfo* alias = arguments[i].alias_info();
    for_each_tensor((*stack)[begin + i], [&](const at::Tensor& tensor) {
      if (tensor.defined() && on_device(tensor)) {
        if (!stream_.has_value()) {
          stream_ = current_stream(tensor.device().index());
        }
        add(tensor, alias != nullptr && alias->isWrite(), &accesses_);
      }
    });
  }
}

void TensorAccessScope::finish() {
  if (op_info_ == nullptr || op_info_->is_view) {
    return;
  }
  for (size_t i = 1; i <= op_info_->results; ++i) {
    for_each_tensor((*stack_)[stack_->size() - i], [&](const at::Tensor& tensor) {
      if (tensor.defined() && on_device(tensor)) {
        if (!stream_.has_value()) {
          stream_ = current_stream(tensor.device().index());
        }
        add(tensor, true, &accesses_);
      }
    });
  }
  if (!stream_.has_value()) {
    return;
  }
  const races::Stream stream = checked_stream(*stream_);
  races::access(races::launch(stream, op_info_->name.c_str(), call_site()), accesses_);
  if (synchronizes_) {
    races::host_waited_for_stream(stream);
  }
}

TensorAccessScope::~TensorAccessScope() {
  --scopes;
}

}  // namespace openreg
