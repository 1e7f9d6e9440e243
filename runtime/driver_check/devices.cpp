// Devices: properties, opening and closing, synchronization.
#include "check.h"
#include "utf8.h"

#include <cstring>
#include <filesystem>
#include <iterator>

namespace openreg::check {
namespace {

void count(const orDriver& driver) {
  const int first = count_devices(driver);
  REQUIRE(count_devices(driver) == first, "device_count changes from %d to %d", first, count_devices(driver));
}

void properties(const orDriver& driver) {
  REQUIRE(is_utf8(driver.name), "the name of the driver is not UTF-8");
  for (int device = 0; device < count_devices(driver); ++device) {
    const orDeviceProperties found = properties_of(driver, device);
    REQUIRE(std::memchr(found.name, 0, sizeof(found.name)) && found.name[0], "device %d has no name", device);
    REQUIRE(is_utf8(found.name), "the name of device %d is not UTF-8", device);
    REQUIRE(found.total_memory > 0, "total_memory of device %d is 0", device);
    const size_t granularity = found.allocation_granularity;
    REQUIRE(granularity > 0 && (granularity & (granularity - 1)) == 0,
            "allocation_granularity of device %d is %zu, not a power of two", device, granularity);
    REQUIRE(found.greatest_priority <= found.least_priority,
            "greatest_priority %d is larger than least_priority %d; a smaller number is a higher priority",
            found.greatest_priority, found.least_priority);
    REQUIRE(found.capabilities == driver.capabilities,
            "capabilities of device %d are 0x%llx, those of the table 0x%llx", device,
            static_cast<unsigned long long>(found.capabilities),
            static_cast<unsigned long long>(driver.capabilities));
  }
}

void properties_size(const orDriver& driver) {
  struct {
    orDeviceProperties properties;
    uint64_t beyond[64];
  } given{};
  std::memset(&given, 0xa5, sizeof(given));
  given.properties.struct_size = sizeof(orDeviceProperties);
  OK(driver.device_properties(0, &given.properties));
  REQUIRE(given.properties.struct_size == sizeof(orDeviceProperties),
          "device_properties changed struct_size");
  for (const uint64_t word : given.beyond) {
    REQUIRE(word == 0xa5a5a5a5a5a5a5a5, "device_properties wrote beyond struct_size, %zu bytes",
            sizeof(orDeviceProperties));
  }
}

void reopen(const orDriver& driver) {
  for (int round = 0; round < 3; ++round) {
    {
      const Memory memory(driver, 4096);
      const auto bytes = pattern(4096, static_cast<unsigned>(round));
      memory.write(bytes);
      REQUIRE(memory.read(4096) == bytes,
              "memory does not keep its bytes after the device was opened %d times", round + 1);
    }
    OK(driver.device_synchronize(0));
    OK(driver.device_close(0));
    OK(driver.device_open(0));
  }
}

void all_devices(const orDriver& driver) {
  for (int device = 1; device < count_devices(driver); ++device) OK(driver.device_open(device));
  for (int device = 0; device < count_devices(driver); ++device) {
    const Memory memory(driver, 4096, device);
    memory.write(pattern(4096, static_cast<unsigned>(device)));
    REQUIRE(memory.read(4096) == pattern(4096, static_cast<unsigned>(device)),
            "memory of device %d does not keep its bytes", device);
    OK(driver.device_synchronize(device));
  }
}

void synchronize(const orDriver& driver) {
  std::atomic<int> done{0};
  const Stream first(driver), second(driver);
  OK(launch(driver, first, slow([] {})));
  for (const Stream* stream : {&first, &second}) {
    for (int i = 0; i < 20; ++i) {
      OK(launch(driver, *stream, [&] { return ++done, std::string(); }));
    }
  }
  OK(driver.device_synchronize(0));
  REQUIRE(done == 40, "device_synchronize returned when %d of 40 kernels were done", done.load());
}

size_t count_threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

void no_threads(const orDriver& driver) {
  REQUIRE(count_devices(driver) >= 0, "device_count is negative");
  static_cast<void>(properties_of(driver, 0));
  REQUIRE(count_threads() == 1,
          "init or device_properties started %zu threads; a process could not fork after it",
          count_threads() - 1);
}

constexpr Check kChecks[] = {
    {"device-count", "1 to 64 devices (OR_MAX_DEVICES), the same number at each call", &count, false},
    {"device-properties", "properties are complete and agree with the table", &properties, false},
    {"device-properties-size", "device_properties writes no field beyond struct_size", &properties_size,
     false},
    {"device-init", "init starts no thread", &no_threads, false},
    {"device-reopen", "a closed device can be opened again", &reopen},
    {"device-all", "all devices have memory and streams", &all_devices},
    {"device-synchronize", "device_synchronize waits for all streams", &synchronize},
};

}  // namespace

std::span<const Check> device_checks() {
  return kChecks;
}

}  // namespace openreg::check
