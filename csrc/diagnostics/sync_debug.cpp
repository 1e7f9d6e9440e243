#include "diagnostics/sync_debug.h"

#include "common/fork.h"
#include "common/map_tensors.h"
#include "device/device.h"
#include "device/on_device.h"
#include "diagnostics/debug_flags.h"
#include "memory/host_allocator.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <mutex>

namespace openreg {
namespace {

std::atomic<SyncDebugMode> on_wait{SyncDebugMode::Ignore};

struct Settings {
  std::mutex mutex;  // guards the rest
  uint64_t waits = 0;
  std::string last_wait;
  SyncDebugMode on_fallback = SyncDebugMode::Ignore;
  std::vector<std::string> allowed;
};

Settings& settings() {
  static auto* made = new Settings;
  return *made;
}

bool is_mask(const c10::IValue& indices) {
  bool mask = false;
  for_each_tensor(indices, [&](const at::Tensor& index) {
    mask |= index.defined() && (index.scalar_type() == at::kBool || index.scalar_type() == at::kByte);
  });
  return mask;
}

bool is_allowed(const std::string& name, const std::vector<std::string>& allowed) {
  const std::string all_overloads = name.substr(0, name.find('.'));
  return std::ranges::any_of(allowed,
                             [&](const std::string& one) { return one == name || one == all_overloads; });
}

void report_fallback(const OpDescription& op_info) {
  check_not_forked();
  SyncDebugMode response{};
  {
    std::lock_guard<std::mutex> lock(settings().mutex);
    response = is_allowed(op_info.name, settings().allowed) ? SyncDebugMode::Ignore : settings().on_fallback;
  }
  if (response == SyncDebugMode::Ignore) {
    return;
  }
  const std::string message =
      c10::str("the operator '", op_info.name, "' has no ", orGetDeviceName(),
               " kernel and falls back to the CPU kernel. Register a kernel, or allow the fallback: torch.",
               orGetDeviceName(), ".fallback(..., allow=[\"", op_info.name, "\"])");
  TORCH_CHECK_NOT_IMPLEMENTED(response == SyncDebugMode::Warn, message);
  TORCH_WARN(message);
}

}  // namespace

// It does not for indexing without a mask, for calls that
// pass the output size, and for decompositions that do not check their status.
bool depends_on_data(const c10::OperatorHandle& op, const OpDescription& op_info,
                     const torch::jit::Stack& stack) {
  if (!op_info.depends_on_data) {
    return false;
  }
  const std::vector<c10::Argument>& arguments = op.schema().arguments();
  const size_t begin = stack.size() - op_info.arguments;
  for (size_t i = 0; i < op_info.arguments; ++i) {
    const c10::IValue& value = stack[begin + i];
    if (arguments[i].name() == "indices") {
      return is_mask(value);
    }
    if (arguments[i].name() == "output_size") {
      return value.isNone();
    }
    if (arguments[i].name() == "check_errors") {
      return value.toBool();
    }
  }
  return true;
}

void set_sync_debug_mode(SyncDebugMode response) {
  check_not_forked();
  std::lock_guard<std::mutex> lock(settings().mutex);
  on_wait.store(response, std::memory_order_relaxed);
  debug_flags::set(debug_flags::kSyncs, response != SyncDebugMode::Ignore);
}

SyncDebugMode sync_debug_mode() {
  return on_wait.load(std::memory_order_relaxed);
}

std::pair<uint64_t, std::string> reported_syncs() {
  check_not_forked();
  std::lock_guard<std::mutex> lock(settings().mutex);
  return {settings().waits, settings().last_wait};
}

void set_fallback_mode(SyncDebugMode response, std::vector<std::string> allowed) {
  check_not_forked();
  std::lock_guard<std::mutex> lock(settings().mutex);
  settings().on_fallback = response;
  settings().allowed = std::move(allowed);
  debug_flags::set(debug_flags::kFallbacks, response != SyncDebugMode::Ignore);
}

std::pair<SyncDebugMode, std::vector<std::string>> fallback_mode() {
  check_not_forked();
  std::lock_guard<std::mutex> lock(settings().mutex);
  return {settings().on_fallback, settings().allowed};
}

void report_sync(const char* name, const std::string& why) {
  check_not_forked();
  const SyncDebugMode response = sync_debug_mode();
  if (response == SyncDebugMode::Ignore) {
    return;
  }
  {
    std::lock_guard<std::mutex> lock(settings().mutex);
    ++settings().waits;
    settings().last_wait = name;
  }
  const std::string message = c10::str("called a synchronizing ", orGetDeviceName(), " operation: '", name,
                                       "' synchronizes the host with the device, because ", why);
  TORCH_CHECK(response == SyncDebugMode::Warn, message);
  TORCH_WARN(message);
}

void report_call(const c10::OperatorHandle& op, const OpDescription& op_info,
                 const torch::jit::Stack& stack) {
  const uint32_t flags = debug_flags::now();
  if ((flags & debug_flags::kFallbacks) != 0 && op_info.has_cpu_kernel) {
    report_fallback(op_info);
  }
  if ((flags & debug_flags::kSyncs) != 0 && depends_on_data(op, op_info, stack)) {
    report_sync(op_info.name.c_str(), "its result depends on data");
  }
}

void report_copy(const at::Tensor& dst, const at::Tensor& src, bool non_blocking) {
  if ((debug_flags::now() & debug_flags::kSyncs) == 0 || (on_device(dst) && on_device(src))) {
    return;
  }
  const std::string between = c10::str(" from ", src.device(), " to ", dst.device(), " ");
  if (!non_blocking) {
    report_sync(kCopyName, c10::str("a copy", between, "without non_blocking=True is synchronous"));
  } else if (on_device(src) && !is_pinned(dst.const_data_ptr())) {
    report_sync(kCopyName, c10::str("a copy", between, "into pageable memory is synchronous"));
  }
}

}  // namespace openreg
