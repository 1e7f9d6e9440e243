#include "memory/storage_allocator.h"

#include "common/check.h"
#include "device/device.h"
#include "memory/device_allocator.h"
#include "memory/pool/pool.h"
#include "stream/checked_stream.h"
#include "stream/stream.h"

#include <memory>
#include <vector>

namespace openreg {
namespace {

class StorageAllocator final : public c10::Allocator {
 public:
  explicit StorageAllocator(c10::DeviceIndex device) : device_(device) {}

  c10::DataPtr allocate(size_t bytes) override {
    const DeviceScope scope(device_);
    return device_allocator().allocate(bytes);
  }

  bool is_simple_data_ptr(const c10::DataPtr& data) const override {
    return device_allocator().is_simple_data_ptr(data);
  }

  // Materializes a copy-on-write storage, on the current stream. The other owners of the source memory do not
  // synchronize with this stream, so record the stream on the source block.
  void copy_data(void* dst, const void* src, size_t bytes) const override {
    const DeviceScope scope(device_);
    const c10::Stream stream = current_stream(device_);
    if (C10_UNLIKELY(races::on())) {
      declare_copy(dst, src, bytes, stream, "copy of a copy-on-write tensor");
    }
    OR_CHECK(orMemcpyAsync(dst, src, bytes, orMemcpyDeviceToDevice, stream_handle(stream)));
    if (Block* read = block_at(const_cast<void*>(src))) {
      pool_of(device_).record_stream(read, stream);
    }
  }

 private:
  const c10::DeviceIndex device_;
};

}  // namespace

c10::Allocator& storage_allocator(c10::DeviceIndex device) {
  static auto* allocators = [] {
    auto* made = new std::vector<std::unique_ptr<StorageAllocator>>();
    for (int i = 0; i < kMaxDevices; ++i) {
      made->push_back(std::make_unique<StorageAllocator>(static_cast<c10::DeviceIndex>(i)));
    }
    return made;
  }();
  return *(*allocators)[static_cast<size_t>(device)];
}

}  // namespace openreg
