// Helpers shared by the runtime tests.
#pragma once

#include <openreg/openreg.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

#define EXPECT_OK(call) EXPECT_PRED_FORMAT1(::support::succeeded, (call))
#define ASSERT_OK(call) ASSERT_PRED_FORMAT1(::support::succeeded, (call))

// Expects `call` to return `code` with a message that contains `part`, and to set this thread's last error.
#define EXPECT_FAILS(code, call, part)                                            \
  do {                                                                            \
    EXPECT_EQ((call), code) << orGetLastErrorMessage();                           \
    EXPECT_NE(std::string(orGetLastErrorMessage()).find(part), std::string::npos) \
        << "the message is: " << orGetLastErrorMessage();                         \
    EXPECT_EQ(orGetLastError(), code);                                            \
  } while (false)

namespace support {

inline ::testing::AssertionResult succeeded(const char* expression, orError_t error) {
  if (error == orSuccess) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << expression << " returned " << orGetErrorName(error) << ": " << orGetLastErrorMessage();
}

/// Runs the function in a new process, in which the runtime is not initialized.
template <typename Function>
void in_fresh_process(Function function) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        function();
        std::fflush(nullptr);
        std::exit(::testing::Test::HasFailure() ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "");
  GTEST_FLAG_SET(death_test_style, "fast");
}

/// The body of a test kernel. It fails by returning a non-empty message.
using Body = std::function<std::string()>;

inline const orKernel& body_kernel() {
  static const orKernel kernel = {"body",
                                  [](void* args, char* why, size_t why_size) -> orError_t {
                                    const std::string reason = (**static_cast<Body**>(args))();
                                    if (reason.empty()) return orSuccess;
                                    std::snprintf(why, why_size, "%s", reason.c_str());
                                    return orErrorInvalidValue;
                                  },
                                  [](void* args) { delete *static_cast<Body**>(args); }};
  return kernel;
}

template <typename Function>
Body* make_body(Function function) {
  if constexpr (std::is_void_v<decltype(function())>) {
    return new Body([function = std::move(function)]() mutable {
      function();
      return std::string();
    });
  } else {
    return new Body(std::move(function));
  }
}

template <typename Function>
orError_t launch(orStream_t stream, Function function) {
  Body* body = make_body(std::move(function));
  const orError_t error = orLaunchKernel(stream, &body_kernel(), &body, sizeof(body));
  if (error != orSuccess) delete body;
  return error;
}

template <typename Function>
orError_t run(orStream_t stream, Function function) {
  // No release function: it is not called for a kernel that is not accepted.
  const orKernel kernel = {body_kernel().name, body_kernel().run, nullptr};
  const std::unique_ptr<Body> body(make_body(std::move(function)));
  Body* args = body.get();
  return orRunKernel(stream, &kernel, &args);
}

/// Blocks a kernel, and with it the stream, until it is opened.
class Gate {
 public:
  void wait() const { open_.wait(false); }
  void open() {
    open_.store(true);
    open_.notify_all();
  }

 private:
  std::atomic<bool> open_{false};
};

class Stream {
 public:
  explicit Stream(int device = 0, int priority = 0) {
    int before = 0;
    EXPECT_OK(orGetDevice(&before));
    EXPECT_OK(orSetDevice(device));
    EXPECT_OK(orStreamCreateWithPriority(&handle_, priority));
    EXPECT_OK(orSetDevice(before));
  }
  Stream(Stream&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  ~Stream() {
    if (handle_) EXPECT_OK(orStreamDestroy(handle_));
  }
  operator orStream_t() const { return handle_; }
  uint64_t id() const {
    uint64_t id = 0;
    EXPECT_OK(orStreamGetId(handle_, &id));
    return id;
  }

 private:
  orStream_t handle_ = nullptr;
};

class Event {
 public:
  explicit Event(int device = 0, unsigned flags = orEventDefault) {
    int before = 0;
    EXPECT_OK(orGetDevice(&before));
    EXPECT_OK(orSetDevice(device));
    EXPECT_OK(orEventCreateWithFlags(&handle_, flags));
    EXPECT_OK(orSetDevice(before));
  }
  Event(Event&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Event() {
    if (handle_) EXPECT_OK(orEventDestroy(handle_));
  }
  operator orEvent_t() const { return handle_; }

 private:
  orEvent_t handle_ = nullptr;
};

inline void* allocate(size_t size, int device = 0) {
  int before = 0;
  void* pointer = nullptr;
  EXPECT_OK(orGetDevice(&before));
  EXPECT_OK(orSetDevice(device));
  EXPECT_OK(orMalloc(&pointer, size));
  EXPECT_OK(orSetDevice(before));
  return pointer;
}

template <typename T>
T* kernel_view(void* pointer, int device = 0) {
  ptrdiff_t offset = 0;
  EXPECT_OK(orGetKernelViewOffset(&offset, device));
  return reinterpret_cast<T*>(static_cast<char*>(pointer) + offset);
}

/// Sets the schedule and restores it at the end of the scope.
class Schedule {
 public:
  explicit Schedule(orSchedule schedule, uint64_t seed = 0) {
    EXPECT_OK(orGetSchedule(&before_, &before_seed_));
    EXPECT_OK(orSetSchedule(schedule, seed));
  }
  ~Schedule() { EXPECT_OK(orSetSchedule(before_, before_seed_)); }

 private:
  orSchedule before_ = orScheduleAsync;
  uint64_t before_seed_ = 0;
};

inline void* garbage(uintptr_t value) {
  return reinterpret_cast<void*>(value);
}

}  // namespace support
