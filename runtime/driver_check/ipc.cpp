// Memory and events shared between processes; see Note [Interprocess sharing] in openreg.h.
#include "check.h"

#include <cstring>

namespace openreg::check {
namespace {

void require_ipc(const orDriver& driver) {
  if (!(driver.capabilities & OR_CAP_IPC)) throw Skipped{"no OR_CAP_IPC"};
}

constexpr size_t kSize = 4096;
constexpr size_t kOffset = 256;  // of the shared bytes in their allocation

template <typename Handle>
std::string to_hex(const Handle& handle) {
  std::string text;
  char digits[3];
  for (const unsigned char byte : handle.bytes) {
    std::snprintf(digits, sizeof(digits), "%02x", byte);
    text += digits;
  }
  return text;
}

template <typename Handle>
Handle from_hex(const std::string& text, size_t begin) {
  Handle handle{};
  for (size_t i = 0; i < sizeof(handle.bytes); ++i) {
    handle.bytes[i] = static_cast<unsigned char>(std::stoi(text.substr(begin + 2 * i, 2), nullptr, 16));
  }
  return handle;
}

void share(const orDriver& driver) {
  require_ipc(driver);
  const Memory memory(driver, kSize + kOffset);
  memory.write(pattern(kSize), kOffset);
  orIpcMemHandle_t handle{};
  OK(driver.ipc_name(0, memory.get(), memory.size(), memory.get() + kOffset, kSize, &handle));
  const Event event(driver, 0, orEventDisableTiming | orEventInterprocess);
  const Stream stream(driver);
  orIpcEventHandle_t event_handle{};
  OK(driver.event_record(event, stream));
  OK(driver.ipc_name_event(event, &event_handle));
  REQUIRE(run_peer(to_hex(handle) + to_hex(event_handle)), "the second process failed");
  REQUIRE(memory.read(kSize, kOffset) == pattern(kSize, 2),
          "bytes that another process wrote are not in the memory");
  EXPECT(orSuccess, driver.event_synchronize(event));
  OK(driver.ipc_withdraw(0, memory.get(), 1));
}

void forged(const orDriver& driver) {
  require_ipc(driver);
  const Memory memory(driver, kSize);
  orIpcMemHandle_t handle{};
  OK(driver.ipc_name(0, memory.get(), memory.size(), memory.get(), kSize, &handle));
  orDriverIpcMemory opened{};
  EXPECT(orErrorNotPermitted, driver.ipc_open(&handle, &opened));  // this process has created it
  for (unsigned char& byte : handle.bytes) byte ^= 0x5a;
  EXPECT(orErrorInvalidHandle, driver.ipc_open(&handle, &opened));
  OK(driver.ipc_withdraw(0, memory.get(), 0));
}

constexpr Check kChecks[] = {
    {"ipc-share", "another process reads and writes shared memory, and records a shared event", &share},
    {"ipc-forged", "a forged handle is rejected, as is one of the own process", &forged},
};

}  // namespace

int ipc_peer(const orDriver& driver, const std::string& argument) {
  const auto handle = from_hex<orIpcMemHandle_t>(argument, 0);
  const auto event_handle = from_hex<orIpcEventHandle_t>(argument, 2 * sizeof(handle.bytes));
  orDriverIpcMemory memory{};
  OK(driver.device_open(0));
  OK(driver.ipc_open(&handle, &memory));
  REQUIRE(memory.ptr && memory.size == kSize && memory.device == 0,
          "ipc_open returned %zu bytes of device %d, not %zu of device 0", memory.size, memory.device, kSize);
  {
    const Stream stream(driver);
    std::vector<unsigned char> bytes(kSize);
    OK(driver.stream_copy(stream, bytes.data(), memory.ptr, kSize, orMemcpyDeviceToHost, nullptr));
    stream.synchronize();
    REQUIRE(bytes == pattern(kSize), "ipc_open: the memory has other bytes than in its process");
    bytes = pattern(kSize, 2);
    OK(driver.stream_copy(stream, memory.ptr, bytes.data(), kSize, orMemcpyHostToDevice, nullptr));
    orDriverEvent* event = nullptr;
    int device = -1;
    OK(driver.ipc_open_event(&event_handle, &device, &event));
    OK(driver.event_record(event, stream));
    OK(driver.event_synchronize(event));
    OK(driver.event_destroy(event));
  }
  int last = 0;
  OK(driver.ipc_close(memory.ptr, &last));
  REQUIRE(last == 1, "ipc_close: *last is %d for the only handle of the allocation", last);
  return kPassed;
}

std::span<const Check> ipc_checks() {
  return kChecks;
}

}  // namespace openreg::check
