// Memory: blocks, exhaustion, information, pinned host memory.
#include "check.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <unistd.h>

namespace openreg::check {
namespace {

void blocks(const orDriver& driver) {
  const size_t granularity = properties_of(driver, 0).allocation_granularity;
  std::vector<std::unique_ptr<Memory>> all;
  all.reserve(64);
  for (size_t i = 0; i < 64; ++i) all.push_back(std::make_unique<Memory>(driver, granularity * (1 + i % 7)));
  std::ranges::sort(all, {}, [](const auto& memory) { return memory->get(); });
  for (size_t i = 0; i < all.size(); ++i) {
    REQUIRE(reinterpret_cast<uintptr_t>(all[i]->get()) % granularity == 0,
            "memory_alloc returned %p, which is not a multiple of allocation_granularity, %zu",
            static_cast<void*>(all[i]->get()), granularity);
    if (i + 1 < all.size()) {
      REQUIRE(all[i]->get() + all[i]->size() <= all[i + 1]->get(),
              "memory_alloc returned overlapping blocks: %p with %zu bytes, and %p",
              static_cast<void*>(all[i]->get()), all[i]->size(), static_cast<void*>(all[i + 1]->get()));
    }
  }
  for (size_t i = 0; i < all.size(); ++i) all[i]->write(pattern(all[i]->size(), static_cast<unsigned>(i)));
  for (size_t i = 0; i < all.size(); ++i) {
    REQUIRE(all[i]->read(all[i]->size()) == pattern(all[i]->size(), static_cast<unsigned>(i)),
            "a block of %zu bytes lost its contents when others were written", all[i]->size());
  }
}

// Allocates blocks until the device is full; returns their number.
size_t fill_device(const orDriver& driver, size_t block, std::vector<void*>& pointers) {
  constexpr size_t kMost = 1024;
  while (pointers.size() < kMost) {
    void* pointer = nullptr;
    const orError_t error = driver.memory_alloc(0, block, &pointer);
    if (error != orSuccess) {
      expect(error, orErrorOutOfMemory, "memory_alloc");
      return pointers.size();
    }
    REQUIRE(pointer != nullptr, "memory_alloc returned orSuccess and NULL, instead of orErrorOutOfMemory");
    pointers.push_back(pointer);
  }
  violation("%zu blocks of %zu bytes fit into a device with total_memory %zu", kMost, block,
            properties_of(driver, 0).total_memory);
}

void free_all(const orDriver& driver, size_t block, std::vector<void*>& pointers) {
  for (void* pointer : pointers) OK(driver.memory_free(0, pointer, block));
  pointers.clear();
}

void exhaustion(const orDriver& driver) {
  const orDeviceProperties properties = properties_of(driver, 0);
  const size_t granularity = properties.allocation_granularity;
  const size_t block = std::max(properties.total_memory / 16 / granularity, size_t{1}) * granularity;
  std::vector<void*> pointers;
  const size_t first = fill_device(driver, block, pointers);
  free_all(driver, block, pointers);
  const size_t again = fill_device(driver, block, pointers);
  free_all(driver, block, pointers);
  REQUIRE(again >= first, "%zu blocks of %zu bytes fit at first, and %zu after all were freed", first, block,
          again);
  void* pointer = nullptr;
  EXPECT(orErrorOutOfMemory, driver.memory_alloc(0, SIZE_MAX / granularity * granularity, &pointer));
  const Memory memory(driver, 4096);
  memory.write(pattern(4096));
  REQUIRE(memory.read(4096) == pattern(4096), "memory does not work after an exhaustion");
}

void info(const orDriver& driver) {
  size_t before = 0, total = 0, during = 0;
  OK(driver.memory_info(0, &before, &total));
  REQUIRE(total > 0 && before <= total, "memory_info: %zu bytes of %zu are free", before, total);
  const Memory memory(driver, std::max<size_t>(total / 4, 1));
  OK(driver.memory_info(0, &during, &total));
  REQUIRE(during < before, "memory_info: %zu bytes are free before and %zu after an allocation of %zu",
          before, during, memory.size());
}

void pinned(const orDriver& driver) {
  if (!driver.host_alloc) throw Skipped{"no host_alloc"};
  for (const size_t size : {size_t{1}, size_t{4096}, (size_t{1} << 20) + 1}) {
    void* host = nullptr;
    OK(driver.host_alloc(size, &host));
    REQUIRE(host && reinterpret_cast<uintptr_t>(host) % 64 == 0,
            "host_alloc returned %p, not aligned to 64 bytes", host);
    const auto bytes = pattern(size);
    std::memcpy(host, bytes.data(), size);
    const Memory memory(driver, size);
    const Stream stream(driver);
    OK(driver.stream_copy(stream, memory.get(), host, size, orMemcpyHostToDevice, nullptr));
    stream.synchronize();
    std::memset(host, 0, size);
    OK(driver.stream_copy(stream, host, memory.get(), size, orMemcpyDeviceToHost, nullptr));
    stream.synchronize();
    REQUIRE(!std::memcmp(host, bytes.data(), size), "%zu bytes of pinned memory change in copies", size);
    OK(driver.host_free(host, size));
  }
}

void kernel_view(const orDriver& driver) {
  if (!(driver.capabilities & OR_CAP_HOST_EXECUTABLE)) throw Skipped{"no OR_CAP_HOST_EXECUTABLE"};
  ptrdiff_t offset = 0, again = 1;
  OK(driver.kernel_view_offset(0, &offset));
  for (int device = 1; device < count_devices(driver); ++device) OK(driver.device_open(device));
  for (int device = 0; device < count_devices(driver); ++device) {
    OK(driver.kernel_view_offset(device, &again));
    REQUIRE(offset == again, "the kernel view offset of device %d is %td, that of device 0 %td", device,
            again, offset);
  }
  const Memory memory(driver, 4096);
  memory.write(pattern(4096));
  const Stream stream(driver);
  OK(launch(driver, stream, [&] {
    char* view = memory.get() + offset;
    const auto expected = pattern(4096);
    if (std::memcmp(view, expected.data(), 4096) != 0) return std::string("a kernel reads other bytes");
    view[7] ^= 0x55;
    return std::string();
  }));
  stream.synchronize();
  auto expected = pattern(4096);
  expected[7] ^= 0x55;
  REQUIRE(memory.read(4096) == expected, "a kernel's writes to the kernel view are not in the memory");
}

constexpr Check kChecks[] = {
    {"memory-blocks", "blocks are aligned, do not overlap and keep their contents", &blocks},
    {"memory-exhaustion", "a full device returns orErrorOutOfMemory, and freed memory can be allocated again",
     &exhaustion},
    {"memory-info", "memory_info counts allocations", &info},
    {"memory-pinned", "pinned memory is aligned and can be copied", &pinned},
    {"memory-kernel-view", "host kernels access memory at a constant offset", &kernel_view},
};

}  // namespace

std::span<const Check> memory_checks() {
  return kChecks;
}

}  // namespace openreg::check
