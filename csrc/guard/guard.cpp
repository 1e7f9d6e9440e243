// PyTorch's device guard: its virtual interface to the devices, streams and events of one device type.
// torch.Stream, torch.Event, torch.accelerator and every c10::DeviceGuard call it.
#include "common/check.h"
#include "common/version.h"
#include "device/device.h"
#include "event/event.h"
#include "memory/device_allocator.h"
#include "stream/capture.h"
#include "stream/checked_stream.h"
#include "stream/stream.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace openreg {
namespace {

c10::Device device_at(c10::DeviceIndex index) {
  return c10::Device(kDevice, index);
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kDevice; }

  // ---- Devices

  c10::Device exchangeDevice(c10::Device device) const override {
    return device_at(exchange_device(resolve(device)));
  }
  c10::Device getDevice() const override { return device_at(current_device()); }
  void setDevice(c10::Device device) const override { set_device(resolve(device)); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { (void)!orSetDevice(device.index()); }
  c10::DeviceIndex deviceCount() const noexcept override { return device_count(); }
  void synchronizeDevice(const c10::DeviceIndex index) const override { synchronize_device(index); }
  // All dtypes are supported: the kernels are CPU kernels.
  c10::DeviceCapability getDeviceCapability(c10::Device device) const override {
    resolve(device);
    return {};
  }

  // ---- Streams

  // Autograd calls this while it creates nodes, where exceptions are not allowed, also in a forked child. So
  // this does not call the runtime if the device has an index.
  c10::Stream getStream(c10::Device device) const override {
    return current_stream(device.has_index() ? device.index() : current_device());
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return default_stream(resolve(device)); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool urgent) const override {
    return stream_from_pool(resolve(device), urgent ? 1 - kPools : 0);
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    return stream_from_pool(resolve(device), priority);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override { return exchange_stream(stream); }
  void* getStreamNativeHandle(const c10::Stream stream) const override { return stream_handle(stream); }
  bool queryStream(const c10::Stream& stream) const override {
    const bool done = query_stream(stream);
    if (C10_UNLIKELY(races::on()) && done) {
      races::host_waited_for_stream(checked_stream(stream));
    }
    return done;
  }
  bool isStreamCapturing(const c10::Stream& stream) const OR_OVERRIDE_WITH_GRAPHS {
    return stream_is_capturing(stream);
  }
  void synchronizeStream(const c10::Stream& stream) const override { synchronize_stream(stream); }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    device_allocator().recordStream(data, stream);
  }

  // ---- Events

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex device,
              const c10::EventFlag flag) const override {
    record_event(event, stream, device, flag);
  }
  void block(void* event, const c10::Stream& stream) const override { block_on_event(event, stream); }
  bool queryEvent(void* event) const override {
    const bool done = query_event(event);
    if (C10_UNLIKELY(races::on()) && done) {
      races::host_waited_for_event(event);
    }
    return done;
  }
  void synchronizeEvent(void* event) const override { synchronize_event(event); }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    return elapsed_time(start, end);
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override { destroy_event(event); }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

}  // namespace
}  // namespace openreg
