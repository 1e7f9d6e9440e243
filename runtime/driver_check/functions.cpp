// Device code; see Note [Device code] in device_code.h.
#include "check.h"
#include "openreg/kernel_library.h"

#include <thread>

namespace openreg::check {
namespace {

constexpr orLaunchConfig kOne = {sizeof(orLaunchConfig), {1, 1, 1}, {1, 1, 1}, 0};

orDriverModule* load(const orDriver& driver) {
  if (!driver.module_load) throw Skipped{"no device code"};
  orDriverModule* module = nullptr;
  OK(driver.module_load(0, nullptr, 0, &module));
  return module;
}

void missing(const orDriver& driver) {
  orDriverModule* module = load(driver);
  orDriverFunction* function = nullptr;
  EXPECT(orErrorNotSupported, driver.module_function(module, "openreg.no_such_function", &function));
  OK(driver.module_unload(module));
}

void image(const orDriver& driver) {
  static_cast<void>(load(driver));
  const auto bytes = pattern(1000);
  orDriverModule* module = nullptr;
  EXPECT(orErrorInvalidValue, driver.module_load(0, bytes.data(), bytes.size(), &module));
}

orElementwiseArgs fill_args(void* memory, int64_t count, double value) {
  orElementwiseArgs args{};
  args.struct_size = sizeof(args);
  args.dims = 1;
  args.sizes[0] = count;
  args.strides[0][0] = sizeof(float);
  args.data[0] = memory;
  args.scalar = value;
  return args;
}

// Functions run in stream order, between copies, with their own copy of the arguments.
void order(const orDriver& driver) {
  orDriverModule* module = load(driver);
  orDriverFunction* fill = nullptr;
  if (driver.module_function(module, "fill.value.float32", &fill) != orSuccess) {
    throw Skipped{"no function 'fill.value.float32'"};
  }
  constexpr int kElements = 1000;
  const Memory memory(driver, kElements * sizeof(float));
  const Stream stream(driver);
  Gate gate;
  std::vector<float> first(kElements), second(kElements);
  OK(launch(driver, stream, gate.body()));
  for (std::vector<float>* out : {&first, &second}) {
    const orElementwiseArgs args = fill_args(memory.get(), kElements, out == &first ? 1.5 : 2.5);
    OK(driver.stream_launch_function(stream, fill, &kOne, &args, sizeof(args), nullptr));
    OK(driver.stream_copy(stream, out->data(), memory.get(), kElements * sizeof(float), orMemcpyDeviceToHost,
                          nullptr));
  }
  gate.open();
  stream.synchronize();
  REQUIRE(first == std::vector<float>(kElements, 1.5f) && second == std::vector<float>(kElements, 2.5f),
          "functions and copies of a stream do not run in submission order, with copies of their arguments");
  OK(driver.module_unload(module));
}

// The first launch of a program may be in a capture, and other threads load modules meanwhile.
void capture(const orDriver& driver) {
  if (!driver.module_load) throw Skipped{"no device code"};
  if (!driver.stream_begin_capture) throw Skipped{"no graphs"};
  const Stream stream(driver);
  const Memory memory(driver, sizeof(float));
  memory.write(std::vector<unsigned char>(sizeof(float), 0));
  OK(driver.stream_begin_capture(stream, orCaptureGlobal));
  std::thread([&] {
    orDriverModule* other = nullptr;
    orDriverFunction* function = nullptr;
    OK(driver.module_load(0, nullptr, 0, &other));
    static_cast<void>(driver.module_function(other, "fill.value.float32", &function));
  }).join();
  orDriverFunction* fill = nullptr;
  if (driver.module_function(load(driver), "fill.value.float32", &fill) != orSuccess) {
    throw Skipped{"no function 'fill.value.float32'"};
  }
  const orElementwiseArgs args = fill_args(memory.get(), 1, 1.5);
  OK(driver.stream_launch_function(stream, fill, &kOne, &args, sizeof(args), nullptr));
  orDriverGraph* graph = nullptr;
  size_t nodes = 0;
  OK(driver.stream_end_capture(stream, &graph, &nodes));
  REQUIRE(memory.read(sizeof(float)) == std::vector<unsigned char>(sizeof(float), 0),
          "a captured function ran before the graph was launched");
  OK(driver.graph_launch(graph, stream, nullptr));
  stream.synchronize();
  const float expected = 1.5f;
  const auto* bytes = reinterpret_cast<const unsigned char*>(&expected);
  REQUIRE(memory.read(sizeof(float)) == std::vector<unsigned char>(bytes, bytes + sizeof(float)),
          "a captured function did not run when the graph was launched");
  OK(driver.graph_destroy(graph));
}

constexpr Check kChecks[] = {
    {"function-missing", "module_function returns orErrorNotSupported for an unknown name", &missing},
    {"function-image", "module_load rejects an image that is no device code", &image},
    {"function-capture", "modules are loaded and functions are launched in a capture", &capture},
    {"function-order", "functions run in stream order, with a copy of their arguments", &order},
};

}  // namespace

std::span<const Check> function_checks() {
  return kChecks;
}

}  // namespace openreg::check
