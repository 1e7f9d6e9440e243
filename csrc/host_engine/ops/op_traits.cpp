#include "host_engine/ops/op_traits.h"

#include "common/fork.h"
#include "operators/unannotated_writes.h"
#include "random/generator_argument.h"

#include <ATen/core/dispatch/OperatorEntry.h>
#include <ATen/core/enum_tag.h>
#include <ATen/core/jit_type.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace openreg {
namespace {

// Incremented when traits are invalidated: an operator was deregistered, so that the address of its schema
// may be reused, or a missing kernel was registered.
std::atomic<uint64_t> generation{1};

using KernelNamed = orKernel (*)(const char* name);
constinit KernelNamed kernel_named = nullptr;

struct Listener final : c10::OpRegistrationListener {
  void onOperatorRegistered(const c10::OperatorHandle&) override {}
  void onOperatorDeregistered(const c10::OperatorHandle&) override;
};

struct Table {
  std::mutex mutex;  // guards the rest
  std::unordered_map<const c10::FunctionSchema*, std::unique_ptr<OpTraits>> traits;
  std::vector<std::unique_ptr<OpTraits>> retired;
};

Table& table() {
  static auto* made = [] {
    // Leaked: kernels may run after static destructors.
    static auto* handle = new c10::RegistrationHandleRAII(
        c10::Dispatcher::singleton().addRegistrationListener(std::make_unique<Listener>()));
    (void)handle;
    return new Table;
  }();
  return *made;
}

void invalidate(const c10::OperatorHandle& op) {
  std::lock_guard<std::mutex> lock(table().mutex);
  auto removed = table().traits.extract(&op.schema());
  if (!removed.empty()) {
    table().retired.push_back(std::move(removed.mapped()));  // launched operators may still refer to them
  }
  generation.fetch_add(1, std::memory_order_release);
}

// Launched operators keep their kernels alive; see Note [Deregistered operators] in
// launch/kernel_reference.h.
void Listener::onOperatorDeregistered(const c10::OperatorHandle& op) {
  if (!in_forked_child()) {
    invalidate(op);
  }
}

int argument_returned(const c10::FunctionSchema& schema, const c10::Argument& result) {
  const c10::AliasInfo* info = result.alias_info();
  if (info == nullptr || !info->isWrite()) {
    return OpTraits::kNewTensor;
  }
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::AliasInfo* other = schema.arguments()[i].alias_info();
    if (other != nullptr && *other == *info) {
      return static_cast<int>(i);
    }
  }
  return OpTraits::kNewTensor;
}

int checks_errors_argument(const c10::FunctionSchema& schema) {
  return schema.argumentIndexWithName("check_errors").value_or(-1);
}

// Whether number arguments affect neither shapes nor, apart from dtype limits, the validity of a call. True
// for pointwise operators, their in-place forms, and operators on lists of tensors.
bool numbers_are_values(const c10::OperatorHandle& op) {
  const auto& arguments = op.schema().arguments();
  if (op.hasTag(at::Tag::pointwise) ||
      (!arguments.empty() && arguments[0].type()->kind() == c10::TypeKind::ListType)) {
    return true;
  }
  c10::OperatorName functional = op.operator_name();
  if (!functional.name.ends_with('_')) {
    return false;
  }
  functional.name.pop_back();
  const auto found = c10::Dispatcher::singleton().findOp(functional);
  return found.has_value() && found->hasTag(at::Tag::pointwise);
}

bool is_number(const c10::TypePtr& type) {
  if (const auto optional = type->cast<c10::OptionalType>()) {
    return is_number(optional->getElementType());
  }
  return type->kind() == c10::TypeKind::NumberType || type->kind() == c10::TypeKind::FloatType;
}

bool holds_tensors(const c10::TypePtr& type) {
  if (const auto list = type->cast<c10::ListType>()) {
    return holds_tensors(list->getElementType());
  }
  return type->kind() == c10::TypeKind::TensorType;
}

bool has_dynamic_shape(const c10::OperatorHandle& op, const OpRules& rules) {
  return op.hasTag(at::Tag::dynamic_output_shape) || rules.has(OpFlag::kDynamicShape);
}

ExecutionKind execution_kind_of(const c10::OperatorHandle& op, const OpRules& rules) {
  if (op.hasTag(at::Tag::data_dependent_output) ||
      (has_dynamic_shape(op, rules) && !rules.has(OpFlag::kIndexing))) {
    return ExecutionKind::Wait;
  }
  if (rules.has(OpFlag::kChecksStatus) || rules.has(OpFlag::kSynchronizes)) {
    return ExecutionKind::Wait;
  }
  // A kernel without a generator argument uses the CPU's default generator, in execution order.
  if (op.hasTag(at::Tag::nondeterministic_seeded) && generator_argument(op) < 0 &&
      !rules.has(OpFlag::kNotRandom)) {
    return ExecutionKind::Wait;
  }
  bool view = false;
  for (const c10::Argument& result : op.schema().returns()) {
    if (!holds_tensors(result.type())) {
      return ExecutionKind::Wait;
    }
    view = view || (result.alias_info() != nullptr && !result.alias_info()->isWrite());
  }
  if (view) {
    return ExecutionKind::View;
  }
  const bool can_launch =
      (op.hasComputedKernelForDispatchKey(c10::DispatchKey::Meta) || rules.has(OpFlag::kShapesFromKernel)) &&
      op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU);
  return can_launch ? ExecutionKind::Launch : ExecutionKind::Wait;
}

// Every operator has a Meta kernel by fallback, which may throw that there is none. Registrations for aten
// operators do not change.
bool has_own_meta_kernel(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::Meta) || op.operator_name().name.starts_with("aten::");
}

bool has_new_kernel(const c10::OperatorHandle& op, const OpTraits& traits) {
  return (!traits.has_cpu_kernel && op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU)) ||
         (!traits.has_own_meta_kernel && has_own_meta_kernel(op));
}

std::unique_ptr<OpTraits> derive_traits(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  auto traits = std::make_unique<OpTraits>();
  traits->name = c10::toString(op.operator_name());
  traits->kernel = kernel_named(traits->name.c_str());
  traits->rules = rules_for(traits->name);
  traits->kind = execution_kind_of(op, traits->rules);
  traits->generator = generator_argument(op);
  traits->is_structured =
      op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional);
  traits->arguments = schema.arguments().size();
  // Random operators check the values of their number arguments.
  const bool by_value = traits->generator >= 0 || !numbers_are_values(op);
  for (const c10::Argument& argument : schema.arguments()) {
    traits->written.push_back(argument.alias_info() != nullptr && argument.alias_info()->isWrite());
    traits->is_out.push_back(argument.is_out());
    traits->value_independent.push_back(!by_value && is_number(argument.type()));
  }
  for (const size_t argument : unannotated_writes(op.operator_name().name)) {
    traits->written[argument] = true;
  }
  for (const c10::Argument& result : schema.returns()) {
    traits->returned.push_back(argument_returned(schema, result));
  }
  traits->results = traits->returned.size();
  traits->launches = traits->kind == ExecutionKind::Launch;
  traits->is_view = traits->kind == ExecutionKind::View;
  traits->has_cpu_kernel = op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU);
  traits->is_aten = traits->name.starts_with("aten::");
  traits->has_own_meta_kernel = has_own_meta_kernel(op);
  traits->checks_errors = checks_errors_argument(schema);
  traits->depends_on_data = has_dynamic_shape(op, traits->rules) ||
                            op.hasTag(at::Tag::data_dependent_output) || traits->checks_errors >= 0 ||
                            traits->has(OpFlag::kChecksStatus);
  traits->writes_arguments = std::ranges::find(traits->written, true) != traits->written.end();
  return traits;
}

const OpTraits* find_or_derive(const c10::OperatorHandle& op) {
  check_not_forked();
  Table& all = table();
  std::lock_guard<std::mutex> lock(all.mutex);
  auto& traits = all.traits[&op.schema()];
  if (!traits) {
    traits = derive_traits(op);
  }
  return traits.get();
}

// A small direct-mapped cache in front of the table.
struct Recent {
  const c10::FunctionSchema* schema = nullptr;
  uint64_t generation = 0;
  const OpTraits* traits = nullptr;
};

}  // namespace

void set_launch_kernel(orKernel (*named)(const char* name)) {
  kernel_named = named;
}

const OpTraits& op_traits(const c10::OperatorHandle& op) {
  constexpr size_t kRecent = 256;
  static thread_local std::array<Recent, kRecent> recent;
  const c10::FunctionSchema* schema = &op.schema();
  Recent& entry = recent[(reinterpret_cast<uintptr_t>(schema) >> 6) % kRecent];
  const uint64_t now = generation.load(std::memory_order_acquire);
  if (C10_UNLIKELY(entry.schema != schema || entry.generation != now)) {
    entry = {schema, now, find_or_derive(op)};
  }
  if (C10_UNLIKELY(!entry.traits->has_cpu_kernel || !entry.traits->has_own_meta_kernel) &&
      has_new_kernel(op, *entry.traits)) {
    invalidate(op);
    entry = {schema, generation.load(std::memory_order_acquire), find_or_derive(op)};
  }
  return *entry.traits;
}

}  // namespace openreg
