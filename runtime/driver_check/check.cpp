#include "check.h"

#include "error.h"

#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <ctime>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace openreg::check {
namespace {

// Not 0 while this thread is inside stream_launch.
thread_local int launching = 0;

orError_t run_body(void* args, char* why, size_t why_size) {
  const std::string reason = (**static_cast<Body**>(args))();
  if (reason.empty()) return orSuccess;
  std::snprintf(why, why_size, "%s", reason.c_str());
  return orErrorInvalidValue;
}

void release_body(void* args) {
  delete *static_cast<Body**>(args);
}

constexpr orKernel kBody = {"check", &run_body, &release_body};

}  // namespace

void violation(const char* format, ...) {
  char text[1024];
  std::va_list values;
  va_start(values, format);
  std::vsnprintf(text, sizeof(text), format, values);
  va_end(values);
  std::printf("%s\n", text);
  std::fflush(nullptr);
  _exit(kViolated);
}

void expect(orError_t code, orError_t expected, const char* expression) {
  if (code == expected) {
    if (code != orSuccess) static_cast<void>(from_driver(code));  // forgets the driver's message
    return;
  }
  const char* message = "";
  if (from_driver(code) != orSuccess) message = orGetLastErrorMessage();
  violation("%s returned %s (%d)%s%s, not %s", expression, orGetErrorName(code), static_cast<int>(code),
            *message ? ": " : "", message, orGetErrorName(expected));
}

orError_t launch(const orDriver& driver, orDriverStream* stream, Body body, const orObserver* observer) {
  auto* made = new Body(std::move(body));
  ++launching;
  const orError_t error = driver.stream_launch(stream, &kBody, &made, sizeof(made), observer);
  --launching;
  if (error != orSuccess) delete made;
  return error;
}

void Gate::wait() const {
  if (launching == 0) open_.wait(false);
}

void Gate::open() {
  open_.store(true);
  open_.notify_all();
}

Body slow(std::function<void()> then) {
  return [then = std::move(then)] {
    for (const int64_t begin = now_ns(); now_ns() - begin < 100'000'000;) {
    }
    then();
    return std::string();
  };
}

bool becomes_set(const std::atomic<bool>& flag) {
  for (const int64_t begin = now_ns(); !flag && now_ns() - begin < 300'000'000;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return flag;
}

bool asynchronous(const orDriver& driver) {
  const Stream stream(driver);
  std::atomic<bool> inside{false};
  OK(launch(driver, stream, [&] {
    inside = launching != 0;
    return std::string();
  }));
  stream.synchronize();
  return !inside;
}

void require_asynchronous(const orDriver& driver) {
  if (!asynchronous(driver)) throw Skipped{"work runs inside the launching call"};
}

int64_t now_ns() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec;
}

orDeviceProperties properties_of(const orDriver& driver, int device) {
  orDeviceProperties properties{};
  properties.struct_size = sizeof(properties);
  OK(driver.device_properties(device, &properties));
  return properties;
}

int count_devices(const orDriver& driver) {
  int count = -1;
  OK(driver.device_count(&count));
  REQUIRE(count >= 0 && count <= OR_MAX_DEVICES, "device_count is %d; the supported range is 1 to %d", count,
          OR_MAX_DEVICES);
  return count;
}

Stream::Stream(const orDriver& driver, int device, int priority) : driver_(driver) {
  static std::atomic<uint64_t> next{1};
  OK(driver.stream_create(device, priority, next++, &stream_));
  REQUIRE(stream_ != nullptr, "stream_create returned orSuccess and no stream");
}

void Stream::synchronize() const {
  OK(driver_.stream_synchronize(stream_));
}

Event::Event(const orDriver& driver, int device, unsigned flags) : driver_(driver) {
  OK(driver.event_create(device, flags, &event_));
  REQUIRE(event_ != nullptr, "event_create returned orSuccess and no event");
}

Memory::Memory(const orDriver& driver, size_t size, int device) : driver_(driver), device_(device) {
  const size_t granularity = properties_of(driver, device).allocation_granularity;
  size_ = (size + granularity - 1) / granularity * granularity;
  OK(driver.memory_alloc(device, size_, &pointer_));
  REQUIRE(pointer_ != nullptr, "memory_alloc returned orSuccess and NULL");
}

void Memory::write(const std::vector<unsigned char>& bytes, size_t offset) const {
  const Stream stream(driver_, device_);
  OK(driver_.stream_copy(stream, get() + offset, bytes.data(), bytes.size(), orMemcpyHostToDevice, nullptr));
  stream.synchronize();
}

std::vector<unsigned char> Memory::read(size_t size, size_t offset) const {
  const Stream stream(driver_, device_);
  std::vector<unsigned char> bytes(size);
  OK(driver_.stream_copy(stream, bytes.data(), get() + offset, size, orMemcpyDeviceToHost, nullptr));
  stream.synchronize();
  return bytes;
}

std::vector<unsigned char> pattern(size_t size, unsigned seed) {
  std::vector<unsigned char> bytes(size);
  uint32_t state = seed * 2654435761u + 1;
  for (unsigned char& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<unsigned char>(state >> 24);
  }
  return bytes;
}

bool in_forked_child(const std::function<void()>& body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    body();
    std::fflush(nullptr);
    _exit(kPassed);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == kPassed;
}

}  // namespace openreg::check
