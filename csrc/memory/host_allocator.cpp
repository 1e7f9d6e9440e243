#include "memory/host_allocator.h"

#include "common/check.h"
#include "common/fork.h"
#include "common/gil_release.h"
#include "device/device.h"
#include "event/event.h"
#include "race_check/race_check.h"
#include "stream/capture.h"
#include "stream/stream.h"

#include <cstring>
#include <utility>

namespace openreg {
namespace {

// A stream's use of a freed block: an event behind the stream's work at the free. If the record fails, for
// instance because the device is lost, it is tried again at each query. Move-only.
class StreamUse {
 public:
  explicit StreamUse(c10::Stream stream) : stream_(stream) { record(); }
  ~StreamUse() {
    if (event_ != nullptr) {
      destroy_event(event_);
    }
  }
  StreamUse(StreamUse&& other) noexcept
      : stream_(other.stream_), event_(std::exchange(other.event_, nullptr)) {}
  StreamUse& operator=(StreamUse&& other) noexcept {
    std::swap(stream_, other.stream_);
    std::swap(event_, other.event_);
    return *this;
  }

  bool is_over() { return (event_ != nullptr || record()) && is_complete(event_); }

 private:
  // A destroyed stream cannot record; the default stream records instead, which does not wait for the
  // destroyed one.
  bool record() noexcept {
    for (const c10::Stream one : {stream_, default_stream(stream_.device_index())}) {
      void* event = nullptr;
      if (try_record_event(&event, one)) {
        event_ = event;
        return true;
      }
    }
    return false;
  }

  c10::Stream stream_;
  void* event_ = nullptr;
};

struct HostAllocatorImpl final : at::CachingHostAllocatorImpl<c10::Stream, StreamUse> {
  void allocate_host_memory(size_t size, void** ptr) override { OR_CHECK(orMallocHost(ptr, size)); }

  void free_block(at::HostBlock<c10::Stream>* block) override { OR_CHECK(orFreeHost(block->ptr_)); }

  void record_stream(std::optional<std::vector<StreamUse>>& uses, c10::Stream stream) override {
    if (any_capture() && openreg::stream_is_capturing(stream)) {
      // Replays use the block, so it must not be reused: without an event, its event count never reaches 0.
      return;
    }
    uses->emplace_back(stream);
  }

  bool query_event(StreamUse& use) override { return use.is_over(); }
  c10::Stream get_current_stream() const override { return current_stream(current_device()); }
  bool stream_is_capturing(c10::Stream stream) const override {
    return any_capture() && openreg::stream_is_capturing(stream);
  }
  void copy_data(void* dst, const void* src, size_t bytes) const override { std::memcpy(dst, src, bytes); }
};

void free_host(void* context);

// Checks for a forked child before PyTorch's allocator locks; see Note [Forked children].
struct HostAllocator final : at::CachingHostAllocatorInterface<HostAllocatorImpl, free_host> {
  using Base = at::CachingHostAllocatorInterface<HostAllocatorImpl, free_host>;

  at::DataPtr allocate(size_t size) override {
    check_not_forked();
    at::DataPtr data = Base::allocate(size);
    if (C10_UNLIKELY(races::on())) {
      races::forget(data.get(), size);  // the allocator has waited for the streams that used it
    }
    return data;
  }
  bool record_event(void* ptr, void* context, c10::Stream stream) override {
    check_not_forked();
    return Base::record_event(ptr, context, stream);
  }
  void empty_cache() override {
    if (in_forked_child()) {
      return;
    }
    const GilRelease waiting;
    Base::empty_cache();
  }
  at::HostStats get_stats() override {
    check_not_forked();
    return Base::get_stats();
  }
  void reset_accumulated_stats() override {
    check_not_forked();
    Base::reset_accumulated_stats();
  }
  void reset_peak_stats() override {
    check_not_forked();
    Base::reset_peak_stats();
  }
};

HostAllocator& the_allocator() {
  static auto* allocator = new HostAllocator;
  return *allocator;
}

void free_host(void* context) {
  if (in_forked_child()) {
    return;
  }
  the_allocator().free(context);
}

[[maybe_unused]] const bool registered = [] {
  at::setHostAllocator(kDevice, &the_allocator());
  return true;
}();

}  // namespace

at::HostAllocator& host_allocator() {
  return the_allocator();
}

bool is_pinned(const void* ptr) {
  orPointerAttributes attributes{};
  attributes.struct_size = sizeof(attributes);
  OR_CHECK(orPointerGetAttributes(&attributes, ptr));
  return attributes.type == orMemoryTypeHost;
}

}  // namespace openreg
