#include "device/device.h"

#include "common/check.h"
#include "common/gil_release.h"
#include "race_check/race_check.h"

#include <cstdio>
#include <string_view>

namespace openreg {
namespace {

constexpr int kMostReports = 1000;

}  // namespace

bool is_simulated() noexcept {
  orDriverInfo info{};
  info.struct_size = sizeof(info);
  if (orGetDriverInfo(&info) != orSuccess) {
    return false;
  }
  const std::string_view name = info.name;
  return name == "sim" || name == "discrete";
}

c10::DeviceIndex device_count() noexcept {
  int count = 0;
  return orGetDeviceCount(&count) == orSuccess ? static_cast<c10::DeviceIndex>(count) : 0;
}

void ensure_a_device() {
  int count = 0;
  OR_CHECK(orGetDeviceCount(&count));
  TORCH_CHECK(count > 0, "No ", orGetDeviceName(), " GPUs are available: the driver reports 0 devices");
}

c10::DeviceIndex checked_index(int index) {
  device_properties(index);
  return static_cast<c10::DeviceIndex>(index);
}

c10::DeviceIndex current_device() {
  int index = 0;
  OR_CHECK(orGetDevice(&index));
  return static_cast<c10::DeviceIndex>(index);
}

void set_device(c10::DeviceIndex index) {
  OR_CHECK(orSetDevice(index));
}

c10::DeviceIndex exchange_device(c10::DeviceIndex index) {
  const c10::DeviceIndex before = current_device();
  if (before != index) {
    set_device(index);
  }
  return before;
}

c10::DeviceIndex maybe_exchange_device(c10::DeviceIndex index) {
  return index < 0 ? current_device() : exchange_device(index);
}

c10::DeviceIndex resolve(c10::Device device) {
  TORCH_CHECK_VALUE(device.type() == kDevice, "Expected a ", orGetDeviceName(),
                    " device, but got: ", device.str());
  if (!device.has_index()) {
    return current_device();
  }
  return checked_index(device.index());
}

orDeviceProperties device_properties(int index) {
  orDeviceProperties properties{};
  properties.struct_size = sizeof(properties);
  OR_CHECK(orGetDeviceProperties(&properties, index));
  return properties;
}

void synchronize_device(c10::DeviceIndex index) {
  if (!device_is_open(index)) {
    return;
  }
  DeviceScope scope(index);
  const GilRelease waiting;
  OR_CHECK(orDeviceSynchronize());
  if (C10_UNLIKELY(races::on())) {
    races::host_waited_for_device(index);
  }
}

void finish_all_devices() noexcept {
  const int count = device_count();
  for (int index = 0; index < count; ++index) {
    int open = 0;
    if (orDeviceIsOpen(&open, index) == orSuccess && open != 0 && orSetDevice(index) == orSuccess) {
      // The limit is for a driver or a fault rule that reports a failure at every synchronization.
      for (int reports = 0; reports < kMostReports && orDeviceSynchronize() == orErrorKernelFailed;
           ++reports) {
        std::fprintf(stderr, "%s: kernel failure not reported before exit: %s\n", orGetDeviceName(),
                     orGetLastErrorMessage());
      }
    }
  }
}

bool device_is_open(c10::DeviceIndex index) {
  int open = 0;
  OR_CHECK(orDeviceIsOpen(&open, index));
  return open != 0;
}

DeviceScope::~DeviceScope() {
  if (before_ != now_) {
    // The index was valid when it was read, so this cannot fail.
    (void)!orSetDevice(before_);
  }
}

}  // namespace openreg
