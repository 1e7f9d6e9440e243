// The device's own kind of storage: PyTorch's, with what this backend wants to know of one.
//
// Ours has a name, which a program gives to memory that matters, and which the words of errors repeat. A chip
// would put here what it must know to read the bytes, such as the format in which they are packed.
//
// A storage belongs to its tensors: its members are read and changed as theirs are.
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
  std::unique_ptr<std::string> name_;  // few have one
};

/// A storage of ours over the memory.
c10::Storage make_storage(c10::DataPtr data, size_t bytes, bool resizable = true);

/// What the program has called the storage; nothing if it was given no name, or is not of ours.
OPENREG_EXPORT std::string storage_name(const c10::Storage& storage);
OPENREG_EXPORT void set_storage_name(const c10::Storage& storage, std::string name);

/// " 'name'", for sentences about a storage; nothing for one without.
std::string in_quotes(const c10::StorageImpl& storage);

}  // namespace openreg
