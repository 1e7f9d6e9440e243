// torch's profiler without Kineto (use_kineto=False): records an event before and after each operator.
#include "common/check.h"
#include "device/device.h"
#include "event/event.h"
#include "profiler/ranges.h"
#include "stream/stream.h"

#include <c10/core/Event.h>
#include <c10/util/ApproximateClock.h>
#include <torch/csrc/profiler/stubs/base.h>

namespace openreg {
namespace {

using torch::profiler::impl::ProfilerVoidEventStub;

struct Stubs final : torch::profiler::impl::ProfilerStubs {
  void record(c10::DeviceIndex* device, ProfilerVoidEventStub* event, int64_t* cpu_ns) const override {
    const c10::DeviceIndex current = current_device();
    if (device != nullptr) {
      *device = current;
    }
    void* made = nullptr;
    record_event(&made, current_stream(current), current, c10::EventFlag::BACKEND_DEFAULT);
    *event = ProfilerVoidEventStub(made, &destroy_event);
    if (cpu_ns != nullptr) {
      *cpu_ns = c10::getTime();
    }
  }

  // In microseconds.
  float elapsed(const ProfilerVoidEventStub* start, const ProfilerVoidEventStub* end) const override {
    synchronize_event(start->get());
    synchronize_event(end->get());
    return static_cast<float>(elapsed_time(start->get(), end->get()) * 1000.0);
  }

  void mark(const char* name) const override { OR_CHECK(orTraceMark(name)); }
  void rangePush(const char* name) const override { OR_CHECK(orTraceRangePush(name, nullptr)); }
  void rangePop() const override { OR_CHECK(orTraceRangePop(nullptr)); }

  bool enabled() const override { return device_count() > 0; }

  void onEachDevice(std::function<void(int)> function) const override {
    for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
      const DeviceScope scope(device);
      function(device);
    }
  }

  void synchronize() const override { synchronize_device(current_device()); }
};

[[maybe_unused]] const bool registered = [] {
  torch::profiler::impl::registerPrivateUse1Methods(new Stubs);
  return true;
}();

}  // namespace
}  // namespace openreg
