// Copies and fills.
#include "check.h"

#include <algorithm>

namespace openreg::check {
namespace {

constexpr size_t kSizes[] = {1, 3, 64, 4095, 65536 + 5, (size_t{2} << 20) + 1};

void host(const orDriver& driver) {
  for (const size_t size : kSizes) {
    const Memory memory(driver, size + 64);
    for (const size_t offset : {size_t{0}, size_t{1}, size_t{63}}) {
      const auto bytes = pattern(size, static_cast<unsigned>(offset));
      memory.write(bytes, offset);
      REQUIRE(memory.read(size, offset) == bytes,
              "%zu bytes at offset %zu change in copies to and from the device", size, offset);
    }
  }
}

void bounds(const orDriver& driver) {
  const Memory memory(driver, 4096);
  auto expected = pattern(4096);
  memory.write(expected);
  memory.write(std::vector<unsigned char>(100, 0xee), 1000);
  std::fill_n(expected.begin() + 1000, 100, 0xee);
  REQUIRE(memory.read(4096) == expected, "a copy of 100 bytes to offset 1000 changes other bytes");
}

void device(const orDriver& driver) {
  for (const size_t size : kSizes) {
    const Memory from(driver, size), to(driver, size + 1);
    from.write(pattern(size));
    const Stream stream(driver);
    OK(driver.stream_copy(stream, to.get() + 1, from.get(), size, orMemcpyDeviceToDevice, nullptr));
    stream.synchronize();
    REQUIRE(to.read(size, 1) == pattern(size), "%zu bytes change in a copy on the device", size);
  }
}

// Copy engines split large copies.
void large(const orDriver& driver) {
  constexpr size_t kSize = (size_t{65} << 20) + 4099;
  size_t free = 0, total = 0;
  OK(driver.memory_info(0, &free, &total));
  if (free / 3 < kSize) throw Skipped{"less than 200 MiB of device memory are free"};
  const Memory from(driver, kSize), to(driver, kSize);
  const auto bytes = pattern(kSize);
  from.write(bytes);
  REQUIRE(from.read(kSize) == bytes, "%zu bytes change in copies to and from the device", kSize);
  const Stream stream(driver);
  OK(driver.stream_copy(stream, to.get(), from.get(), kSize, orMemcpyDeviceToDevice, nullptr));
  stream.synchronize();
  REQUIRE(to.read(kSize) == bytes, "%zu bytes change in a copy on the device", kSize);
}

void peer(const orDriver& driver) {
  if (!(driver.capabilities & OR_CAP_PEER_COPY)) throw Skipped{"no OR_CAP_PEER_COPY"};
  if (count_devices(driver) < 2) throw Skipped{"only one device"};
  OK(driver.device_open(1));
  const Memory from(driver, 100000, 0), to(driver, 100000, 1);
  from.write(pattern(100000));
  for (int device = 0; device < 2; ++device) {  // the stream may belong to either device
    to.write(std::vector<unsigned char>(100000, 0));
    const Stream stream(driver, device);
    OK(driver.stream_copy(stream, to.get(), from.get(), 100000, orMemcpyDeviceToDevice, nullptr));
    stream.synchronize();
    REQUIRE(to.read(100000) == pattern(100000),
            "bytes change in a copy from device 0 to device 1 on a stream of %d", device);
  }
}

void fill(const orDriver& driver) {
  for (const size_t size : kSizes) {
    const Memory memory(driver, size + 64);
    memory.write(pattern(size + 64));
    const Stream stream(driver);
    OK(driver.stream_fill(stream, memory.get() + 3, 0x1a7, size, nullptr));
    stream.synchronize();
    auto expected = pattern(size + 64);
    std::fill_n(expected.begin() + 3, size, 0xa7);  // the low byte of the value
    REQUIRE(memory.read(size + 64) == expected,
            "stream_fill of %zu bytes with 0x1a7 does not write exactly these", size);
  }
}

void order(const orDriver& driver) {
  Gate gate;
  const Memory memory(driver, 4096);
  const Stream stream(driver);
  std::vector<unsigned char> first(4096), second(4096);
  const auto bytes = pattern(4096);
  OK(launch(driver, stream, gate.body()));
  OK(driver.stream_fill(stream, memory.get(), 1, 4096, nullptr));
  OK(driver.stream_copy(stream, first.data(), memory.get(), 4096, orMemcpyDeviceToHost, nullptr));
  OK(driver.stream_copy(stream, memory.get(), bytes.data(), 4096, orMemcpyHostToDevice, nullptr));
  OK(driver.stream_copy(stream, second.data(), memory.get(), 4096, orMemcpyDeviceToHost, nullptr));
  gate.open();
  stream.synchronize();
  REQUIRE(first == std::vector<unsigned char>(4096, 1) && second == bytes,
          "copies and fills of one stream do not run in submission order, after the kernel before them");
}

void host_function_order(const orDriver& driver) {
  Gate gate;
  const Memory memory(driver, 4096);
  const Stream stream(driver);
  std::vector<unsigned char> host(4096, 9);
  bool copied = false;
  OK(launch(driver, stream, gate.body()));
  OK(driver.stream_fill(stream, memory.get(), 5, 4096, nullptr));
  OK(driver.stream_copy(stream, host.data(), memory.get(), 4096, orMemcpyDeviceToHost, nullptr));
  OK(launch(driver, stream, [&] {
    copied = host == std::vector<unsigned char>(4096, 5);
    return std::string();
  }));
  gate.open();
  stream.synchronize();
  REQUIRE(copied, "a kernel runs before the copy that was submitted before it is done");
}

constexpr Check kChecks[] = {
    {"copy-host", "copies between host and device keep all bytes, at any size and offset", &host},
    {"copy-bounds", "copies write only their destination", &bounds},
    {"copy-device", "copies on the device keep all bytes", &device},
    {"copy-large", "copies of more than 64 MiB keep all bytes", &large},
    {"copy-peer", "copies between devices keep all bytes", &peer},
    {"copy-order", "copies and fills run in stream order", &order},
    {"copy-before-kernel", "a kernel runs after the copies before it", &host_function_order},
    {"fill", "stream_fill writes the low byte of the value, and only its range", &fill},
};

}  // namespace

std::span<const Check> copy_checks() {
  return kChecks;
}

}  // namespace openreg::check
