#include "host_engine/launch/kept_kernel.h"

#include "device/device.h"

#include <ATen/core/dispatch/OperatorEntry.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <unordered_map>

namespace openreg {
namespace {

// A handle shows whether an operator has a kernel, but not the kernel. Explicit instantiations may name
// private members.
auto* definition_of(const c10::OperatorHandle& op);

template <auto member>
struct Definition {
  friend auto* definition_of(const c10::OperatorHandle& op) { return op.*member; }
};

template struct Definition<&c10::OperatorHandle::operatorDef_>;

struct Handles {
  std::mutex mutex;  // guards the rest; taken before the dispatcher's own
  std::unordered_map<const OpTraits*, c10::OperatorHandle> by_facts;
  std::unordered_map<std::string, c10::OperatorHandle> by_schema;
};

c10::OperatorHandle make_lasting(const c10::FunctionSchema& schema, size_t number) {
  std::string name = schema.operator_name().name;
  std::ranges::replace(name, ':', '_');
  name = OR_DEVICE_NAME "_launched::" + name + "_" + std::to_string(number);
  // Leaked: it lasts as long as the process.
  new c10::RegistrationHandleRAII(c10::Dispatcher::singleton().registerDef(
      schema.cloneWithName(name, ""), "launched work of " OR_DEVICE_NAME, {}));
  return c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), "");
}

// An operator with the same schema that never goes. Facts have addresses of their own for ever.
c10::OperatorHandle lasting(const c10::OperatorHandle& op, const OpTraits& traits) {
  static auto* handles = new Handles;
  std::lock_guard<std::mutex> lock(handles->mutex);
  const auto known = handles->by_facts.find(&traits);
  if (C10_LIKELY(known != handles->by_facts.end())) {
    return known->second;
  }
  std::string schema = c10::toString(op.schema());
  auto found = handles->by_schema.find(schema);
  if (found == handles->by_schema.end()) {
    const c10::OperatorHandle made = make_lasting(op.schema(), handles->by_schema.size());
    found = handles->by_schema.emplace(std::move(schema), made).first;
  }
  return handles->by_facts.emplace(&traits, found->second).first->second;
}

constexpr c10::DispatchKeySet kCpu(c10::DispatchKey::CPU);

}  // namespace

const c10::KernelFunction& cpu_kernel(const c10::OperatorHandle& op) {
  return definition_of(op)->op.lookup(kCpu);
}

void KeptKernel::keep(const c10::OperatorHandle& op, const OpTraits& traits,
                      const c10::KernelFunction& kernel) {
  // An unboxed kernel does not look at the handle.
  const bool asks_for_schema = !traits.is_aten && is_boxed_only(kernel);
  call_.emplace(Call{kernel, asks_for_schema ? lasting(op, traits) : op});
}

void KeptKernel::call(torch::jit::Stack* stack) const {
  call_->kernel.callBoxed(call_->op, kCpu, stack);
}

}  // namespace openreg
