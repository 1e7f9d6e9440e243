// Process-wide behavior: environment variables, fork and exit.
#include "support.h"

#include <cstdlib>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace support;

namespace {

// Returns whether the function passed all its checks in a forked child.
template <typename Function>
bool in_forked_child(Function function) {
  const pid_t child = fork();
  if (child == 0) {
    function();
    std::fflush(nullptr);
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

#define SKIP_FORK_UNDER_THREAD_SANITIZER() \
  if (kThreadSanitizer)                    \
  GTEST_SKIP() << "the thread sanitizer does not support fork with other threads running"

}  // namespace

TEST(ProcessDeathTest, EnvironmentSetsDeviceCountAndMemory) {
  in_fresh_process([&] {
    setenv("OPENREG_DEVICE_COUNT", "5", 1);
    setenv("OPENREG_MEMORY", "64M", 1);
    int count = 0;
    EXPECT_OK(orGetDeviceCount(&count));
    EXPECT_EQ(count, 5);
    EXPECT_OK(orSetDevice(4));
    size_t free = 0, total = 0;
    EXPECT_OK(orMemGetInfo(&free, &total));
    EXPECT_EQ(total, size_t{64} << 20);
    int open = 1;
    EXPECT_OK(orDeviceIsOpen(&open, 4));
    EXPECT_EQ(open, 0);
    EXPECT_OK(orDeviceSynchronize());
    EXPECT_OK(orDeviceIsOpen(&open, 4));
    EXPECT_EQ(open, 0);
    allocate(512, 4);
    EXPECT_OK(orDeviceIsOpen(&open, 4));
    EXPECT_EQ(open, 1);
    EXPECT_OK(orDeviceIsOpen(&open, 3));
    EXPECT_EQ(open, 0);
  });
}

TEST(ProcessDeathTest, NoDevices) {
  in_fresh_process([&] {
    setenv("OPENREG_DEVICE_COUNT", "0", 1);
    int count = 9;
    EXPECT_OK(orGetDeviceCount(&count));
    EXPECT_EQ(count, 0);
    void* pointer = nullptr;
    orStream_t stream;
    EXPECT_FAILS(orErrorInvalidDevice, orMalloc(&pointer, 8), "there are no devices");
    EXPECT_FAILS(orErrorInvalidDevice, orStreamCreate(&stream), "OPENREG_DEVICE_COUNT");
    EXPECT_FAILS(orErrorInvalidDevice, orStreamSynchronize(nullptr), "there are no devices");
  });
}

TEST(ProcessDeathTest, MalformedEnvironmentVariablesAreErrors) {
  const std::pair<const char*, const char*> malformed[] = {
      {"OPENREG_DEVICE_COUNT", "two"},    {"OPENREG_DEVICE_COUNT", "65"},
      {"OPENREG_DEVICE_COUNT", "-1"},     {"OPENREG_DEVICE_COUNT", "1K"},
      {"OPENREG_MEMORY", "8GB"},          {"OPENREG_MEMORY", "1"},
      {"OPENREG_MEMORY", "99999999999G"}, {"OPENREG_SCHEDULE", "fast"},
      {"OPENREG_SEED", "0x10"},           {"OPENREG_SEED", "99999999999999999999999"}};
  for (const auto& [name, value] : malformed) {
    in_fresh_process([&] {
      setenv(name, value, 1);
      int count = 0;
      EXPECT_FAILS(orErrorInvalidValue, orGetDeviceCount(&count), std::string(name) + " is '" + value + "'");
      EXPECT_FAILS(orErrorInvalidValue, orDeviceSynchronize(), name);
    });
  }
}

TEST(ProcessDeathTest, EnvironmentSetsTheSchedule) {
  in_fresh_process([&] {
    setenv("OPENREG_SCHEDULE", "adversarial", 1);
    setenv("OPENREG_SEED", "77", 1);
    orSchedule schedule = orScheduleAsync;
    uint64_t seed = 0;
    EXPECT_OK(orGetSchedule(&schedule, &seed));
    EXPECT_EQ(schedule, orScheduleAdversarial);
    EXPECT_EQ(seed, 77u);
  });
}

TEST(ProcessDeathTest, FailedReservationReturnsAnError) {
  in_fresh_process([&] {
    setenv("OPENREG_DEVICE_COUNT", "64", 1);
    setenv("OPENREG_MEMORY", "4096G", 1);
    void* pointer = nullptr;
    EXPECT_FAILS(orErrorSystem, orMalloc(&pointer, 8), "OPENREG_MEMORY");
    int open = 1;
    EXPECT_OK(orDeviceIsOpen(&open, 0));
    EXPECT_EQ(open, 0);
  });
}

TEST(ProcessDeathTest, ForkAfterUseIsRefused) {
  SKIP_FORK_UNDER_THREAD_SANITIZER();
  in_fresh_process([&] {
    void* pointer = allocate(4096);
    Stream stream;
    Gate gate;
    EXPECT_OK(launch(stream, [&] { gate.wait(); }));
    EXPECT_TRUE(in_forked_child([&] {
      int count = 0;
      void* other = nullptr;
      EXPECT_FAILS(orErrorForked, orGetDeviceCount(&count), "spawn");
      EXPECT_FAILS(orErrorForked, orMalloc(&other, 8), "spawn");
      EXPECT_FAILS(orErrorForked, orFree(pointer), "spawn");
      EXPECT_FAILS(orErrorForked, orStreamSynchronize(stream), "spawn");
      EXPECT_FAILS(orErrorForked, orSetDevice(0), "spawn");
      EXPECT_FAILS(orErrorForked, orMallocHost(&other, 8), "spawn");
    }));
    gate.open();
    EXPECT_OK(orStreamSynchronize(stream));
    EXPECT_OK(orFree(pointer));
  });
}

// Other threads may hold locks of the runtime during the fork, so the child must not acquire any.
TEST(ProcessDeathTest, ForkedChildAcquiresNoLocks) {
  SKIP_FORK_UNDER_THREAD_SANITIZER();
  in_fresh_process([&] {
    void* inherited = allocate(4096);
    void* pinned = nullptr;
    EXPECT_OK(orMallocHost(&pinned, 4096));
    Stream stream;
    Event event;
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        while (!stop.load()) {
          void* memory = allocate(4096);
          void* host = nullptr;
          Stream own;
          Event recorded;
          uint64_t range = 0;
          EXPECT_OK(orMallocHost(&host, 4096));
          EXPECT_OK(launch(stream, [] {}));
          EXPECT_OK(orEventRecord(recorded, stream));
          EXPECT_OK(orTraceRangeStart("range", &range));
          EXPECT_OK(orTraceRangeEnd(range));
          EXPECT_OK(orFree(memory));
          EXPECT_OK(orFreeHost(host));
        }
      });
    }
    for (int i = 0; i < 100; ++i) {
      EXPECT_TRUE(in_forked_child([&] {
        alarm(20);  // kills a child that hangs, which fails the test
        uint64_t range = 0;
        EXPECT_EQ(orIsForked(), 1);
        EXPECT_FAILS(orErrorForked, orFree(inherited), "spawn");
        EXPECT_FAILS(orErrorForked, orFreeHost(pinned), "spawn");
        EXPECT_FAILS(orErrorForked, orEventDestroy(event), "spawn");
        EXPECT_FAILS(orErrorForked, orStreamDestroy(stream), "spawn");
        EXPECT_FAILS(orErrorForked, orDeviceSynchronize(), "spawn");
        EXPECT_OK(orTraceRangeStart("range", &range));
        EXPECT_OK(orTraceRangeEnd(range));
      }));
    }
    EXPECT_EQ(orIsForked(), 0);
    stop.store(true);
    for (std::thread& thread : threads) thread.join();
    EXPECT_OK(orFree(inherited));
    EXPECT_OK(orFreeHost(pinned));
  });
}

TEST(ProcessDeathTest, ForkBeforeUseWorks) {
  SKIP_FORK_UNDER_THREAD_SANITIZER();
  in_fresh_process([&] {
    const auto use = [] {
      void* pointer = allocate(4096);
      EXPECT_OK(orMemset(pointer, 1, 4096));
      EXPECT_OK(orFree(pointer));
    };
    EXPECT_TRUE(in_forked_child(use));
    int count = 0;
    EXPECT_OK(orGetDeviceCount(&count));  // opens no device
    EXPECT_TRUE(in_forked_child(use));
    use();
  });
}

TEST(ProcessDeathTest, ForkedChildCannotAccessTheParentsDevice) {
  SKIP_FORK_UNDER_THREAD_SANITIZER();
  in_fresh_process([&] {
    auto* view = kernel_view<volatile char>(allocate(4096));
    EXPECT_OK(run(nullptr, [&] { view[0] = 42; }));
    EXPECT_FALSE(in_forked_child([&] { view[0] = 13; }));
    EXPECT_OK(run(nullptr, [&] { EXPECT_EQ(view[0], 42); }));
  });
}

TEST(ProcessDeathTest, ExitWithWorkPending) {
  in_fresh_process([&] {
    static std::atomic<bool> never{false};
    for (int i = 0; i < 16; ++i) {
      Stream stream;
      for (int j = 0; j < 100; ++j) {
        EXPECT_OK(launch(stream, [] { std::this_thread::sleep_for(std::chrono::microseconds(50)); }));
      }
    }
    Stream stuck;
    EXPECT_OK(launch(stuck, [] { never.wait(false); }));
  });
}

TEST(ProcessDeathTest, ExitWhileThreadsCallTheRuntime) {
  in_fresh_process([&] {
    for (int t = 0; t < 2; ++t) {
      std::thread([] {
        static const orKernel kernel = {"nothing", [](void*, char*, size_t) { return orSuccess; }, nullptr};
        for (;;) {
          (void)orLaunchKernel(nullptr, &kernel, nullptr, 0);
          (void)orStreamSynchronize(nullptr);
        }
      }).detach();
    }
    for (int i = 0; i < 100; ++i) EXPECT_OK(run(nullptr, [] {}));
  });
}
