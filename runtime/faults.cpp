#include "faults.h"

#include "fault_rules.h"
#include "fault_work.h"

#include <atomic>
#include <mutex>
#include <string>
#include <utility>

namespace openreg {
namespace {

struct Hooks {
  std::mutex mutex;  // guards the rest
  orFaultHooks installed{};
};

Hooks& hooks() {
  static auto* made = new Hooks;
  return *made;
}

orFaultHooks installed_hooks() {
  Hooks& all = hooks();
  std::lock_guard lock(all.mutex);
  return all.installed;
}

std::atomic<int> suspensions{0};

// One rule that acts on one call.
class Fault {
 public:
  Fault(Runtime& runtime, const Call& call, const LocatedCall& located, FiredRule fired)
      : runtime_(runtime),
        call_(call),
        located_(located),
        fired_(std::move(fired)),
        info_(entry_point_info(call.entry)),
        hooks_(installed_hooks()) {
    if (hooks_.site) hooks_.site(site_, sizeof(site_));
    if (!hooks_.fired) return;
    const orFaultRecord record = {sizeof(orFaultRecord), fired_.action, fired_.set, fired_.rule,
                                  fired_.match,          info_.name,    site_,      located_.device};
    hooks_.fired(&record);
  }

  orError_t act(Corruption* corruption) {
    switch (fired_.action) {
      case orFaultActionCount:
        return orSuccess;
      case orFaultActionError:
        return return_error(fired_.code);
      case orFaultActionDelay:
        return hold({static_cast<int64_t>(fired_.delay_ns), fired_.set, fired_.epoch});
      case orFaultActionHang:
        return hold({HoldTime::kUntilReleased, fired_.set, fired_.epoch});
      case orFaultActionKernelFailure:
        return fail_work();
      case orFaultActionCorruptCopy:
        if (corruption) *corruption = {true, fired_.bit};
        return orSuccess;
      case orFaultActionLoseDevice:
        FaultRules::instance().lose(located_.device, origin());
        return return_error(orErrorDeviceLost);
    }
    return orSuccess;
  }

 private:
  // "fault rule 0, match 3 of orMalloc, at train.py:12"
  std::string origin() const {
    std::string text = "fault rule " + std::to_string(fired_.rule) + ", match " +
                       std::to_string(fired_.match) + " of " + info_.name;
    if (*site_) text += std::string(", at ") + site_;
    return text;
  }
  std::string message(orError_t code) const {
    return (fired_.message.empty() ? orGetErrorString(code) : fired_.message) + " (" + origin() + ")";
  }
  orError_t return_error(orError_t code) const {
    return code == orErrorNotReady ? not_ready(message(code).c_str())
                                   : fail(code, "%s", message(code).c_str());
  }

  const char* work_name() const { return located_.kernel ? located_.kernel : info_.name; }

  orError_t hold(HoldTime time) {
    if (info_.traits & kSubmits) {
      StreamPin stream;
      OR_RETURN_IF_ERROR(pin(stream));
      return hold_stream(runtime_, *stream, time, work_name());
    }
    const bool hangs = time.nanoseconds == HoldTime::kUntilReleased;
    void* state = hangs && hooks_.enter_wait ? hooks_.enter_wait() : nullptr;
    hold_thread(time);
    if (hangs && hooks_.leave_wait) hooks_.leave_wait(state);
    return orSuccess;
  }

  orError_t fail_work() {
    StreamPin stream;
    OR_RETURN_IF_ERROR(pin(stream));
    return info_.traits & kSubmits
               ? submit_failure(runtime_, *stream, work_name(), message(orErrorKernelFailed))
               : run_failure(runtime_, *stream, work_name(), message(orErrorKernelFailed));
  }

  orError_t pin(StreamPin& stream) {
    if (info_.target == CallTarget::kStream) {
      return runtime_.pin_stream(static_cast<orStream_t>(const_cast<void*>(call_.object)), stream);
    }
    const int device = located_.device >= 0 ? located_.device : thread_device();
    OR_RETURN_IF_ERROR(runtime_.check_device(device));
    return runtime_.pin_default_stream(device, stream);
  }

  Runtime& runtime_;
  const Call& call_;
  const LocatedCall& located_;
  const FiredRule fired_;
  const EntryPointInfo& info_;
  const orFaultHooks hooks_;
  char site_[512] = {};
};

}  // namespace

orError_t apply_faults(Runtime& runtime, const Call& call, Corruption* corruption) {
  const EntryPointInfo& info = entry_point_info(call.entry);
  LocatedCall located;
  located.entry = call.entry;
  uint64_t stream = 0;
  // The call itself reports an invalid handle.
  if (!runtime.locate(call, info.target, located.device, stream)) return orSuccess;
  if (info.target == CallTarget::kStream) located.stream = stream;
  located.size = call.size;
  FunctionPin function;
  ModulePin module;
  if (call.kernel) {
    located.kernel = call.kernel->name;
  } else if (call.entry == EntryPoint::orLaunchFunction &&
             runtime.modules.pin_function(reinterpret_cast<uint64_t>(call.other), function, module)) {
    located.kernel = function->name;
  }
  FaultRules& rules = FaultRules::instance();
  if (located.device >= 0 && !(info.traits & kHostOnly)) {
    if (const std::string reason = rules.loss(located.device); !reason.empty()) {
      return fail(orErrorDeviceLost,
                  "%s: device %d does not respond, since it was lost (%s); reset the device or start a new "
                  "process",
                  info.name, located.device, reason.c_str());
    }
  }
  if (faults_suspended()) return orSuccess;
  auto fired = rules.match(located);
  if (!fired) return orSuccess;
  return Fault(runtime, call, located, *std::move(fired)).act(corruption);
}

orError_t corrupt_copy(Runtime& runtime, Corruption corruption, orStream_t stream, void* dst, size_t size,
                       bool wait) {
  if (size == 0) return orSuccess;
  const uint64_t bit = corruption.bit % (uint64_t{size} * 8);
  auto* byte = static_cast<unsigned char*>(dst) + bit / 8;
  const PointerInfo info = runtime.allocations.find(dst);
  const bool on_device = info.known && info.allocation.on_device();
  if (!on_device && (wait || !info.known)) {  // the copy is done
    *byte ^= static_cast<unsigned char>(1u << bit % 8);
    return orSuccess;
  }
  StreamPin pin;
  OR_RETURN_IF_ERROR(wait ? runtime.pin_default_stream(info.allocation.device, pin)
                          : runtime.pin_stream(stream, pin));
  OR_RETURN_IF_ERROR(flip_bit(runtime, *pin, byte, bit % 8, on_device));
  return wait ? from_driver(runtime.driver().stream_synchronize(pin->driver)) : orSuccess;
}

bool faults_suspended() {
  return suspensions.load(std::memory_order_relaxed) > 0;
}

void restore_device(int device) {
  FaultRules::instance().restore(device);
}

Runtime* Runtime::enter_call(const Call& call, orError_t& error, Corruption* corruption) {
  Runtime* runtime = enter(error);
  if (!runtime) return nullptr;
  error = apply_faults(*runtime, call, corruption);
  return error == orSuccess ? runtime : nullptr;
}

void Runtime::set_faults(bool present) {
  faults_.store(present);
  update_faults();
}

void Runtime::update_faults() {
  bool present;
  do {
    present = faults_.load();
    State before = present ? State::kReady : State::kFaults;
    state_.compare_exchange_strong(before, present ? State::kFaults : State::kReady);
  } while (present != faults_.load());
}

bool Runtime::locate(const Call& call, CallTarget target, int& device, uint64_t& stream) {
  const auto handle = reinterpret_cast<uint64_t>(call.object);
  switch (target) {
    case CallTarget::kNone:
      return true;
    case CallTarget::kCurrentDevice:
      device = thread_device();
      return true;
    case CallTarget::kDevice:
      device = call.device;
      return true;
    case CallTarget::kStream:
      if (const StreamPin pin = handle ? streams_.pin(handle) : StreamPin()) {
        device = pin->device;
        stream = pin->id;
        return true;
      }
      device = thread_device();
      stream = 0;
      return handle == 0;
    case CallTarget::kEvent: {
      const EventPin pin = events_.pin(handle);
      if (pin) device = pin->device;
      return static_cast<bool>(pin);
    }
    case CallTarget::kGraph: {
      const GraphPin pin = graphs_.pin(handle);
      if (pin) device = pin->device;
      return static_cast<bool>(pin);
    }
    case CallTarget::kModule: {
      const ModulePin pin = modules.pin(handle);
      if (pin) device = pin->device;
      return static_cast<bool>(pin);
    }
    case CallTarget::kMemory:
      for (const void* pointer : {call.object, call.other}) {
        const PointerInfo info = allocations.find(pointer);
        if (!info.known || !info.allocation.on_device()) continue;
        device = info.allocation.device;
        return true;
      }
      return true;
  }
  return false;
}

}  // namespace openreg

using namespace openreg;

extern "C" {

orError_t orFaultsAdd(const orFaultRule* rules, size_t count, uint64_t* id) {
  if (!id) return fail(orErrorInvalidValue, "orFaultsAdd: id is NULL");
  if (!rules && count) return fail(orErrorInvalidValue, "orFaultsAdd: rules is NULL");
  return noexcept_boundary([&] { return FaultRules::instance().add(rules, count, *id); });
}

orError_t orFaultsRemove(uint64_t id) {
  return noexcept_boundary([&]() -> orError_t {
    if (!FaultRules::instance().remove(id)) {
      return fail(orErrorInvalidValue, "orFaultsRemove: there is no set %llu of fault rules",
                  static_cast<unsigned long long>(id));
    }
    continue_released();
    return orSuccess;
  });
}

orError_t orFaultsClear(void) {
  return noexcept_boundary([] {
    FaultRules::instance().clear();
    continue_released();
    return orSuccess;
  });
}

orError_t orFaultsGetCounts(uint64_t id, size_t rule, uint64_t* matched, uint64_t* fired) {
  if (!matched || !fired) {
    return fail(orErrorInvalidValue, "orFaultsGetCounts: %s is NULL", matched ? "fired" : "matched");
  }
  return noexcept_boundary([&] { return FaultRules::instance().counts(id, rule, *matched, *fired); });
}

orError_t orFaultsRelease(int forever) {
  return noexcept_boundary([&] {
    FaultRules::instance().release(forever != 0);
    continue_released();
    return orSuccess;
  });
}

orError_t orFaultsSuspend(int suspended) {
  suspensions.fetch_add(suspended ? 1 : -1);
  return orSuccess;
}

orError_t orFaultsRestoreDevice(int device) {
  return noexcept_boundary([&] {
    restore_device(device);
    return orSuccess;
  });
}

const char* orFaultsGetCallName(size_t index) {
  return index < kEntryPointCount ? entry_point_info(static_cast<EntryPoint>(index)).name : nullptr;
}

orError_t orFaultsSetHooks(const orFaultHooks* given) {
  return noexcept_boundary([&]() -> orError_t {
    if (given) {
      OR_RETURN_IF_ERROR(
          check_struct_size("orFaultsSetHooks", "orFaultHooks", given->struct_size, sizeof(orFaultHooks)));
    }
    Hooks& all = hooks();
    std::lock_guard lock(all.mutex);
    all.installed = given ? *given : orFaultHooks{};
    return orSuccess;
  });
}

}  // extern "C"
