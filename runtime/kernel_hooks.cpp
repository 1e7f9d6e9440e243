#include "kernel_hooks.h"

#include "runtime.h"

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace openreg {
namespace {

// Set once, before the first device is open.
orDriver driver{};
orKernelHooks hooks{};

std::atomic<ptrdiff_t> view_offset{0};

uint64_t launched() {
  return hooks.launched ? hooks.launched() : 0;
}

const char* name_of(const orKernel& kernel) {
  return kernel.name ? kernel.name : "";
}

// The head of the argument block of a launch; the kernel's own block follows.
struct alignas(std::max_align_t) Head {
  const orKernel* kernel;
  size_t args_size;
  uint64_t launch;

  void* args() { return this + 1; }
};

orError_t run_launched(void* block, char* why, size_t why_size) {
  auto& head = *static_cast<Head*>(block);
  const orKernelCall call = {sizeof(call), name_of(*head.kernel), head.kernel->run,
                             head.args(),  head.args_size,        head.launch};
  return hooks.run(&call, why, why_size);
}

void release_launched(void* block) {
  auto& head = *static_cast<Head*>(block);
  if (head.kernel->release) head.kernel->release(head.args());
}

// Kernels must outlive their launches, and have the names of those that they run.
const orKernel& kernel_named(const char* name) {
  static auto* mutex = new std::mutex;
  static auto* kernels = new std::map<std::string, orKernel, std::less<>>;
  std::lock_guard lock(*mutex);
  auto entry = kernels->find(std::string_view(name));
  if (entry == kernels->end()) {
    entry = kernels->emplace(name, orKernel{}).first;
    entry->second = {entry->first.c_str(), &run_launched, &release_launched};
  }
  return entry->second;
}

orError_t stream_launch(orDriverStream* stream, const orKernel* kernel, const void* args, size_t args_size,
                        const orObserver* observer) {
  return noexcept_boundary([&]() -> orError_t {
    const size_t size = sizeof(Head) + args_size;
    const std::unique_ptr<std::byte[]> block(new std::byte[size]);
    new (block.get()) Head{kernel, args_size, launched()};
    if (args_size) std::memcpy(block.get() + sizeof(Head), args, args_size);
    return driver.stream_launch(stream, &kernel_named(name_of(*kernel)), block.get(), size, observer);
  });
}

// The block of orRunKernel is not copied.
struct Run {
  const orKernel* kernel;
  void* args;
  uint64_t launch;
};

orError_t run_now(void* block, char* why, size_t why_size) {
  const auto& run = *static_cast<const Run*>(block);
  const orKernelCall call = {sizeof(call), name_of(*run.kernel), run.kernel->run, run.args, 0, run.launch};
  return hooks.run(&call, why, why_size);
}

void release_now(void* block) {
  const auto& run = *static_cast<const Run*>(block);
  if (run.kernel->release) run.kernel->release(run.args);
}

orError_t stream_run(orDriverStream* stream, const orKernel* kernel, void* args, const orObserver* observer) {
  const orKernel now = {kernel->name, &run_now, &release_now};
  Run run = {kernel, args, launched()};
  return driver.stream_run(stream, &now, &run, observer);
}

struct Copy {
  void* dst;
  const void* src;
  size_t size;
};

orError_t run_copy(void* args, char*, size_t) {
  const auto& copy = *static_cast<const Copy*>(args);
  std::memmove(copy.dst, copy.src, copy.size);
  return orSuccess;
}

struct Fill {
  void* ptr;
  int value;
  size_t size;
};

orError_t run_fill(void* args, char*, size_t) {
  const auto& fill = *static_cast<const Fill*>(args);
  std::memset(fill.ptr, fill.value, fill.size);
  return orSuccess;
}

constexpr orKernel kCopy = {"copy", &run_copy, nullptr};
constexpr orKernel kFill = {"fill", &run_fill, nullptr};

const void* kernel_view(const void* ptr) {
  return static_cast<const char*>(ptr) + view_offset.load(std::memory_order_acquire);
}

orError_t stream_copy(orDriverStream* stream, void* dst, const void* src, size_t size, orMemcpyKind kind,
                      const orObserver* observer) {
  const bool from_device = kind == orMemcpyDeviceToHost || kind == orMemcpyDeviceToDevice;
  const bool to_device = kind == orMemcpyHostToDevice || kind == orMemcpyDeviceToDevice;
  const Copy copy = {to_device ? const_cast<void*>(kernel_view(dst)) : dst,
                     from_device ? kernel_view(src) : src, size};
  return stream_launch(stream, &kCopy, &copy, sizeof(copy), observer);
}

orError_t stream_fill(orDriverStream* stream, void* ptr, int value, size_t size, const orObserver* observer) {
  const Fill fill = {const_cast<void*>(kernel_view(ptr)), value, size};
  return stream_launch(stream, &kFill, &fill, sizeof(fill), observer);
}

// The offset is known when a device is open, and the same for all of them.
orError_t device_open(int device) {
  OR_RETURN_IF_ERROR(driver.device_open(device));
  ptrdiff_t offset = 0;
  OR_RETURN_IF_ERROR(driver.kernel_view_offset(device, &offset));
  view_offset.store(offset, std::memory_order_release);
  return orSuccess;
}

}  // namespace

void hook_kernels(orDriver& table, const orKernelHooks& given) {
  driver = table;
  hooks = given;
  table.device_open = &device_open;
  table.stream_launch = &stream_launch;
  if (table.stream_run) table.stream_run = &stream_run;
  table.stream_copy = &stream_copy;
  table.stream_fill = &stream_fill;
}

}  // namespace openreg

using namespace openreg;

extern "C" {

orError_t orSetKernelHooks(const orKernelHooks* given) {
  return noexcept_boundary([&]() -> orError_t {
    if (!given || !given->run) {
      return fail(orErrorInvalidValue, "orSetKernelHooks: %s is NULL", given ? "run" : "hooks");
    }
    OR_RETURN_IF_ERROR(
        check_struct_size("orSetKernelHooks", "orKernelHooks", given->struct_size, sizeof(orKernelHooks)));
    orError_t error = orSuccess;
    Runtime* runtime = Runtime::enter(error);
    return runtime ? runtime->set_kernel_hooks(*given) : error;
  });
}

}  // extern "C"
