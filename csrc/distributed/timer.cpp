// The timer with which DDP measures its iterations (the statistics in its log).
#include "device/device.h"
#include "stream/stream.h"

#include <c10/core/Event.h>
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

namespace openreg::distributed {

class DeviceTimer final : public c10d::Timer {
 public:
  explicit DeviceTimer(c10::Device device) : device_(device) {}

  void record(Event event) override {
    Timer::record(event);
    event_of(event).record(current_stream(device_.index()));
  }

  std::optional<int64_t> measureDifference(Event start, Event end) override {
    c10::Event& first = event_of(start);
    c10::Event& last = event_of(end);
    if (!first.was_marked_for_recording() || !last.was_marked_for_recording()) return std::nullopt;
    // The reducer asks after the iteration; an event that was not recorded in it is in the wrong order.
    first.synchronize();
    last.synchronize();
    const double milliseconds = first.elapsedTime(last);
    if (milliseconds < 0) return std::nullopt;
    return static_cast<int64_t>(milliseconds * 1e6);
  }

 private:
  c10::Event& event_of(Event event) {
    switch (event) {
      case Event::kForwardStart:
        return forward_start_;
      case Event::kBackwardComputeStart:
        return backward_compute_start_;
      case Event::kBackwardComputeEnd:
        return backward_compute_end_;
      case Event::kBackwardCommStart:
        return backward_comm_start_;
      case Event::kBackwardCommEnd:
        return backward_comm_end_;
    }
    TORCH_INTERNAL_ASSERT(false);
  }

  const c10::Device device_;
  c10::Event forward_start_{kDevice, c10::EventFlag::BACKEND_DEFAULT};
  c10::Event backward_compute_start_{kDevice, c10::EventFlag::BACKEND_DEFAULT};
  c10::Event backward_compute_end_{kDevice, c10::EventFlag::BACKEND_DEFAULT};
  c10::Event backward_comm_start_{kDevice, c10::EventFlag::BACKEND_DEFAULT};
  c10::Event backward_comm_end_{kDevice, c10::EventFlag::BACKEND_DEFAULT};
};

}  // namespace openreg::distributed

namespace c10d {
namespace {

using openreg::distributed::DeviceTimer;
C10_REGISTER_TYPED_CLASS(TimerRegistry, c10::kPrivateUse1, DeviceTimer);

}  // namespace
}  // namespace c10d
