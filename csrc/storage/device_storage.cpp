#include "storage/device_storage.h"

#include "device/device.h"
#include "memory/device_allocator.h"
#include "memory/storage_allocator.h"

#include <c10/util/Exception.h>

#include <utility>

namespace openreg {
namespace {

// PyTorch creates storages of the device with this function: for new tensors, torch.UntypedStorage and lazy
// clones. Without `data`, the storage allocates. Allocators other than the device allocator are kept.
c10::intrusive_ptr<c10::StorageImpl> create(c10::StorageImpl::use_byte_size_t, c10::SymInt bytes,
                                            c10::DataPtr data, c10::Allocator* allocator, bool resizable) {
  auto storage = data == nullptr ? c10::make_intrusive<DeviceStorage>(c10::StorageImpl::use_byte_size_t(),
                                                                      std::move(bytes), allocator, resizable)
                                 : c10::make_intrusive<DeviceStorage>(c10::StorageImpl::use_byte_size_t(),
                                                                      std::move(bytes), std::move(data),
                                                                      allocator, resizable);
  if (allocator == &device_allocator()) {
    storage->set_allocator(&storage_allocator(storage->device().index()));
  }
  return storage;
}

[[maybe_unused]] const bool registered = [] {
  c10::SetStorageImplCreate(kDevice, &create);
  return true;
}();

}  // namespace

c10::Storage make_storage(c10::DataPtr data, size_t bytes, bool resizable) {
  c10::Allocator& allocator = storage_allocator(data.device().index());
  return c10::Storage(c10::make_intrusive<DeviceStorage>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                         std::move(data), &allocator, resizable));
}

std::string storage_name(const c10::Storage& storage) {
  const auto* device_storage = dynamic_cast<const DeviceStorage*>(storage.unsafeGetStorageImpl());
  return device_storage == nullptr ? std::string() : device_storage->name();
}

void set_storage_name(const c10::Storage& storage, std::string name) {
  auto* device_storage = dynamic_cast<DeviceStorage*>(storage.unsafeGetStorageImpl());
  TORCH_CHECK_VALUE(device_storage != nullptr, "only storages that the ", orGetDeviceName(),
                    " backend created have a name; this storage is on ", storage.device());
  device_storage->set_name(std::move(name));
}

std::string quoted_name(const c10::StorageImpl& storage) {
  const auto* device_storage = dynamic_cast<const DeviceStorage*>(&storage);
  return device_storage == nullptr || device_storage->name().empty() ? std::string()
                                                                     : " '" + device_storage->name() + "'";
}

}  // namespace openreg
