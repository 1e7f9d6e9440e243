// Device functions for torch: the number of devices and the calling thread's current device.
//
// Thread safety: all functions may be called from any thread. None opens a device.
#pragma once

#include "common/export.h"

#include <c10/core/Device.h>
#include <openreg/openreg.h>

#include <string>

namespace openreg {

inline constexpr c10::DeviceType kDevice = c10::DeviceType::PrivateUse1;

/// Size of per-device tables. The runtime refuses a driver with more devices.
inline constexpr int kMaxDevices = OR_MAX_DEVICES;

/// Whether the driver is one of this project's simulated devices, whose size is a setting.
bool is_simulated() noexcept;

/// The number of devices; 0 if the runtime returns an error.
OPENREG_EXPORT c10::DeviceIndex device_count() noexcept;

/// Throws the runtime's error, or RuntimeError if there is no device.
OPENREG_EXPORT void ensure_a_device();

/// Converts to torch's narrower index type. Throws AcceleratorError if there is no such device.
OPENREG_EXPORT c10::DeviceIndex checked_index(int index);

/// The current device of this thread.
OPENREG_EXPORT c10::DeviceIndex current_device();

/// Throws AcceleratorError if there is no such device.
OPENREG_EXPORT void set_device(c10::DeviceIndex index);

/// Sets the current device and returns the previous one.
OPENREG_EXPORT c10::DeviceIndex exchange_device(c10::DeviceIndex index);

/// As exchange_device; a negative index does not change the device.
OPENREG_EXPORT c10::DeviceIndex maybe_exchange_device(c10::DeviceIndex index);

/// `device` if it has an index, else the current device; throws if the index is out of range.
OPENREG_EXPORT c10::DeviceIndex resolve(c10::Device device);

/// Throws AcceleratorError if there is no such device.
OPENREG_EXPORT orDeviceProperties device_properties(int index);

/// Synchronizes all streams of the device. No effect if the device is not open.
OPENREG_EXPORT void synchronize_device(c10::DeviceIndex index);

/// Synchronizes all open devices, and writes kernel failures that were not reported yet to stderr. For
/// process exit.
OPENREG_EXPORT void finish_all_devices() noexcept;

/// Whether the device is open: its first use opens it.
OPENREG_EXPORT bool device_is_open(c10::DeviceIndex index);

/// Sets the current device for a scope. Costs one thread-local read if the device is already current.
class DeviceScope {
 public:
  explicit DeviceScope(c10::DeviceIndex index) : before_(exchange_device(index)), now_(index) {}
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  c10::DeviceIndex before_;
  c10::DeviceIndex now_;
};

}  // namespace openreg
