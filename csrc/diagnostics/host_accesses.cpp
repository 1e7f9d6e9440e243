// Host accesses to pinned memory, for the race check: CPU operators, seen by a callback of the dispatcher.
// The callback costs time in each operator, so the first copy that accesses pinned memory installs it.
#include "common/fork.h"
#include "common/map_tensors.h"
#include "diagnostics/debug_flags.h"
#include "diagnostics/tensor_access.h"

#include <ATen/record_function.h>

#include <mutex>
#include <optional>
#include <string_view>

namespace openreg {
namespace {

struct Callback {
  std::mutex mutex;  // guards the rest
  std::optional<at::CallbackHandle> handle;
  int users = 0;
};

Callback& callback() {
  static auto* made = new Callback;
  return *made;
}

// Whether the operator accesses the memory of its CPU tensors: it has a CPU kernel and is no view.
bool accesses_memory(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  const std::string_view name = schema.name();
  if (name == "aten::copy_") {
    return true;
  }
  if (name == "aten::set_" || name == "aten::resize_" || !op.hasKernelForDispatchKey(c10::DispatchKey::CPU)) {
    return false;
  }
  for (const c10::Argument& result : schema.returns()) {
    if (result.alias_info() != nullptr && !result.alias_info()->isWrite()) {
      return false;
    }
  }
  return true;
}

bool only_on_host(c10::ArrayRef<const c10::IValue> inputs) {
  bool host = true;
  for (const c10::IValue& value : inputs) {
    for_each_tensor(value, [&](const at::Tensor& tensor) { host &= !tensor.defined() || tensor.is_cpu(); });
    host &= !value.isDevice() || value.toDevice().is_cpu();
  }
  return host;
}

std::unique_ptr<at::ObserverContext> check_operator(const at::RecordFunction& function) {
  if (!races::any_pinned() || in_forked_child()) {
    return nullptr;
  }
  const auto name = function.operator_name();
  if (!name.has_value()) {
    return nullptr;
  }
  const auto inputs = function.inputs();
  const auto op = c10::Dispatcher::singleton().findOp(*name);
  if (!op.has_value() || !only_on_host(inputs) || !accesses_memory(*op)) {
    return nullptr;
  }
  const auto& arguments = op->schema().arguments();
  for (size_t i = 0; i < std::min(inputs.size(), arguments.size()); ++i) {
    const bool write = arguments[i].alias_info() != nullptr && arguments[i].alias_info()->isWrite();
    for_each_tensor(inputs[i], [&](const at::Tensor& tensor) {
      if (tensor.defined()) {
        check_host_access(tensor, write, function.name());
      }
    });
  }
  return nullptr;
}

}  // namespace

void check_host_access(const at::Tensor& tensor, bool write, const char* op) {
  if (!races::any_pinned() || in_forked_child() || !tensor.is_cpu() || !tensor.has_storage()) {
    return;
  }
  races::Access access;
  if (make_access(tensor, write, &access) && !races::host_follows_access(access)) {
    races::host_access(access, op, call_site());  // the call site may take the GIL
  }
}

void watch_host_accesses() {
  Callback& state = callback();
  const std::lock_guard lock(state.mutex);
  if (state.users > 0 && !state.handle.has_value()) {
    state.handle = at::addGlobalCallback(
        at::RecordFunctionCallback(&check_operator).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
    races::note_pinned();
  }
}

void start_race_check() {
  check_not_forked();
  Callback& state = callback();
  const std::lock_guard lock(state.mutex);
  races::start();
  debug_flags::set(debug_flags::kRaces, true);
  ++state.users;
}

void stop_race_check() {
  check_not_forked();
  Callback& state = callback();
  const std::lock_guard lock(state.mutex);
  if (--state.users == 0) {
    if (state.handle.has_value()) {
      at::removeCallback(*state.handle);
      state.handle.reset();
    }
    debug_flags::set(debug_flags::kRaces, false);
  }
  races::stop();
}

}  // namespace openreg
