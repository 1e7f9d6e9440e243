// Tests of openreg/kernel_hooks.h. Hooks stay until the end of the process, so each test is a process.
#include "support.h"

#include <openreg/kernel_hooks.h>

#include <mutex>
#include <vector>

using namespace support;

namespace {

std::mutex mutex;  // guards the names
std::vector<std::string> names;
std::atomic<uint64_t> launches{0};

// Fails kernels after they have run, if their launch has this number.
constexpr uint64_t kFailing = 3;

orError_t observe(const orKernelCall* call, char* why, size_t why_size) {
  {
    const std::lock_guard lock(mutex);
    names.emplace_back(call->name);
  }
  const orError_t result = call->run(call->args, why, why_size);
  if (call->launch != kFailing) return result;
  std::snprintf(why, why_size, "the hook says no");
  return orErrorKernelFailed;
}

const orKernelHooks kHooks = {sizeof(orKernelHooks), [] { return ++launches; }, &observe};

}  // namespace

TEST(KernelHooksDeathTest, SeeEveryKernelCopyAndFill) {
  in_fresh_process([] {
    ASSERT_OK(orSetKernelHooks(&kHooks));
    Stream stream;
    void* memory = nullptr;
    ASSERT_OK(orMalloc(&memory, 512));
    int ran = 0;
    EXPECT_OK(launch(stream, [&] { ++ran; }));
    EXPECT_OK(run(stream, [&] { ++ran; }));
    EXPECT_FALSE(launches == kFailing);
    launches = kFailing;
    char bytes[512];
    EXPECT_OK(orMemsetAsync(memory, 5, 512, stream));
    EXPECT_OK(orMemcpyAsync(bytes, memory, 512, orMemcpyDeviceToHost, stream));
    EXPECT_OK(orStreamSynchronize(stream));
    EXPECT_EQ(bytes[511], 5);
    EXPECT_EQ(ran, 2);
    EXPECT_EQ(names, (std::vector<std::string>{"body", "body", "fill", "copy"}));
  });
}

TEST(KernelHooksDeathTest, CanFailAKernel) {
  in_fresh_process([] {
    launches = kFailing - 1;
    ASSERT_OK(orSetKernelHooks(&kHooks));
    Stream stream;
    bool ran = false;
    EXPECT_OK(launch(stream, [&] { ran = true; }));
    EXPECT_FAILS(orErrorKernelFailed, orStreamSynchronize(stream), "kernel 'body' failed");
    EXPECT_TRUE(ran);
    launches = kFailing - 1;
    EXPECT_FAILS(orErrorKernelFailed, run(stream, [] {}), "the hook says no");
  });
}

TEST(KernelHooksDeathTest, SeeKernelsOfGraphs) {
  in_fresh_process([] {
    ASSERT_OK(orSetKernelHooks(&kHooks));
    Stream stream;
    int ran = 0;
    ASSERT_OK(orStreamBeginCapture(stream, orCaptureGlobal));
    EXPECT_OK(launch(stream, [&] { ++ran; }));
    orGraph_t graph = nullptr;
    ASSERT_OK(orStreamEndCapture(stream, &graph));
    EXPECT_TRUE(names.empty());
    EXPECT_OK(orGraphLaunch(graph, stream));
    EXPECT_OK(orGraphLaunch(graph, stream));
    EXPECT_OK(orStreamSynchronize(stream));
    EXPECT_EQ(ran, 2);
    EXPECT_EQ(names.size(), 2u);
    EXPECT_OK(orGraphDestroy(graph));
  });
}

TEST(KernelHooksDeathTest, AreSetOnceAndBeforeTheFirstUse) {
  in_fresh_process([] {
    const orKernelHooks none = {sizeof(orKernelHooks), nullptr, nullptr};
    EXPECT_FAILS(orErrorInvalidValue, orSetKernelHooks(&none), "run is NULL");
    EXPECT_FAILS(orErrorInvalidValue, orSetKernelHooks(nullptr), "hooks is NULL");
    ASSERT_OK(orSetKernelHooks(&kHooks));
    EXPECT_FAILS(orErrorNotPermitted, orSetKernelHooks(&kHooks), "the process has kernel hooks");
  });
  in_fresh_process([] {
    const Stream stream;
    EXPECT_FAILS(orErrorNotPermitted, orSetKernelHooks(&kHooks), "device 0 is open");
  });
}
