#include "support.h"

#include "check.h"

#include <cstdio>

namespace openreg::check {

int describe(const orDriver& driver) {
  std::printf("driver '%s', version %u of the interface (this program: %d), a table of %u bytes (%zu)\n",
              driver.name, driver.version, OR_DRIVER_VERSION, driver.struct_size, sizeof(orDriver));
  const int count = count_devices(driver);
  REQUIRE(count != 0, "the driver has no device");
  for (int device = 0; device < count; ++device) {
    const orDeviceProperties properties = properties_of(driver, device);
    std::printf("device %d: %.*s, %.1f GiB\n", device, static_cast<int>(sizeof(properties.name)),
                properties.name, static_cast<double>(properties.total_memory) / (1 << 30));
  }
  OK(driver.device_open(0));
  const auto capability = [&](uint64_t bit) { return (driver.capabilities & bit) != 0; };
  const struct {
    const char* name;
    bool supported;
  } features[] = {
      {"asynchronous streams", asynchronous(driver)},
      {"host-executable memory", capability(OR_CAP_HOST_EXECUTABLE)},
      {"copies between devices", capability(OR_CAP_PEER_COPY)},
      {"events with timing", capability(OR_CAP_TIMING)},
      {"stream priorities", capability(OR_CAP_PRIORITIES)},
      {"sharing between processes", capability(OR_CAP_IPC)},
      {"pinned host memory", driver.host_alloc != nullptr},
      {"synchronous kernels (stream_run)", driver.stream_run != nullptr},
      {"schedules", driver.set_schedule != nullptr},
      {"device_drain", driver.device_drain != nullptr},
      {"graphs", driver.stream_begin_capture != nullptr},
      {"number of unfinished operations", driver.stream_pending != nullptr},
      {"deferred kernels", driver.kernel_defer != nullptr},
      {"device code", capability(OR_CAP_DEVICE_CODE)},
      {"native handles", driver.stream_native_handle != nullptr},
      {"aborting streams", driver.stream_abort != nullptr},
  };
  std::printf("\n");
  for (const auto& feature : features)
    std::printf("  %-34s %s\n", feature.name, feature.supported ? "yes" : "no");
  std::printf("\n");
  return kPassed;
}

}  // namespace openreg::check
