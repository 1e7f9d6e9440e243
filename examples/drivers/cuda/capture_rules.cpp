// Calls that captures do not permit, and the entries of the table for captures.
//
// Another chip: the rules are those of the runtime, not of CUDA, and can be copied unchanged.
#include "capture.h"

#include <algorithm>
#include <cstdio>

namespace nv {
namespace {

// All captures that have begun and not ended, for calls that concern a device.
struct ActiveCaptures {
  std::mutex mutex;  // guards captures
  std::vector<std::shared_ptr<Capture>> captures;
  std::atomic<size_t> count{0};
};

ActiveCaptures& active_captures() {
  static auto* all = new ActiveCaptures;
  return *all;
}

}  // namespace

void Capture::register_active(const std::shared_ptr<Capture>& capture) {
  const std::lock_guard lock(active_captures().mutex);
  active_captures().captures.push_back(capture);
  ++active_captures().count;
}

void Capture::unregister(const Capture& capture) {
  const std::lock_guard lock(active_captures().mutex);
  std::erase_if(active_captures().captures, [&](const auto& one) { return one.get() == &capture; });
  active_captures().count = active_captures().captures.size();
}

std::vector<std::shared_ptr<Capture>> Capture::active() {
  if (active_captures().count == 0) return {};
  const std::lock_guard lock(active_captures().mutex);
  return active_captures().captures;
}

bool Capture::uses(int device) {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(members_,
                             [&](const Member& one) { return one.stream->device().index == device; });
}

void Capture::invalidate(const std::string& message) {
  if (invalid_.empty()) invalid_ = message.empty() ? "a call failed" : message;
}

orError_t Capture::fail_invalid() const {
  return fail(
      orErrorCaptureInvalidated,
      "operation failed due to a previous error during capture: the capture is invalid and can only be "
      "ended: %s",
      invalid_.c_str());
}

orError_t Capture::reject(const char* what) {
  const std::lock_guard lock(mutex_);
  if (!invalid_.empty()) return fail_invalid();
  const orError_t error = fail(
      orErrorCapture,
      "operation not permitted when stream is capturing: %s is not possible during a capture, since nothing "
      "runs before the graph is launched",
      what);
  if (!ended_) invalidate(last_message());
  return error;
}

orError_t Capture::reject_event(const CapturePoint& point, const char* what) {
  {
    const std::lock_guard lock(point.capture->mutex_);
    if (point.capture->ended_) {
      return fail(
          orErrorCapture,
          "operation not permitted on an event last recorded in a capturing stream: %s; record it again "
          "outside of the capture",
          what);
    }
  }
  return point.capture->reject(what);
}

orError_t Capture::check_wait(int device) {
  for (const auto& capture : active()) {
    if (!capture->uses(device)) continue;
    char what[64];
    std::snprintf(what, sizeof(what), "synchronizing device %d", device);
    return capture->reject(what);
  }
  return orSuccess;
}

orError_t Capture::check_free(int device, const char* what) {
  for (const auto& capture : active()) {
    const bool own = capture->thread_ == std::this_thread::get_id();
    const bool forbids = capture->mode_ == orCaptureGlobal || (capture->mode_ == orCaptureThreadLocal && own);
    if (forbids && capture->uses(device)) return capture->reject(what);
  }
  return orSuccess;
}

orCaptureStatus Capture::status() {
  const std::lock_guard lock(mutex_);
  if (ended_) return orCaptureNone;
  return invalid_.empty() ? orCaptureActive : orCaptureBroken;
}

// ---- Entries of the table

orError_t stream_begin_capture(orDriverStream* stream, orCaptureMode mode) {
  return entry([&] { return Capture::begin(Stream::of(stream), mode); });
}

orError_t stream_end_capture(orDriverStream* stream, orDriverGraph** graph, size_t* nodes) {
  return entry([&]() -> orError_t {
    std::shared_ptr<Graph> made;
    NV_RETURN_IF_ERROR(Capture::end(Stream::of(stream), made));
    *nodes = made->size();
    *graph = reinterpret_cast<orDriverGraph*>(made.get());
    made->self = made;
    return orSuccess;
  });
}

orError_t stream_capture_status(orDriverStream* stream, orCaptureStatus* status, uint64_t* id) {
  return entry([&] {
    const auto capture = Stream::of(stream).capture();
    *status = capture ? capture->status() : orCaptureNone;
    *id = capture ? capture->id() : 0;
    return orSuccess;
  });
}

orError_t stream_check_uncaptured(orDriverStream* stream, const char* what) {
  return entry([&] {
    const auto capture = Stream::of(stream).capture();
    return capture ? capture->reject(what) : orSuccess;
  });
}

orError_t device_check_uncaptured(int index, const char* what) {
  return entry([&] { return Capture::check_free(index, what); });
}

}  // namespace nv
