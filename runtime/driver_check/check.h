// The checks of a driver, and what they are written with.
//
// Each check runs in its own process: it initializes the driver, and may crash or hang. A violation of a rule
// ends the process at once, with a message: kernels that are still queued may use variables of the check. A
// check throws Skipped if the driver does not support what the check needs.
#pragma once

#include "openreg/driver.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace openreg::check {

/// Exit codes of the process of a check.
inline constexpr int kPassed = 0;
inline constexpr int kViolated = 1;
inline constexpr int kSkipped = 2;

struct Skipped {
  std::string why;
};

/// Prints the message and ends the process.
[[noreturn]] [[gnu::format(printf, 1, 2)]] void violation(const char* format, ...);

/// A violation, with the code and the driver's message, unless `code` is `expected`.
void expect(orError_t code, orError_t expected, const char* expression);

#define OK(expression) ::openreg::check::expect((expression), orSuccess, #expression)
#define EXPECT(code, expression) ::openreg::check::expect((expression), code, #expression)
#define REQUIRE(condition, ...)                                 \
  do {                                                          \
    if (!(condition)) ::openreg::check::violation(__VA_ARGS__); \
  } while (false)

struct Check {
  const char* name;
  const char* rule;
  void (*run)(const orDriver& driver);
  bool opens = true;  // device 0 is open when it runs
};

std::span<const Check> device_checks();
std::span<const Check> memory_checks();
std::span<const Check> copy_checks();
std::span<const Check> stream_checks();
std::span<const Check> kernel_checks();
std::span<const Check> failure_checks();
std::span<const Check> event_checks();
std::span<const Check> function_checks();
std::span<const Check> library_checks();
std::span<const Check> graph_checks();
std::span<const Check> ipc_checks();
std::span<const Check> process_checks();

// ---- What checks use

/// The body of a kernel: it fails by returning a message.
using Body = std::function<std::string()>;

/// Launches a kernel with the name "check".
orError_t launch(const orDriver& driver, orDriverStream* stream, Body body,
                 const orObserver* observer = nullptr);

/// Blocks a kernel until it is opened. A driver that runs kernels inside the launching call is not blocked.
class Gate {
 public:
  ~Gate() { open(); }
  void wait() const;
  void open();
  Body body() {
    return [this] { return wait(), std::string(); };
  }

 private:
  std::atomic<bool> open_{false};
};

/// A kernel that takes long before `then`: a call that does not wait for it returns earlier, also on a busy
/// machine.
Body slow(std::function<void()> then);

/// Waits for a flag that a violation sets, as long as one may take on a busy machine. Returns the flag.
bool becomes_set(const std::atomic<bool>& flag);

/// Whether work runs after the launching call has returned. Drivers may run it inside the call.
bool asynchronous(const orDriver& driver);
void require_asynchronous(const orDriver& driver);

int64_t now_ns();
orDeviceProperties properties_of(const orDriver& driver, int device);
int count_devices(const orDriver& driver);

class Stream {
 public:
  explicit Stream(const orDriver& driver, int device = 0, int priority = 0);
  ~Stream() { static_cast<void>(driver_.stream_destroy(stream_)); }
  Stream(const Stream&) = delete;
  operator orDriverStream*() const { return stream_; }
  void synchronize() const;

 private:
  const orDriver& driver_;
  orDriverStream* stream_ = nullptr;
};

class Event {
 public:
  explicit Event(const orDriver& driver, int device = 0, unsigned flags = orEventDisableTiming);
  ~Event() { static_cast<void>(driver_.event_destroy(event_)); }
  Event(const Event&) = delete;
  operator orDriverEvent*() const { return event_; }

 private:
  const orDriver& driver_;
  orDriverEvent* event_ = nullptr;
};

/// Memory of a device; at least `size` bytes.
class Memory {
 public:
  Memory(const orDriver& driver, size_t size, int device = 0);
  ~Memory() { static_cast<void>(driver_.memory_free(device_, pointer_, size_)); }
  Memory(const Memory&) = delete;
  char* get() const { return static_cast<char*>(pointer_); }
  size_t size() const { return size_; }
  /// Copies on a stream of its own, and waits.
  void write(const std::vector<unsigned char>& bytes, size_t offset = 0) const;
  std::vector<unsigned char> read(size_t size, size_t offset = 0) const;

 private:
  const orDriver& driver_;
  int device_;
  size_t size_ = 0;
  void* pointer_ = nullptr;
};

/// `size` bytes that differ from their neighbors.
std::vector<unsigned char> pattern(size_t size, unsigned seed = 1);

/// Runs the function in a forked child and returns whether it ended without a violation or a crash.
bool in_forked_child(const std::function<void()>& body);

/// Starts this program again with an argument for `ipc_peer`, and waits. Returns whether it ended with code
/// 0.
bool run_peer(const std::string& argument);
/// The second process of the check of interprocess sharing; returns its exit code.
int ipc_peer(const orDriver& driver, const std::string& argument);

}  // namespace openreg::check
