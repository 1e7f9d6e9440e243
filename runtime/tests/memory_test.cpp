#include "support.h"

#include <csignal>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <vector>

using namespace support;

namespace {

size_t total_memory() {
  size_t free = 0, total = 0;
  EXPECT_OK(orMemGetInfo(&free, &total));
  return total;
}

size_t free_memory() {
  size_t free = 0, total = 0;
  EXPECT_OK(orMemGetInfo(&free, &total));
  return free;
}

// A fault is SIGSEGV; the sanitizers turn it into an exit with an error status.
bool faulted(int status) {
  if (kAddressSanitizer || kThreadSanitizer) return !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

}  // namespace

// The "threadsafe" style starts a new process. A forked child does not inherit the device mapping, so every
// access would fault there.
class MemoryDeathTest : public ::testing::Test {
 protected:
  MemoryDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  ~MemoryDeathTest() override { GTEST_FLAG_SET(death_test_style, "fast"); }

  static volatile char* bytes() { return static_cast<volatile char*>(allocate(4096)); }

  // Runs the access while a kernel is using the same memory.
  template <typename Access>
  static void while_a_kernel_runs(Access access) {
    volatile char* pointer = bytes();
    char* view = kernel_view<char>(const_cast<char*>(pointer));
    Gate started, gate;
    EXPECT_OK(launch(nullptr, [&] {
      view[0] = 3;
      started.open();
      gate.wait();
    }));
    started.wait();
    access(pointer);
    std::_Exit(0);
  }
};

TEST_F(MemoryDeathTest, HostAccessToADevicePointerFaults) {
  EXPECT_EXIT(bytes()[0] = 1; std::_Exit(0), faulted, "");
  EXPECT_EXIT([[maybe_unused]] const char byte = bytes()[4095]; std::_Exit(0), faulted, "");
}

TEST_F(MemoryDeathTest, HostAccessFaultsWhileAKernelUsesTheMemory) {
  EXPECT_EXIT(while_a_kernel_runs([](volatile char* pointer) { pointer[0] = 1; }), faulted, "");
  EXPECT_EXIT(while_a_kernel_runs([](volatile char* pointer) { (void)pointer[0]; }), faulted, "");
}

TEST(Memory, KernelsAccessMemoryThroughTheKernelView) {
  constexpr size_t kSize = 1 << 20;
  auto* pointer = static_cast<char*>(allocate(kSize));
  char* view = kernel_view<char>(pointer);
  ASSERT_OK(launch(nullptr, [=] {
    for (size_t i = 0; i < kSize; ++i) view[i] = static_cast<char>(i * 7);
  }));
  std::vector<char> host(kSize);
  ASSERT_OK(orMemcpy(host.data(), pointer, kSize, orMemcpyDeviceToHost));
  for (size_t i = 0; i < kSize; ++i) ASSERT_EQ(host[i], static_cast<char>(i * 7));
  EXPECT_OK(orFree(pointer));
}

TEST(Memory, ZeroByteAllocationsAreNull) {
  void* pointer = garbage(1);
  EXPECT_OK(orMalloc(&pointer, 0));
  EXPECT_EQ(pointer, nullptr);
  EXPECT_OK(orFree(nullptr));
  pointer = garbage(1);
  EXPECT_OK(orMallocHost(&pointer, 0));
  EXPECT_EQ(pointer, nullptr);
  EXPECT_OK(orFreeHost(nullptr));
}

TEST(Memory, SizesAreRoundedToTheGranularity) {
  const size_t before = free_memory();
  void* one = allocate(1);
  EXPECT_EQ(before - free_memory(), 512u);
  void* two = allocate(513);
  EXPECT_EQ(before - free_memory(), 512u + 1024u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(one) % 512, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(two) % 512, 0u);
  EXPECT_OK(orFree(one));
  EXPECT_OK(orFree(two));
  EXPECT_EQ(free_memory(), before);
}

TEST(Memory, HugeSizesAreOutOfMemory) {
  for (const size_t size :
       {size_t{1} << 50, size_t{1} << 60, SIZE_MAX, SIZE_MAX - 511, SIZE_MAX - 512, total_memory() + 1}) {
    void* pointer = nullptr;
    EXPECT_FAILS(orErrorOutOfMemory, orMalloc(&pointer, size), "bytes are free");
    EXPECT_EQ(pointer, nullptr);
  }
  void* pointer = allocate(1024);
  EXPECT_OK(orFree(pointer));
  for (const size_t size : {size_t{1} << 60, SIZE_MAX, SIZE_MAX - 4095}) {
    EXPECT_FAILS(orErrorOutOfHostMemory, orMallocHost(&pointer, size), "pinned");
  }
}

TEST(Memory, ScatteredFreeMemoryCanBeAllocated) {
  const size_t piece = free_memory() / 8 / 512 * 512;
  std::vector<void*> pieces;
  for (int i = 0; i < 8; ++i) pieces.push_back(allocate(piece));
  for (int i = 0; i < 8; i += 2) EXPECT_OK(orFree(pieces[static_cast<size_t>(i)]));
  void* half = nullptr;
  EXPECT_OK(orMalloc(&half, 4 * piece));
  void* pointer = nullptr;
  EXPECT_FAILS(orErrorOutOfMemory, orMalloc(&pointer, piece), "bytes are free");
  EXPECT_OK(orFree(half));
  for (int i = 1; i < 8; i += 2) EXPECT_OK(orFree(pieces[static_cast<size_t>(i)]));
}

TEST(Memory, AllocationsSucceedAfterOutOfMemory) {
  const size_t piece = total_memory() / 4;
  std::vector<void*> pieces;
  void* pointer = nullptr;
  orError_t error;
  while ((error = orMalloc(&pointer, piece)) == orSuccess) pieces.push_back(pointer);
  EXPECT_EQ(error, orErrorOutOfMemory);
  EXPECT_NE(std::string(orGetLastErrorMessage()).find(std::to_string(piece)), std::string::npos);
  EXPECT_EQ(orGetErrorClass(orGetLastError()), orClassOutOfMemory);
  EXPECT_GE(pieces.size(), 3u);
  EXPECT_OK(orFree(pieces.back()));
  pieces.pop_back();
  EXPECT_OK(orMalloc(&pointer, piece));
  EXPECT_OK(orFree(pointer));
  for (void* each : pieces) EXPECT_OK(orFree(each));
}

TEST(Memory, InvalidPointersAreRefused) {
  auto* pointer = static_cast<char*>(allocate(4096));
  int local = 0;
  EXPECT_FAILS(orErrorInvalidPointer, orFree(&local), "not memory of this runtime");
  EXPECT_FAILS(orErrorInvalidPointer, orFree(pointer + 512), "512 bytes inside an allocation of 4096");
  EXPECT_FAILS(orErrorInvalidPointer, orFree(garbage(0x10)), "orMalloc");
  EXPECT_FAILS(orErrorInvalidPointer, orFreeHost(pointer), "device memory");
  EXPECT_FAILS(orErrorInvalidPointer, orHostUnregister(pointer), "device memory");
  EXPECT_OK(orFree(pointer));
  EXPECT_FAILS(orErrorInvalidPointer, orFree(pointer), "freed");
  void* host = nullptr;
  ASSERT_OK(orMallocHost(&host, 100));
  EXPECT_FAILS(orErrorInvalidPointer, orFree(host), "pinned");
  EXPECT_FAILS(orErrorInvalidPointer, orHostUnregister(host), "orHostRegister");
  EXPECT_OK(orFreeHost(host));
  EXPECT_FAILS(orErrorInvalidPointer, orFreeHost(host), "orMallocHost");
  EXPECT_FAILS(orErrorInvalidValue, orMalloc(nullptr, 8), "NULL");
  EXPECT_FAILS(orErrorInvalidValue, orMallocHost(nullptr, 8), "NULL");
  size_t size;
  EXPECT_FAILS(orErrorInvalidValue, orMemGetInfo(nullptr, &size), "NULL");
  EXPECT_FAILS(orErrorInvalidValue, orMemGetInfo(&size, nullptr), "NULL");
}

TEST(Memory, ConcurrentDoubleFreeSucceedsOnce) {
  for (int round = 0; round < 50; ++round) {
    void* pointer = allocate(4096);
    std::atomic<int> successes{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        if (orFree(pointer) == orSuccess) successes.fetch_add(1);
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(successes.load(), 1);
  }
}

TEST(Memory, FreeWaitsForSubmittedWork) {
  auto* pointer = static_cast<char*>(allocate(4096));
  Stream stream;
  std::atomic<int> done{0};
  for (int i = 0; i < 100; ++i) ASSERT_OK(launch(stream, [&] { done.fetch_add(1); }));
  EXPECT_OK(orFree(pointer));
  EXPECT_EQ(done.load(), 100);
}

TEST(Memory, FreeDoesNotReportKernelFailures) {
  void* pointer = allocate(4096);
  Stream stream;
  ASSERT_OK(launch(stream, [] { return std::string("lost"); }));
  EXPECT_OK(orFree(pointer));
  EXPECT_FAILS(orErrorKernelFailed, orStreamSynchronize(stream), "lost");
}

TEST(Memory, FreeInsideAKernel) {
  void* pointer = allocate(4096);
  Stream stream;
  EXPECT_OK(run(stream, [&] { EXPECT_OK(orFree(pointer)); }));
  pointer = allocate(4096);
  EXPECT_OK(run(stream, [&] {
    EXPECT_OK(launch(stream, [] {}));
    EXPECT_FAILS(orErrorNotPermitted, orFree(pointer), "unfinished work");
  }));
  EXPECT_OK(orFree(pointer));
}

TEST(Memory, Attributes) {
  auto* pointer = static_cast<char*>(allocate(1000, 1));
  orPointerAttributes attributes{};
  attributes.struct_size = sizeof(attributes);
  ASSERT_OK(orPointerGetAttributes(&attributes, pointer + 10));
  EXPECT_EQ(attributes.type, orMemoryTypeDevice);
  EXPECT_EQ(attributes.device, 1);
  EXPECT_EQ(attributes.base, pointer);
  EXPECT_EQ(attributes.size, 1000u);
  EXPECT_EQ(attributes.kernel_view, kernel_view<void>(pointer + 10, 1));
  EXPECT_OK(orFree(pointer));
  ASSERT_OK(orPointerGetAttributes(&attributes, pointer));
  EXPECT_EQ(attributes.type, orMemoryTypeUnregistered);

  void* host = nullptr;
  ASSERT_OK(orMallocHost(&host, 100));
  std::memset(host, 1, 100);
  ASSERT_OK(orPointerGetAttributes(&attributes, host));
  EXPECT_EQ(attributes.type, orMemoryTypeHost);
  EXPECT_EQ(attributes.device, -1);
  EXPECT_EQ(attributes.size, 100u);
  EXPECT_OK(orFreeHost(host));

  for (const void* unknown : {static_cast<const void*>(&attributes), static_cast<const void*>(nullptr)}) {
    ASSERT_OK(orPointerGetAttributes(&attributes, unknown));
    EXPECT_EQ(attributes.type, orMemoryTypeUnregistered);
    EXPECT_EQ(attributes.device, -1);
    EXPECT_EQ(attributes.base, nullptr);
    EXPECT_EQ(attributes.kernel_view, nullptr);
  }
  attributes.struct_size = 0;
  EXPECT_FAILS(orErrorInvalidValue, orPointerGetAttributes(&attributes, host), "struct_size");
  EXPECT_FAILS(orErrorInvalidValue, orPointerGetAttributes(nullptr, host), "NULL");
}

TEST(Memory, RegisteredRanges) {
  std::vector<char> host(10000);
  ASSERT_OK(orHostRegister(host.data() + 100, 1000));
  orPointerAttributes attributes{};
  attributes.struct_size = sizeof(attributes);
  ASSERT_OK(orPointerGetAttributes(&attributes, host.data() + 600));
  EXPECT_EQ(attributes.type, orMemoryTypeHost);
  EXPECT_EQ(attributes.base, host.data() + 100);
  EXPECT_FAILS(orErrorInvalidValue, orHostRegister(host.data(), 101), "overlap");
  EXPECT_FAILS(orErrorInvalidValue, orHostRegister(host.data() + 1099, 10), "overlap");
  EXPECT_FAILS(orErrorInvalidValue, orHostRegister(host.data() + 200, 10), "overlap");
  EXPECT_FAILS(orErrorInvalidValue, orHostRegister(host.data(), 9000), "overlap");
  EXPECT_OK(orHostRegister(host.data(), 100));
  EXPECT_OK(orHostRegister(host.data() + 1100, 10));
  EXPECT_FAILS(orErrorInvalidPointer, orHostUnregister(host.data() + 200), "inside");
  EXPECT_OK(orHostUnregister(host.data()));
  EXPECT_OK(orHostUnregister(host.data() + 100));
  EXPECT_OK(orHostUnregister(host.data() + 1100));
  EXPECT_FAILS(orErrorInvalidPointer, orHostUnregister(host.data()), "not memory of this runtime");
  EXPECT_FAILS(orErrorInvalidValue, orHostRegister(nullptr, 10), "NULL");
  EXPECT_FAILS(orErrorInvalidValue, orHostRegister(host.data(), 0), "0");
  EXPECT_FAILS(orErrorInvalidValue, orHostRegister(host.data(), SIZE_MAX), "address space");
  void* device = allocate(4096);
  EXPECT_FAILS(orErrorInvalidValue, orHostRegister(device, 10), "overlap");
  EXPECT_OK(orFree(device));
  EXPECT_FAILS(orErrorInvalidPointer, orHostRegister(device, 10), "device memory");
}

// Compares random allocations and frees with a model: blocks never overlap, the number of free bytes is
// exact, and after the last free all blocks are merged into one.
TEST(Memory, RandomAllocationsMatchAModel) {
  std::mt19937 random(42);
  std::map<uintptr_t, size_t> model;
  const size_t before = free_memory();
  size_t used = 0;
  for (int step = 0; step < 5000; ++step) {
    if (model.empty() || random() % 5 < 3) {
      const size_t size = 1 + random() % (random() % 8 ? 5000 : 3 << 20);
      const size_t rounded = (size + 511) / 512 * 512;
      void* pointer = nullptr;
      const orError_t error = orMalloc(&pointer, size);
      if (error == orErrorOutOfMemory) continue;
      ASSERT_OK(error);
      const auto address = reinterpret_cast<uintptr_t>(pointer);
      const auto next = model.lower_bound(address);
      if (next != model.end()) ASSERT_LE(address + rounded, next->first);
      if (next != model.begin()) ASSERT_LE(std::prev(next)->first + std::prev(next)->second, address);
      model.emplace(address, rounded);
      used += rounded;
    } else {
      auto victim = model.begin();
      std::advance(victim, random() % model.size());
      ASSERT_OK(orFree(reinterpret_cast<void*>(victim->first)));
      used -= victim->second;
      model.erase(victim);
    }
    if (step % 100 == 0) ASSERT_EQ(free_memory(), before - used);
  }
  for (const auto& [address, size] : model) ASSERT_OK(orFree(reinterpret_cast<void*>(address)));
  ASSERT_EQ(free_memory(), before);
  void* all = nullptr;
  EXPECT_OK(orMalloc(&all, before));
  EXPECT_OK(orFree(all));
}

TEST(Memory, LargeFreedBlocksReturnTheirPagesToTheSystem) {
  constexpr size_t kSize = 8 << 20;
  auto* pointer = static_cast<char*>(allocate(kSize));
  ASSERT_OK(orMemset(pointer, 0xff, kSize));
  ASSERT_OK(orFree(pointer));
  auto* again = static_cast<char*>(allocate(kSize));
  ASSERT_EQ(again, pointer);
  std::vector<char> host(kSize, 1);
  ASSERT_OK(orMemcpy(host.data(), again, kSize, orMemcpyDeviceToHost));
  EXPECT_EQ(std::count(host.begin(), host.end(), 0), static_cast<ptrdiff_t>(kSize));
  EXPECT_OK(orFree(again));
}
