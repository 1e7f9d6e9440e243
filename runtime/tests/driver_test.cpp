// Loading of drivers: versions, sizes, and what each failure reports. Each test runs in a new process, since
// a process has one driver.
#include "support.h"

#include <openreg/driver.h>
#include <openreg/module.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

using namespace support;

namespace {

std::string test_driver(const std::string& name) {
  return OPENREG_TEST_DRIVERS "/" + name + ".so";
}

orDriverInfo driver_info() {
  orDriverInfo info{};
  info.struct_size = sizeof(info);
  EXPECT_OK(orGetDriverInfo(&info));
  return info;
}

// Memory, a copy each way, a kernel, streams and events.
void use_device() {
  int count = 0;
  ASSERT_OK(orGetDeviceCount(&count));
  ASSERT_GE(count, 1);
  int* memory = static_cast<int*>(allocate(sizeof(int)));
  Stream stream;
  Event event;
  int value = 41;
  ASSERT_OK(orMemcpyAsync(memory, &value, sizeof(value), orMemcpyHostToDevice, stream));
  ASSERT_OK(launch(stream, [=] { ++*kernel_view<int>(memory); }));
  ASSERT_OK(orEventRecord(event, stream));
  ASSERT_OK(orEventSynchronize(event));
  ASSERT_OK(orMemcpy(&value, memory, sizeof(value), orMemcpyDeviceToHost));
  EXPECT_EQ(value, 42);
  ASSERT_OK(launch(stream, [] { return std::string("bad input"); }));
  EXPECT_FAILS(orErrorKernelFailed, orStreamSynchronize(stream), "bad input");
  EXPECT_OK(orFree(memory));
}

// Uses the driver in a new process. `check` runs before the first use.
template <typename Check>
void with_driver(const std::string& path, Check check) {
  in_fresh_process([&] {
    setenv("OPENREG_DRIVER", path.c_str(), 1);
    check();
  });
}

// Expects every use to fail with a message that contains the parts.
void expect_rejected(const std::string& path, orError_t code, const std::vector<std::string>& parts) {
  with_driver(path, [&] {
    for (int attempt = 0; attempt < 2; ++attempt) {
      int count = -1;
      EXPECT_EQ(orGetDeviceCount(&count), code);
      for (const std::string& part : parts) {
        EXPECT_NE(std::string(orGetLastErrorMessage()).find(part), std::string::npos)
            << "'" << part << "' is not in: " << orGetLastErrorMessage();
      }
    }
    EXPECT_EQ(orIsForked(), 0);
  });
}

void expect_broken(const char* change, orError_t code, const std::vector<std::string>& parts) {
  SCOPED_TRACE(change);
  setenv("BROKEN_DRIVER", change, 1);
  std::vector<std::string> all = parts;
  all.push_back(test_driver("broken"));
  expect_rejected(test_driver("broken"), code, all);
  unsetenv("BROKEN_DRIVER");
}

// The path is the same in the process of a death test, which writes the file again.
std::string write_file(const char* name, const std::vector<char>& bytes) {
  const std::string path = test_driver(name);
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

std::vector<char> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST(DriverDeathTest, TheEmbeddedDriverIsTheDefault) {
  in_fresh_process([] {
    const orDriverInfo info = driver_info();
    EXPECT_STREQ(info.name, "sim");
    EXPECT_STREQ(info.path, "");
    EXPECT_EQ(info.version, static_cast<uint32_t>(OR_DRIVER_VERSION));
    EXPECT_EQ(info.runtime_version, static_cast<uint32_t>(OR_DRIVER_VERSION));
    EXPECT_EQ(info.table_size, sizeof(orDriver));
    use_device();
  });
  with_driver("sim", [] {
    EXPECT_STREQ(driver_info().path, "");
    use_device();
  });
}

TEST(DriverDeathTest, TheSimulatedDeviceAsALoadedDriver) {
  with_driver(OPENREG_SIM, [] {
    EXPECT_STREQ(driver_info().name, "sim");
    EXPECT_STREQ(driver_info().path, OPENREG_SIM);
    use_device();
  });
}

TEST(DriverDeathTest, ADriverInCAgainstEachVersionOfTheHeader) {
  for (const auto& [name, version] : {std::pair<const char*, uint32_t>{"minimal_v4", 4},
                                      {"minimal", OR_DRIVER_VERSION},
                                      {"minimal_future", OR_DRIVER_VERSION + 1}}) {
    SCOPED_TRACE(name);
    with_driver(test_driver(name), [&, version = version] {
      const orDriverInfo info = driver_info();
      EXPECT_STREQ(info.name, "minimal");
      EXPECT_EQ(info.version, version);
      EXPECT_EQ(info.table_size < sizeof(orDriver), version < OR_DRIVER_VERSION);
      EXPECT_EQ(info.table_size > sizeof(orDriver), version > OR_DRIVER_VERSION);
      use_device();
      // Optional entries that the driver does not have.
      EXPECT_FAILS(orErrorNotSupported, orSetSchedule(orScheduleBlocking, 0), "'minimal'");
      EXPECT_FAILS(orErrorNotSupported, orStreamBeginCapture(nullptr, orCaptureGlobal), "'minimal'");
    });
  }
}

TEST(DriverDeathTest, RegisteredByAPackage) {
  in_fresh_process([] {
    EXPECT_FAILS(orErrorInvalidValue, orSetDriver(nullptr), "NULL");
    EXPECT_FAILS(orErrorInvalidValue, orSetDriver(""), "empty");
    ASSERT_OK(orSetDriver("/nonexistent/first.so"));
    ASSERT_OK(orSetDriver(test_driver("minimal").c_str()));
    EXPECT_STREQ(driver_info().name, "minimal");
    EXPECT_FAILS(orErrorNotPermitted, orSetDriver("sim"), test_driver("minimal"));
    use_device();
  });
  with_driver("sim", [] {  // the variable has precedence
    ASSERT_OK(orSetDriver(test_driver("minimal").c_str()));
    EXPECT_STREQ(driver_info().name, "sim");
  });
  in_fresh_process([] {
    ASSERT_OK(orSetDriver("/nonexistent/libfoo.so"));
    int count = 0;
    EXPECT_FAILS(orErrorDriver, orGetDeviceCount(&count),
                 "cannot open the driver '/nonexistent/libfoo.so' (from orSetDriver): No such file");
  });
}

void expect_freed_memory_may_become_host_memory() {
  constexpr size_t kSize = 4096;
  std::vector<void*> freed;
  for (int i = 0; i < 64; ++i) freed.push_back(allocate(kSize));
  for (void* memory : freed) EXPECT_OK(orFree(memory));
  void* device = allocate(kSize);
  for (int i = 0; i < 64; ++i) {
    std::vector<char> host(kSize, 'x');  // the driver uses malloc, so some of this was device memory
    EXPECT_OK(orMemcpy(device, host.data(), kSize, orMemcpyHostToDevice));
  }
  EXPECT_OK(orFree(device));
}

TEST(DriverDeathTest, FreedUnifiedMemoryMayBecomeHostMemory) {
  with_driver(test_driver("minimal"), expect_freed_memory_may_become_host_memory);
}

TEST(DriverDeathTest, FreedMemoryOfADeviceWithoutAKernelViewMayBecomeHostMemory) {
  with_driver(test_driver("minimal_no_host_code"), expect_freed_memory_may_become_host_memory);
}

TEST(DriverDeathTest, InfoDoesNotInitializeTheDriver) {
  setenv("BROKEN_DRIVER", "init", 1);
  with_driver(test_driver("broken"), [] {
    EXPECT_STREQ(driver_info().name, "sim");
    orDriverInfo info{};
    EXPECT_FAILS(orErrorInvalidValue, orGetDriverInfo(&info), "struct_size");
    EXPECT_FAILS(orErrorInvalidValue, orGetDriverInfo(nullptr), "NULL");
    int count = 0;
    EXPECT_FAILS(orErrorSystem, orGetDeviceCount(&count), "the firmware has version 3; this driver needs 4");
  });
  unsetenv("BROKEN_DRIVER");
}

TEST(DriverDeathTest, FilesThatAreNotDrivers) {
  expect_rejected("/nonexistent/libfoo.so", orErrorDriver,
                  {"/nonexistent/libfoo.so", "OPENREG_DRIVER", "No such file", "check the path"});
  expect_rejected("libnonexistent_driver.so", orErrorDriver, {"libnonexistent_driver.so", "OPENREG_DRIVER"});
  expect_rejected(test_driver("no_symbol"), orErrorDriver,
                  {test_driver("no_symbol"), "does not export 'orGetDriver'"});
  expect_rejected(test_driver("broken"), orErrorDriver, {"orGetDriver returned NULL"});
  expect_rejected("/", orErrorDriver, {"'/'"});
}

TEST(DriverDeathTest, DamagedFiles) {
  const std::string text = write_file("text", std::vector<char>(100, 'x'));
  expect_rejected(text, orErrorDriver, {text, "no ELF header"});
  std::vector<char> bytes = read_file(test_driver("minimal"));
  ASSERT_GT(bytes.size(), 4096u);
  const std::string cut = write_file("cut", {bytes.begin(), bytes.begin() + 4096});
  expect_rejected(cut, orErrorDriver, {cut, "truncated: 4096 of at least"});
  const std::string other = write_file("other", [&] {
    std::vector<char> foreign = bytes;
    foreign[18] = 21, foreign[19] = 0;  // e_machine: PowerPC64
    return foreign;
  }());
  expect_rejected(other, orErrorDriver, {other, "another architecture, PowerPC64 (ELF machine 21)"});
  bytes[4] = 1;  // EI_CLASS: 32 bits
  const std::string narrow = write_file("narrow", bytes);
  expect_rejected(narrow, orErrorDriver, {narrow, "another architecture"});
  for (const std::string& path : {text, cut, other, narrow}) std::filesystem::remove(path);
}

TEST(DriverDeathTest, InvalidTables) {
  expect_broken("required entry", orErrorDriver, {"has no 'stream_copy', which is required"});
  expect_broken("incomplete group", orErrorDriver, {"has 'stream_begin_capture' but not 'graph_node'"});
  expect_broken("capability without entry", orErrorDriver,
                {"OR_CAP_HOST_EXECUTABLE", "no 'kernel_view_offset'"});
  expect_broken("version 0", orErrorDriver, {"version 0", "update the driver"});
  expect_broken("short table", orErrorDriver, {"16 bytes", "sizeof(orDriver)"});
  expect_broken("uninitialized size", orErrorDriver, {"3735928559 bytes", "to 65536"});
  expect_broken("size of a later version", orErrorDriver, {"OR_DRIVER_VERSION"});
  expect_broken("newer runtime", orErrorDriver, {"requires a runtime with version", "update the runtime"});
  expect_broken("no name", orErrorDriver, {"set orDriver.name"});
  expect_broken("init", orErrorSystem, {"failed in init: the firmware has version 3; this driver needs 4"});
  expect_broken("too many devices", orErrorDriver, {"reports 65 devices; the supported range is 0 to 64"});
  expect_broken("granularity 0", orErrorDriver, {"allocation granularity of 0 bytes for device 0"});
}

TEST(DriverDeathTest, SuccessWithoutMemoryIsAnError) {
  setenv("BROKEN_DRIVER", "no memory", 1);
  with_driver(test_driver("broken"), [] {
    void* memory = nullptr;
    EXPECT_FAILS(orErrorDriver, orMalloc(&memory, 100), "returned NULL");
  });
  unsetenv("BROKEN_DRIVER");
}

// The runtime of a process that uses a broken driver.
template <typename Body>
void with_broken(const char* change, Body body) {
  SCOPED_TRACE(change);
  setenv("BROKEN_DRIVER", change, 1);
  with_driver(test_driver("broken"), body);
  unsetenv("BROKEN_DRIVER");
}

TEST(DriverDeathTest, SuccessWithoutAnObjectIsAnError) {
  with_broken("no stream", [] {
    void* memory = nullptr;
    EXPECT_FAILS(orErrorDriver, orMalloc(&memory, 100), "stream_create of the driver 'sim' returned NULL");
    orStream_t stream = nullptr;
    EXPECT_FAILS(orErrorDriver, orStreamCreate(&stream), "stream_create");
  });
  with_broken("no event", [] {
    orEvent_t event = nullptr;
    EXPECT_FAILS(orErrorDriver, orEventCreate(&event), "event_create of the driver 'sim' returned NULL");
  });
  with_broken("no graph", [] {
    Stream stream;
    ASSERT_OK(orStreamBeginCapture(stream, orCaptureRelaxed));
    orGraph_t graph = nullptr;
    EXPECT_FAILS(orErrorDriver, orStreamEndCapture(stream, &graph), "stream_end_capture");
  });
  with_broken("no pinned memory", [] {
    void* memory = nullptr;
    EXPECT_FAILS(orErrorDriver, orMallocHost(&memory, 100), "host_alloc");
  });
  with_broken("no deferred kernel", [] {
    Stream stream;
    ASSERT_OK(launch(stream, [] {
      orDeferred_t deferred = nullptr;
      EXPECT_FAILS(orErrorDriver, orKernelDefer(&deferred), "kernel_defer");
    }));
    EXPECT_OK(orStreamSynchronize(stream));
  });
  with_broken("no module", [] {
    orModule_t module = nullptr;
    EXPECT_FAILS(orErrorDriver, orModuleLoad(&module, nullptr, 0), "module_load");
  });
  with_broken("no function", [] {
    orModule_t module = nullptr;
    ASSERT_OK(orModuleLoad(&module, nullptr, 0));
    orFunction_t function = nullptr;
    EXPECT_FAILS(orErrorDriver, orModuleGetFunction(&function, module, "f"), "module_function");
  });
}

TEST(DriverDeathTest, InvalidSharedObjectsAreErrors) {
  const orIpcMemHandle_t memory{};
  const orIpcEventHandle_t event{};
  void* ptr = nullptr;
  orEvent_t opened = nullptr;
  with_broken("no shared memory", [&] {
    EXPECT_FAILS(orErrorDriver, orIpcOpenMemHandle(&ptr, &memory), "ipc_open of the driver 'sim'");
  });
  with_broken("shared memory of another device",
              [&] { EXPECT_FAILS(orErrorDriver, orIpcOpenMemHandle(&ptr, &memory), "device 99"); });
  with_broken("no shared event",
              [&] { EXPECT_FAILS(orErrorDriver, orIpcOpenEventHandle(&opened, &event), "ipc_open_event"); });
  with_broken("shared event of another device",
              [&] { EXPECT_FAILS(orErrorDriver, orIpcOpenEventHandle(&opened, &event), "device 99"); });
}

TEST(DriverDeathTest, InvalidTextIsReplaced) {
  expect_broken("init with an invalid message", orErrorSystem, {"failed in init: bad ? end"});
  with_broken("invalid name", [] {
    EXPECT_STREQ(driver_info().name, "bad ? end");
    EXPECT_FAILS(orErrorInvalidValue, orMemcpy(nullptr, nullptr, 1, orMemcpyDefault), "NULL");
  });
  with_broken("device-properties: invalid name", [] {
    orDeviceProperties properties{};
    properties.struct_size = sizeof(properties);
    ASSERT_OK(orGetDeviceProperties(&properties, 0));
    EXPECT_EQ(std::string(properties.name), "bad ?" + std::string(58, 'x'));
  });
}

TEST(DriverDeathTest, MessagesNameWhoHasChosenTheDriver) {
  in_fresh_process([] {
    EXPECT_FAILS(orErrorInvalidValue, orSetDriverFrom("sim", nullptr), "origin is NULL");
    EXPECT_FAILS(orErrorInvalidValue, orSetDriverFrom(nullptr, "torch_foo 1.0"), "path is NULL");
    ASSERT_OK(orSetDriverFrom("/nonexistent/libfoo.so", "torch_foo 1.0"));
    int count = 0;
    EXPECT_FAILS(orErrorDriver, orGetDeviceCount(&count), "libfoo.so' (from torch_foo 1.0): No such file");
  });
}

TEST(DriverDeathTest, UnknownErrorCodesKeepTheirNumber) {
  for (const auto& [change, text] :
       {std::pair{"unknown error", "error code 4711 of the driver: unrecognized error code"},
        std::pair{"unknown error with a message", "error code 4711 of the driver: the channel is closed"}}) {
    setenv("BROKEN_DRIVER", change, 1);
    with_driver(test_driver("broken"), [&] {
      void* memory = nullptr;
      EXPECT_FAILS(static_cast<orError_t>(4711), orMalloc(&memory, 100), text);
    });
  }
  unsetenv("BROKEN_DRIVER");
}

TEST(DriverDeathTest, MemoryThatCannotBeFreedStaysUsable) {
  setenv("BROKEN_DRIVER", "first free fails", 1);
  with_driver(test_driver("broken"), [] {
    int* memory = static_cast<int*>(allocate(sizeof(int)));
    EXPECT_EQ(orFree(memory), orErrorSystem);
    int value = 41;
    EXPECT_OK(orMemcpy(memory, &value, sizeof(value), orMemcpyHostToDevice));
    value = 0;
    EXPECT_OK(orMemcpy(&value, memory, sizeof(value), orMemcpyDeviceToHost));
    EXPECT_EQ(value, 41);
    EXPECT_OK(orFree(memory));
    EXPECT_EQ(orFree(memory), orErrorInvalidPointer);
  });
  unsetenv("BROKEN_DRIVER");
}
