#include "device_code/constants.h"

#include "common/check.h"
#include "device/device.h"
#include "device_code/library_functions.h"
#include "stream/capture.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>

namespace openreg {
namespace {

// For each dtype, 1 and -0, in 8 bytes each.
using Numbers = std::array<std::array<uint64_t, 2>, kLibraryDtypes>;

// In device memory; live as long as the process.
std::atomic<char*> stored[kMaxDevices];

template <typename T>
void set(Numbers& numbers, at::ScalarType dtype, T one, T negative_zero) {
  std::memcpy(&numbers[static_cast<size_t>(dtype)][0], &one, sizeof(T));
  std::memcpy(&numbers[static_cast<size_t>(dtype)][1], &negative_zero, sizeof(T));
}

Numbers make_numbers() {
  Numbers numbers{};
  for (const at::ScalarType dtype : {at::kLong, at::kInt, at::kShort, at::kChar, at::kByte, at::kBool}) {
    set<uint64_t>(numbers, dtype, 1, 0);
  }
  set<float>(numbers, at::kFloat, 1, -0.0f);
  set<double>(numbers, at::kDouble, 1, -0.0);
  set<uint16_t>(numbers, at::kHalf, 0x3c00, 0x8000);
  set<uint16_t>(numbers, at::kBFloat16, 0x3f80, 0x8000);
  return numbers;
}

char* numbers_on(c10::DeviceIndex device) {
  char* known = stored[device].load(std::memory_order_acquire);
  if (C10_LIKELY(known != nullptr) || any_capture()) {
    return known;
  }
  const DeviceScope scope(device);
  const Numbers numbers = make_numbers();
  void* memory = nullptr;
  if (orMalloc(&memory, sizeof(numbers)) != orSuccess) {
    return nullptr;
  }
  // On a stream of its own: the host does not wait for work of the program.
  orStream_t stream = nullptr;
  OR_CHECK(orStreamCreate(&stream));
  OR_CHECK(orMemcpyAsync(memory, &numbers, sizeof(numbers), orMemcpyHostToDevice, stream));
  OR_CHECK(orStreamSynchronize(stream));
  OR_CHECK(orStreamDestroy(stream));
  if (stored[device].compare_exchange_strong(known, static_cast<char*>(memory))) {
    return static_cast<char*>(memory);
  }
  OR_CHECK(orFree(memory));  // another thread was faster
  return known;
}

void* number(at::ScalarType dtype, c10::DeviceIndex device, size_t which) {
  char* numbers = numbers_on(device);
  return numbers == nullptr
             ? nullptr
             : numbers + static_cast<size_t>(dtype) * sizeof(Numbers::value_type) + which * sizeof(uint64_t);
}

}  // namespace

void* device_one(at::ScalarType dtype, c10::DeviceIndex device) {
  return number(dtype, device, 0);
}

void* device_negative_zero(at::ScalarType dtype, c10::DeviceIndex device) {
  return number(dtype, device, 1);
}

}  // namespace openreg
