// PyTorch's hooks for a device, for queries without a tensor: availability, pinned pointers, storage resize.
// Registered once, when the library is loaded.
#include "common/check.h"
#include "common/fork.h"
#include "device/device.h"
#include "memory/host_allocator.h"
#include "random/generator.h"
#include "storage/resize.h"

#include <ATen/Context.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>

namespace openreg {
namespace {

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return device_count() > 0; }
  void init() const override { ensure_a_device(); }
  bool hasPrimaryContext(c10::DeviceIndex device) const override { return device_is_open(device); }

  c10::DeviceIndex deviceCount() const override { return device_count(); }
  void setCurrentDevice(c10::DeviceIndex device) const override { set_device(device); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override { return exchange_device(device); }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return maybe_exchange_device(device);
  }

  c10::Device getDeviceFromPtr(void* data) const override {
    orPointerAttributes attributes{};
    attributes.struct_size = sizeof(attributes);
    OR_CHECK(orPointerGetAttributes(&attributes, data));
    TORCH_CHECK(attributes.type == orMemoryTypeDevice, "the pointer ", data, " is not ", orGetDeviceName(),
                " memory");
    return c10::Device(kDevice, static_cast<c10::DeviceIndex>(attributes.device));
  }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override {
    return default_generator(device < 0 ? current_device() : device);
  }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override {
    return at::make_generator<Generator>(device < 0 ? current_device() : checked_index(device));
  }

  // On a machine with a CUDA GPU, pin_memory=True allocates from CUDA's host allocator, whatever the
  // accelerator is; see GetCPUAllocatorMaybePinned. That memory is pinned, but copies of this device treat it
  // as pageable. In a forked child no memory is pinned.
  bool isPinnedPtr(const void* data) const override {
    return !in_forked_child() && (is_pinned(data) || at::globalContext().isPinnedPtr(data, c10::kCUDA));
  }
  at::Allocator* getPinnedMemoryAllocator() const override { return &host_allocator(); }

  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize_storage(storage.unsafeGetStorageImpl(), bytes);
  }
};

[[maybe_unused]] const bool registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  return true;
}();

}  // namespace
}  // namespace openreg
