// Device code: modules and functions, on the discrete driver. Each test runs in a new process, with its own
// driver.
#include "support.h"

#include <openreg/kernel_library.h>
#include <openreg/module.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

using namespace support;

namespace {

constexpr orLaunchConfig kOne = {sizeof(orLaunchConfig), {1, 1, 1}, {1, 1, 1}, 0};

template <typename Function>
void on_discrete(Function function) {
  in_fresh_process([&] {
    setenv("OPENREG_DRIVER", OPENREG_DISCRETE, 1);
    function();
  });
}

orModule_t built_in() {
  orModule_t module = nullptr;
  EXPECT_OK(orModuleLoad(&module, nullptr, 0));
  return module;
}

orFunction_t function_of(orModule_t module, const char* name) {
  orFunction_t function = nullptr;
  EXPECT_OK(orModuleGetFunction(&function, module, name));
  return function;
}

// out = a + scalar * b, of dense operands
orElementwiseArgs add_args(void* out, void* a, void* b, int64_t count, double scalar) {
  orElementwiseArgs args{};
  args.struct_size = sizeof(args);
  args.dims = 1;
  args.sizes[0] = count;
  for (int i = 0; i < 3; ++i) args.strides[i][0] = sizeof(float);
  args.data[0] = out, args.data[1] = a, args.data[2] = b;
  args.scalar = scalar;
  return args;
}

std::vector<char> image() {
  std::ifstream file(OPENREG_TEST_DRIVERS "/image.so", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST(ModuleDeathTest, BuiltInFunctions) {
  on_discrete([] {
    ptrdiff_t offset;
    EXPECT_FAILS(orErrorNotSupported, orGetKernelViewOffset(&offset, 0), "'discrete'");
    orModule_t module = built_in();
    orFunction_t add = function_of(module, "binary.add.float32");
    EXPECT_EQ(add, function_of(module, "binary.add.float32"));
    constexpr int kCount = 1000;
    const std::vector<float> ones(kCount, 1.0f);
    float* memory = static_cast<float*>(allocate(2 * kCount * sizeof(float)));
    Stream stream;
    EXPECT_OK(orMemcpyAsync(memory, ones.data(), kCount * sizeof(float), orMemcpyHostToDevice, stream));
    orElementwiseArgs args = add_args(memory + kCount, memory, memory, kCount, 3);
    EXPECT_OK(orLaunchFunction(add, &kOne, &args, sizeof(args), stream));
    args = {};  // copied
    std::vector<float> result(kCount);
    EXPECT_OK(
        orMemcpyAsync(result.data(), memory + kCount, kCount * sizeof(float), orMemcpyDeviceToHost, stream));
    EXPECT_EQ(result, std::vector<float>(kCount, 4.0f));
    orFunction_t none = nullptr;
    EXPECT_FAILS(orErrorNotSupported, orModuleGetFunction(&none, module, "binary.add.complex64"),
                 "no function 'binary.add.complex64'");
    EXPECT_OK(orFree(memory));
  });
}

TEST(ModuleDeathTest, ImagesGridsAndSharedMemory) {
  on_discrete([] {
    const std::vector<char> bytes = image();
    orModule_t module = nullptr;
    EXPECT_OK(orModuleLoad(&module, bytes.data(), bytes.size()));
    int* memory = static_cast<int*>(allocate(12 * sizeof(int)));
    EXPECT_OK(orMemset(memory, 0, 12 * sizeof(int)));
    const struct {
      int* data;
      int count;
    } args = {memory, 4};
    const orLaunchConfig config = {sizeof(orLaunchConfig), {3, 1, 1}, {1, 1, 1}, 4 * sizeof(int)};
    EXPECT_OK(orLaunchFunction(function_of(module, "add_index"), &config, &args, sizeof(args), nullptr));
    int result[12];
    EXPECT_OK(orMemcpy(result, memory, sizeof(result), orMemcpyDeviceToHost));
    for (int i = 0; i < 12; ++i) EXPECT_EQ(result[i], i / 4);
    EXPECT_OK(orLaunchFunction(function_of(module, "fails"), &config, nullptr, 0, nullptr));
    EXPECT_FAILS(orErrorKernelFailed, orStreamSynchronize(nullptr), "block 0 is wrong");
    orModule_t bad = nullptr;
    EXPECT_FAILS(orErrorInvalidValue, orModuleLoad(&bad, "not an image", 12), "not an ELF library");
    EXPECT_OK(orFree(memory));
  });
}

TEST(ModuleDeathTest, UnloadAndResetInvalidateHandles) {
  on_discrete([] {
    orModule_t module = built_in(), other = built_in();
    EXPECT_NE(module, other);
    orFunction_t fill = function_of(module, "fill.value.float32");
    orFunction_t kept = function_of(other, "fill.value.float32");
    float* memory = static_cast<float*>(allocate(sizeof(float)));
    orElementwiseArgs args = add_args(memory, nullptr, nullptr, 1, 7);
    Stream stream;
    Gate gate;
    EXPECT_OK(launch(stream, [&] { gate.wait(); }));
    EXPECT_OK(orLaunchFunction(fill, &kOne, &args, sizeof(args), stream));
    EXPECT_OK(orModuleUnload(module));
    EXPECT_FAILS(orErrorInvalidHandle, orModuleUnload(module), "unloaded");
    EXPECT_FAILS(orErrorInvalidHandle, orLaunchFunction(fill, &kOne, &args, sizeof(args), stream),
                 "unloaded");
    gate.open();
    EXPECT_OK(orStreamSynchronize(stream));
    float value = 0;
    EXPECT_OK(orMemcpy(&value, memory, sizeof(value), orMemcpyDeviceToHost));
    EXPECT_EQ(value, 7.0f);  // the launch before the unload has run
    EXPECT_OK(orLaunchFunction(kept, &kOne, &args, sizeof(args), stream));
    EXPECT_OK(orDeviceReset());
    EXPECT_FAILS(orErrorInvalidHandle, orModuleGetFunction(&kept, other, "fill.value.float32"), "unloaded");
    EXPECT_FAILS(orErrorInvalidHandle, orLaunchFunction(kept, &kOne, &args, sizeof(args), nullptr),
                 "unloaded");
    std::exit(::testing::Test::HasFailure() ? 1 : 0);  // the stream's handle is invalid, too
  });
}

TEST(ModuleDeathTest, InvalidLaunches) {
  on_discrete([] {
    orModule_t module = built_in();
    orFunction_t fill = function_of(module, "fill.value.float32");
    orLaunchConfig config = kOne;
    config.grid[1] = 0;
    EXPECT_FAILS(orErrorInvalidValue, orLaunchFunction(fill, &config, nullptr, 0, nullptr),
                 "the grid is 1 x 0 x 1");
    config = {};
    EXPECT_FAILS(orErrorInvalidValue, orLaunchFunction(fill, &config, nullptr, 0, nullptr), "struct_size");
    EXPECT_FAILS(orErrorInvalidValue, orLaunchFunction(fill, nullptr, nullptr, 0, nullptr), "NULL");
    EXPECT_FAILS(orErrorInvalidValue, orLaunchFunction(fill, &kOne, nullptr, 8, nullptr), "args_size is 8");
    EXPECT_FAILS(orErrorInvalidHandle, orLaunchFunction(nullptr, &kOne, nullptr, 0, nullptr),
                 "not a function");
    Stream second(1);
    EXPECT_FAILS(orErrorInvalidValue, orLaunchFunction(fill, &kOne, nullptr, 0, second),
                 "loaded on device 0; load the module on each device");
    EXPECT_FAILS(orErrorInvalidValue, orModuleLoad(&module, nullptr, 8), "8 bytes");
    EXPECT_FAILS(orErrorInvalidValue, orModuleLoad(nullptr, nullptr, 0), "NULL");
    EXPECT_FAILS(orErrorInvalidValue, orModuleGetFunction(&fill, module, nullptr), "NULL");
  });
}

TEST(ModuleDeathTest, FunctionsInGraphsAndTraces) {
  on_discrete([] {
    orFunction_t add = function_of(built_in(), "binary.add.float32");
    float* memory = static_cast<float*>(allocate(sizeof(float)));
    EXPECT_OK(orMemset(memory, 0, sizeof(float)));
    const float one = 1;
    float* ones = static_cast<float*>(allocate(sizeof(float)));
    EXPECT_OK(orMemcpy(ones, &one, sizeof(one), orMemcpyHostToDevice));
    const orElementwiseArgs args = add_args(memory, memory, ones, 1, 1);
    static std::atomic<int> traced{0};
    EXPECT_OK(orTraceSubscribe(
        [](const orTraceRecord* record, void*) {
          if (std::string(record->name) == "binary.add.float32" && record->phase == orTraceFinished) ++traced;
        },
        nullptr));
    Stream stream;
    orGraph_t graph = nullptr;
    EXPECT_OK(orStreamBeginCapture(stream, orCaptureGlobal));
    EXPECT_OK(orLaunchFunction(add, &kOne, &args, sizeof(args), stream));
    EXPECT_OK(orStreamEndCapture(stream, &graph));
    for (int i = 0; i < 5; ++i) EXPECT_OK(orGraphLaunch(graph, stream));
    EXPECT_OK(orLaunchFunction(add, &kOne, &args, sizeof(args), stream));
    EXPECT_OK(orStreamSynchronize(stream));
    float value = 0;
    EXPECT_OK(orMemcpy(&value, memory, sizeof(value), orMemcpyDeviceToHost));
    EXPECT_EQ(value, 6.0f);
    EXPECT_EQ(traced, 6);
    EXPECT_OK(orTraceUnsubscribe());
    EXPECT_OK(orGraphDestroy(graph));
  });
}

TEST(ModuleDeathTest, NativeHandles) {
  on_discrete([] {
    Stream first, second;
    void *a = nullptr, *b = nullptr, *device = nullptr;
    EXPECT_OK(orStreamGetNativeHandle(first, &a));
    EXPECT_OK(orStreamGetNativeHandle(second, &b));
    EXPECT_TRUE(a && b && a != b);
    EXPECT_OK(orDeviceGetNativeHandle(1, &device));
    EXPECT_EQ(device, reinterpret_cast<void*>(2));
    EXPECT_FAILS(orErrorInvalidDevice, orDeviceGetNativeHandle(9, &device), "9");
    EXPECT_FAILS(orErrorInvalidValue, orStreamGetNativeHandle(first, nullptr), "NULL");
  });
}

TEST(Module, ADriverWithoutDeviceCode) {
  orModule_t module = nullptr;
  EXPECT_FAILS(orErrorNotSupported, orModuleLoad(&module, nullptr, 0), "'sim' has no device code");
  void* handle = nullptr;
  EXPECT_FAILS(orErrorNotSupported, orStreamGetNativeHandle(nullptr, &handle), "'sim'");
  EXPECT_FAILS(orErrorNotSupported, orDeviceGetNativeHandle(0, &handle), "'sim'");
}
