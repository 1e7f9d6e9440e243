#include "support.h"

#include <cstring>
#include <thread>

using namespace support;

TEST(Device, CountAndCurrentDevice) {
  int count = 0;
  ASSERT_OK(orGetDeviceCount(&count));
  ASSERT_EQ(count, 2);
  EXPECT_OK(orSetDevice(1));
  int current = -1;
  EXPECT_OK(orGetDevice(&current));
  EXPECT_EQ(current, 1);
  std::thread([] {
    int other = -1;
    EXPECT_OK(orGetDevice(&other));
    EXPECT_EQ(other, 0);
  }).join();
  EXPECT_OK(orSetDevice(0));
}

TEST(Device, InvalidIndexErrorNamesTheValidRange) {
  EXPECT_FAILS(orErrorInvalidDevice, orSetDevice(7),
               "invalid device ordinal: device index 7 is out of range: there are 2 devices (0 to 1)");
  EXPECT_FAILS(orErrorInvalidDevice, orSetDevice(-1), "OPENREG_DEVICE_COUNT");
  int open;
  EXPECT_FAILS(orErrorInvalidDevice, orDeviceIsOpen(&open, 2), "2");
  ptrdiff_t offset;
  EXPECT_FAILS(orErrorInvalidDevice, orGetKernelViewOffset(&offset, 99), "99");
  orDeviceProperties properties{};
  properties.struct_size = sizeof(properties);
  EXPECT_FAILS(orErrorInvalidDevice, orGetDeviceProperties(&properties, 2), "2");
  int current = -1;
  EXPECT_OK(orGetDevice(&current));
  EXPECT_EQ(current, 0);
}

TEST(Device, NullArgumentsAreRefused) {
  EXPECT_FAILS(orErrorInvalidValue, orGetDeviceCount(nullptr), "NULL");
  EXPECT_FAILS(orErrorInvalidValue, orGetDevice(nullptr), "NULL");
  EXPECT_FAILS(orErrorInvalidValue, orGetDeviceProperties(nullptr, 0), "NULL");
  EXPECT_FAILS(orErrorInvalidValue, orDeviceIsOpen(nullptr, 0), "NULL");
  EXPECT_FAILS(orErrorInvalidValue, orGetKernelViewOffset(nullptr, 0), "NULL");
  EXPECT_FAILS(orErrorInvalidValue, orGetSchedule(nullptr, nullptr), "NULL");
}

TEST(Device, Properties) {
  orDeviceProperties properties{};
  properties.struct_size = sizeof(properties);
  ASSERT_OK(orGetDeviceProperties(&properties, 1));
  EXPECT_EQ(properties.struct_size, sizeof(properties));
  EXPECT_NE(std::strstr(properties.name, "openreg"), nullptr);
  EXPECT_EQ(properties.allocation_granularity, 512u);
  EXPECT_LE(properties.greatest_priority, properties.least_priority);
  EXPECT_GE(properties.multi_processor_count, 2);
  EXPECT_LE(properties.multi_processor_count, 8);
  EXPECT_TRUE(properties.capabilities & OR_CAP_HOST_EXECUTABLE);
  for (const uint32_t size : {0u, 8u, uint32_t{sizeof(properties)} - 1, UINT32_MAX}) {
    properties.struct_size = size;
    EXPECT_FAILS(orErrorInvalidValue, orGetDeviceProperties(&properties, 0), "struct_size");
  }
}

TEST(Device, KernelViewOffsetIsTheSameForAllDevices) {
  ptrdiff_t first = 0, second = 0;
  ASSERT_OK(orGetKernelViewOffset(&first, 0));
  ASSERT_OK(orGetKernelViewOffset(&second, 1));
  EXPECT_NE(first, 0);
  EXPECT_EQ(first, second);
}

TEST(Device, SynchronizeWaitsForEveryStream) {
  Stream a, b;
  std::atomic<int> done{0};
  for (int i = 0; i < 50; ++i) {
    ASSERT_OK(launch(a, [&] { done.fetch_add(1); }));
    ASSERT_OK(launch(b, [&] { done.fetch_add(1); }));
    ASSERT_OK(launch(nullptr, [&] { done.fetch_add(1); }));
  }
  ASSERT_OK(orDeviceSynchronize());
  EXPECT_EQ(done.load(), 150);
}

TEST(Device, SynchronizeWaitsForDestroyedStreams) {
  std::atomic<int> done{0};
  {
    Stream stream;
    for (int i = 0; i < 200; ++i) ASSERT_OK(launch(stream, [&] { done.fetch_add(1); }));
  }
  ASSERT_OK(orDeviceSynchronize());
  EXPECT_EQ(done.load(), 200);
}

TEST(Device, ResetInvalidatesHandlesAndTheDeviceIsUsableAgain) {
  ASSERT_OK(orSetDevice(1));
  orStream_t stream, first_default;
  orEvent_t event;
  void* memory;
  std::atomic<int> done{0};
  ASSERT_OK(orStreamCreate(&stream));
  ASSERT_OK(orStreamGetDefault(&first_default));
  ASSERT_OK(orEventCreate(&event));
  ASSERT_OK(orMalloc(&memory, 1 << 20));
  ptrdiff_t before = 0, after = 0;
  ASSERT_OK(orGetKernelViewOffset(&before, 1));
  for (int i = 0; i < 100; ++i) ASSERT_OK(launch(stream, [&] { done.fetch_add(1); }));
  ASSERT_OK(orDeviceReset());
  EXPECT_EQ(done.load(), 100);
  int open = 1;
  EXPECT_OK(orDeviceIsOpen(&open, 1));
  EXPECT_EQ(open, 0);
  EXPECT_FAILS(orErrorInvalidHandle, orStreamQuery(stream), "destroyed");
  EXPECT_FAILS(orErrorInvalidHandle, orStreamQuery(first_default), "destroyed");
  EXPECT_FAILS(orErrorInvalidHandle, orEventQuery(event), "destroyed");
  EXPECT_FAILS(orErrorInvalidPointer, orFree(memory), "freed");
  size_t free = 0, total = 1;
  EXPECT_OK(orMemGetInfo(&free, &total));
  EXPECT_EQ(free, total);
  ASSERT_OK(orMalloc(&memory, 4096));
  ASSERT_OK(orMemset(memory, 5, 4096));
  EXPECT_OK(orGetKernelViewOffset(&after, 1));
  EXPECT_EQ(before, after);
  EXPECT_OK(orFree(memory));
  EXPECT_OK(orSetDevice(0));
}

TEST(Device, ResetDiscardsKernelFailures) {
  ASSERT_OK(orSetDevice(1));
  ASSERT_OK(launch(nullptr, [] { return std::string("bad"); }));
  EXPECT_OK(orDeviceReset());
  EXPECT_OK(orDeviceSynchronize());
  EXPECT_OK(run(nullptr, [] {}));
  EXPECT_OK(orDeviceSynchronize());
  EXPECT_OK(orSetDevice(0));
}

TEST(Device, ResetInsideAKernelIsRefused) {
  EXPECT_OK(run(nullptr, [] { EXPECT_FAILS(orErrorNotPermitted, orDeviceReset(), "kernel"); }));
  EXPECT_OK(orDeviceSynchronize());
}

TEST(Device, ResetWhileOtherThreadsUseTheDevice) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      EXPECT_OK(orSetDevice(1));
      while (!stop.load()) {
        orStream_t stream;
        if (orStreamCreate(&stream) != orSuccess) continue;
        void* memory = nullptr;
        (void)launch(stream, [] {});
        (void)launch(nullptr, [] {});
        if (orMalloc(&memory, 1024) == orSuccess) (void)orFree(memory);
        (void)orStreamDestroy(stream);
      }
    });
  }
  ASSERT_OK(orSetDevice(1));
  for (int i = 0; i < 20; ++i) EXPECT_OK(orDeviceReset());
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  EXPECT_OK(orDeviceReset());
  EXPECT_OK(orSetDevice(0));
}
