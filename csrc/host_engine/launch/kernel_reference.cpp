#include "host_engine/launch/kernel_reference.h"

#include "device/device.h"

#include <ATen/core/dispatch/OperatorEntry.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <unordered_map>

namespace openreg {
namespace {

// OperatorHandle has no public accessor for the kernel. Explicit template instantiations may name private
// members.
auto* definition_of(const c10::OperatorHandle& op);

template <auto member>
struct Definition {
  friend auto* definition_of(const c10::OperatorHandle& op) { return op.*member; }
};

template struct Definition<&c10::OperatorHandle::operatorDef_>;

struct Handles {
  std::mutex mutex;  // guards the rest; lock order: before the dispatcher's mutex
  std::unordered_map<const OpTraits*, c10::OperatorHandle> by_traits;
  std::unordered_map<std::string, c10::OperatorHandle> by_schema;
};

c10::OperatorHandle define_permanent_op(const c10::FunctionSchema& schema, size_t number) {
  std::string name = schema.operator_name().name;
  std::ranges::replace(name, ':', '_');
  name = c10::str(orGetDeviceName(), "_launched::", name, "_", number);
  // Leaked: it is never deregistered.
  new c10::RegistrationHandleRAII(
      c10::Dispatcher::singleton().registerDef(schema.cloneWithName(name, ""), "launched operators", {}));
  return c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), "");
}

// An operator with the same schema that is never deregistered. Addresses of OpTraits are never reused, so
// they are valid keys.
c10::OperatorHandle permanent_op(const c10::OperatorHandle& op, const OpTraits& traits) {
  static auto* handles = new Handles;
  std::lock_guard<std::mutex> lock(handles->mutex);
  const auto known = handles->by_traits.find(&traits);
  if (C10_LIKELY(known != handles->by_traits.end())) {
    return known->second;
  }
  std::string schema = c10::toString(op.schema());
  auto found = handles->by_schema.find(schema);
  if (found == handles->by_schema.end()) {
    const c10::OperatorHandle made = define_permanent_op(op.schema(), handles->by_schema.size());
    found = handles->by_schema.emplace(std::move(schema), made).first;
  }
  return handles->by_traits.emplace(&traits, found->second).first->second;
}

constexpr c10::DispatchKeySet kCpu(c10::DispatchKey::CPU);

}  // namespace

const c10::KernelFunction& cpu_kernel(const c10::OperatorHandle& op) {
  return definition_of(op)->op.lookup(kCpu);
}

void KernelReference::keep(const c10::OperatorHandle& op, const OpTraits& traits,
                           const c10::KernelFunction& kernel) {
  // An unboxed kernel does not use the handle.
  const bool needs_schema = !traits.is_aten && is_boxed_only(kernel);
  call_.emplace(Call{kernel, needs_schema ? permanent_op(op, traits) : op});
}

void KernelReference::call(torch::jit::Stack* stack) const {
  call_->kernel.callBoxed(call_->op, kCpu, stack);
}

}  // namespace openreg
