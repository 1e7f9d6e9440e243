#include "fault_rules.h"

#include "error.h"
#include "runtime.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fnmatch.h>
#include <iterator>
#include <pthread.h>
#include <utility>

namespace openreg {
namespace {

#define OR_ENTRY_POINT(function, target, traits) {#function, CallTarget::target, traits},
constexpr EntryPointInfo kEntryPoints[] = {OR_ENTRY_POINTS(OR_ENTRY_POINT)};
#undef OR_ENTRY_POINT

bool matches(const char* pattern, const char* name) {
  return fnmatch(pattern, name, 0) == 0;
}

// A random number that depends only on its arguments, so that a run can be repeated (splitmix64).
uint64_t draw(uint64_t seed, uint64_t index) {
  uint64_t value = seed * 0x9e3779b97f4a7c15u + index * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

double draw_fraction(uint64_t seed, uint64_t index) {
  return static_cast<double>(draw(seed, index) >> 11) * 0x1.0p-53;
}

// Whether the action is possible for calls of the function.
bool is_possible(orFaultAction action, const EntryPointInfo& entry) {
  switch (action) {
    case orFaultActionKernelFailure:
      return (entry.traits & kRunsWork) != 0;
    case orFaultActionCorruptCopy:
      return (entry.traits & kCopiesBytes) != 0;
    case orFaultActionLoseDevice:
      return entry.target != CallTarget::kNone && (entry.traits & kHostOnly) == 0;
    default:
      return true;
  }
}

const char* requirement(orFaultAction action) {
  switch (action) {
    case orFaultActionKernelFailure:
      return "a kernel failure needs a call that runs kernels, copies or fills";
    case orFaultActionCorruptCopy:
      return "a corrupted copy needs a copy";
    default:
      return "a lost device needs a call that uses a device";
  }
}

}  // namespace

const EntryPointInfo& entry_point_info(EntryPoint entry) {
  return kEntryPoints[static_cast<size_t>(entry)];
}

FaultRules& FaultRules::instance() {
  static FaultRules* made = [] {
    auto* created = new FaultRules;
    pthread_atfork([] { instance().mutex_.lock(); }, [] { instance().mutex_.unlock(); },
                   [] { instance().mutex_.unlock(); });
    return created;
  }();
  return *made;
}

orError_t FaultRules::read(const orFaultRule& given, size_t index, Rule& rule) {
  const auto reject = [&](const char* what) {
    return fail(orErrorInvalidValue, "orFaultsAdd: rule %zu: %s", index, what);
  };
  OR_RETURN_IF_ERROR(check_struct_size("orFaultsAdd", "orFaultRule", given.struct_size, sizeof(orFaultRule)));
  if (!given.call) return reject("call is NULL");
  if (given.device < -1) return reject("device is negative and not -1, any device");
  if (given.min_size > given.max_size) return reject("min_size is larger than max_size");
  if (!(given.probability >= 0.0 && given.probability <= 1.0)) return reject("probability is not in 0 to 1");
  if (given.action < orFaultActionCount || given.action > orFaultActionLoseDevice) {
    return fail(orErrorInvalidValue, "orFaultsAdd: rule %zu: invalid action %d", index,
                static_cast<int>(given.action));
  }
  if (given.action == orFaultActionError &&
      (given.code == orSuccess || !std::strcmp(orGetErrorName(given.code), "orErrorUnknown"))) {
    return fail(orErrorInvalidValue, "orFaultsAdd: rule %zu: %d is not the code of an error in error.h",
                index, static_cast<int>(given.code));
  }
  bool named = false;
  for (size_t i = 0; i < std::size(kEntryPoints); ++i) {
    if (!matches(given.call, kEntryPoints[i].name)) continue;
    named = true;
    rule.entries.set(i, is_possible(given.action, kEntryPoints[i]));
  }
  if (!named) {
    return fail(orErrorInvalidValue,
                "orFaultsAdd: rule %zu: '%s' matches no function of the runtime; orFaultsGetCallName has "
                "their names",
                index, given.call);
  }
  if (rule.entries.none()) {
    return fail(orErrorInvalidValue, "orFaultsAdd: rule %zu: '%s': %s", index, given.call,
                requirement(given.action));
  }
  rule.given = given;
  rule.given.call = rule.given.kernel = rule.given.message = nullptr;  // belong to the caller
  rule.any_kernel = !given.kernel;
  if (given.kernel) rule.kernel = given.kernel;
  if (given.message) rule.message = given.message;
  return orSuccess;
}

orError_t FaultRules::add(const orFaultRule* rules, size_t count, uint64_t& id) {
  Set set{0, std::vector<Rule>(count)};
  const auto* bytes = reinterpret_cast<const char*>(rules);
  for (size_t i = 0; i < count; ++i) {
    // A newer caller has longer rules.
    const auto* given = reinterpret_cast<const orFaultRule*>(bytes);
    OR_RETURN_IF_ERROR(read(*given, i, set.rules[i]));
    bytes += given->struct_size;
  }
  std::lock_guard lock(mutex_);
  set.id = id = next_id_++;
  sets_.push_back(std::move(set));
  update_calls();
  return orSuccess;
}

bool FaultRules::remove(uint64_t id) {
  std::lock_guard lock(mutex_);
  const bool removed = sets_.remove_if([&](const Set& set) { return set.id == id; }) != 0;
  update_calls();
  return removed;
}

void FaultRules::clear() {
  std::lock_guard lock(mutex_);
  sets_.clear();
  update_calls();
}

// Under the lock, so that the last change wins.
void FaultRules::update_calls() {
  Runtime::set_faults(!sets_.empty() || !losses_.empty());
}

orError_t FaultRules::counts(uint64_t id, size_t rule, uint64_t& matched, uint64_t& fired) {
  std::lock_guard lock(mutex_);
  const auto set = std::ranges::find(sets_, id, &Set::id);
  if (set == sets_.end()) {
    return fail(orErrorInvalidValue, "orFaultsGetCounts: there is no set %llu of fault rules",
                static_cast<unsigned long long>(id));
  }
  if (rule >= set->rules.size()) {
    return fail(orErrorInvalidValue, "orFaultsGetCounts: rule %zu is out of range; the set has %zu rules",
                rule, set->rules.size());
  }
  matched = set->rules[rule].matched;
  fired = set->rules[rule].fired;
  return orSuccess;
}

bool FaultRules::Rule::selects(const LocatedCall& call) const {
  if (!entries.test(static_cast<size_t>(call.entry))) return false;
  if (given.device >= 0 && given.device != call.device) return false;
  if (given.action == orFaultActionLoseDevice && call.device < 0) return false;
  if (given.stream >= 0 && (!call.stream || *call.stream != static_cast<uint64_t>(given.stream))) {
    return false;
  }
  if (call.size < given.min_size || call.size > given.max_size) return false;
  return any_kernel || (call.kernel && matches(kernel.c_str(), call.kernel));
}

bool FaultRules::Rule::fires() const {
  if (given.action == orFaultActionCount) return false;
  if (given.nth && matched != given.nth) return false;
  if (given.every && matched % given.every != 0) return false;
  if (given.times && fired >= given.times) return false;
  return given.probability >= 1.0 || draw_fraction(given.seed, matched) < given.probability;
}

std::optional<FiredRule> FaultRules::match(const LocatedCall& call) {
  std::optional<FiredRule> first;
  std::lock_guard lock(mutex_);
  for (Set& set : sets_) {
    for (size_t i = 0; i < set.rules.size(); ++i) {
      Rule& rule = set.rules[i];
      if (!rule.selects(call)) continue;
      ++rule.matched;
      if (first || !rule.fires()) continue;
      ++rule.fired;
      const orFaultRule& given = rule.given;
      const uint64_t bit =
          given.bit >= 0 ? static_cast<uint64_t>(given.bit) : draw(~given.seed, rule.matched);
      first = FiredRule{set.id,       i,   rule.matched, given.action, given.code, given.delay_ns,
                        rule.message, bit, epoch_};
    }
  }
  return first;
}

void FaultRules::release(bool forever) {
  std::lock_guard lock(mutex_);
  ++epoch_;
  released_forever_ |= forever;
}

bool FaultRules::is_released(uint64_t set, uint64_t epoch) {
  std::lock_guard lock(mutex_);
  return released_forever_ || epoch < epoch_ || std::ranges::find(sets_, set, &Set::id) == sets_.end();
}

std::string FaultRules::loss(int device) {
  std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(losses_, device, &Loss::device);
  return found == losses_.end() ? std::string() : found->reason;
}

void FaultRules::lose(int device, std::string reason) {
  std::lock_guard lock(mutex_);
  if (std::ranges::find(losses_, device, &Loss::device) != losses_.end()) return;
  losses_.push_back({device, std::move(reason)});
  update_calls();
}

bool FaultRules::restore(int device) {
  std::lock_guard lock(mutex_);
  const bool lost = std::erase_if(losses_, [&](const Loss& loss) { return loss.device == device; }) != 0;
  if (lost) update_calls();
  return lost;
}

}  // namespace openreg
