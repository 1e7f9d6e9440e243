// The storage class of the device: PyTorch's StorageImpl with data of the backend.
//
// Here that is a name, which a program may set and which error messages contain. A chip would add what it
// needs to read the bytes, such as their packing format.
//
// A storage belongs to its tensors; its members have the same thread safety.
#pragma once

#include "common/export.h"

#include <c10/core/Storage.h>
#include <c10/core/StorageImpl.h>

#include <memory>
#include <string>

namespace openreg {

class DeviceStorage final : public c10::StorageImpl {
 public:
  using c10::StorageImpl::StorageImpl;

  std::string name() const { return name_ ? *name_ : std::string(); }
  void set_name(std::string name) { name_ = std::make_unique<std::string>(std::move(name)); }

 private:
  std::unique_ptr<std::string> name_;  // rarely set
};

/// Creates a DeviceStorage over the memory.
c10::Storage make_storage(c10::DataPtr data, size_t bytes, bool resizable = true);

/// The name that the program has set; empty if there is none, or if it is not a DeviceStorage.
OPENREG_EXPORT std::string storage_name(const c10::Storage& storage);
OPENREG_EXPORT void set_storage_name(const c10::Storage& storage, std::string name);

/// " 'name'", for error messages; empty without a name.
std::string quoted_name(const c10::StorageImpl& storage);

}  // namespace openreg
