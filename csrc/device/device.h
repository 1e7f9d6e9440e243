// Devices as torch knows them: how many there are and which one is the calling thread's current one.
//
// All functions may be called from any thread. None opens a device.
#pragma once

#include "common/export.h"

#include <c10/core/Device.h>
#include <openreg/openreg.h>

#include <string>

namespace openreg {

inline constexpr c10::DeviceType kDevice = c10::DeviceType::PrivateUse1;

/// Tables with a row for each device have this many; devices beyond are not counted.
inline constexpr int kMaxDevices = 64;

/// The number of devices; 0 if the runtime cannot say. Never throws.
OPENREG_EXPORT c10::DeviceIndex device_count() noexcept;

/// Throws what the runtime says, and if there is no device.
OPENREG_EXPORT void ensure_a_device();

/// The index as torch's type, which is narrower. Throws AcceleratorError if there is no such device.
OPENREG_EXPORT c10::DeviceIndex checked_index(int index);

/// The current device of this thread.
OPENREG_EXPORT c10::DeviceIndex current_device();

/// Throws AcceleratorError if there is no such device.
OPENREG_EXPORT void set_device(c10::DeviceIndex index);

/// Sets the current device and returns the one before.
OPENREG_EXPORT c10::DeviceIndex exchange_device(c10::DeviceIndex index);

/// As exchange_device; a negative index leaves the device as it is.
OPENREG_EXPORT c10::DeviceIndex maybe_exchange_device(c10::DeviceIndex index);

/// `device` if it has an index, else the current device; throws if the index is out of range.
OPENREG_EXPORT c10::DeviceIndex resolve(c10::Device device);

/// Throws AcceleratorError if there is no such device.
OPENREG_EXPORT orDeviceProperties device_properties(int index);

/// Waits for all streams of the device. A device that nothing has used has nothing to wait for.
OPENREG_EXPORT void synchronize_device(c10::DeviceIndex index);

/// Waits for all devices that something has used, and writes the failures that nobody was told of to stderr:
/// for the end of the process.
OPENREG_EXPORT void finish_all_devices() noexcept;

/// True if something has used the device.
OPENREG_EXPORT bool device_is_open(c10::DeviceIndex index);

/// Sets the current device for a scope. Costs one thread-local read if it is the current one already.
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
