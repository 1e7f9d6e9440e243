#include "capture.h"

#include "error.h"
#include "event.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <utility>

namespace openreg::sim {
namespace {

using ull = unsigned long long;

// All captures that have begun and not ended, for calls that concern a device rather than a stream.
struct ActiveCaptures {
  std::atomic<int> count{0};
  std::mutex mutex;  // guards captures
  std::vector<Ref<Capture>> captures;
};

ActiveCaptures& active_captures() {
  static auto* all = new ActiveCaptures;  // leaked: threads may use it while the process exits
  return *all;
}

std::vector<Ref<Capture>> copy_active_captures() {
  if (active_captures().count.load(std::memory_order_acquire) == 0) [[likely]]
    return {};
  std::lock_guard lock(active_captures().mutex);
  return active_captures().captures;
}

void add_to(std::vector<uint32_t>& tails, const std::vector<uint32_t>& more) {
  for (const uint32_t node : more) {
    if (std::find(tails.begin(), tails.end(), node) == tails.end()) tails.push_back(node);
  }
}

}  // namespace

CapturePoint::CapturePoint(Ref<Capture> in, std::vector<uint32_t> behind, std::vector<uint32_t> counts)
    : capture(std::move(in)), tails(std::move(behind)), preceding(std::move(counts)) {}
CapturePoint::~CapturePoint() = default;

Capture::Capture(orCaptureMode mode, uint64_t id)
    : mode_(mode), id_(id), thread_(std::this_thread::get_id()), graph_(Ref<Graph>::adopt(new Graph)) {}
Capture::~Capture() = default;

// ---- Beginning and ending

orError_t Capture::begin(Stream& origin, orCaptureMode mode) {
  static std::atomic<uint64_t> next_id{1};
  const Ref<Capture> capture = Ref<Capture>::adopt(new Capture(mode, next_id.fetch_add(1)));
  {
    std::lock_guard all(active_captures().mutex);
    active_captures().captures.push_back(capture);
    active_captures().count.fetch_add(1);
  }
  {
    std::lock_guard lock(capture->mutex_);
    capture->members_.push_back({Ref<Stream>(&origin), {}});
    if (origin.begin_capture(capture)) return orSuccess;
    capture->members_.clear();
    capture->ended_ = true;
  }
  unregister(*capture);
  return fail(orErrorCapture, "stream %llu of device %d is already being captured", ull(origin.id()),
              origin.device_index());
}

orError_t Capture::end(Stream& stream, Ref<Graph>& graph) {
  const Ref<Capture> capture = stream.capture();
  if (!capture) {
    return fail(orErrorCapture, "stream %llu of device %d is not being captured", ull(stream.id()),
                stream.device_index());
  }
  std::vector<Member> members;  // released outside the lock
  Ref<Graph> made;
  std::string invalid;
  bool joined;
  {
    std::lock_guard lock(capture->mutex_);
    if (capture->ended_) return fail(orErrorCapture, "the capture was ended by another thread");
    const Stream& origin = *capture->members_.front().stream;
    if (&origin != &stream) {
      return fail(
          orErrorCapture,
          "stream %llu of device %d has joined the capture of stream %llu of device %d; end the capture "
          "on that stream",
          ull(stream.id()), stream.device_index(), ull(origin.id()), origin.device_index());
    }
    if (capture->mode_ != orCaptureRelaxed && capture->thread_ != std::this_thread::get_id()) {
      return fail(
          orErrorCapture,
          "the capture of stream %llu of device %d was begun by another thread and must be ended by that "
          "thread; only a relaxed capture may be ended by any thread",
          ull(stream.id()), stream.device_index());
    }
    joined = capture->joined();
    invalid = capture->invalid_;
    made = std::move(capture->graph_);
    members = capture->detach();
  }
  unregister(*capture);
  if (!invalid.empty()) {
    return fail(
        orErrorCaptureInvalidated,
        "operation failed due to a previous error during capture: the capture of stream %llu of device %d "
        "is invalid: %s",
        ull(stream.id()), stream.device_index(), invalid.c_str());
  }
  if (!joined) {
    return fail(
        orErrorCapture,
        "capturing stream has unjoined work: the capture of stream %llu of device %d has work on "
        "another stream that was not joined: record an event on that stream and make stream %llu wait "
        "for it before the capture ends",
        ull(stream.id()), stream.device_index(), ull(stream.id()));
  }
  graph = std::move(made);
  return orSuccess;
}

// Called with the lock held. The caller destroys the result without it.
std::vector<Capture::Member> Capture::detach() {
  for (const Member& member : members_) member.stream->end_capture();
  ended_ = true;
  return std::exchange(members_, {});
}

void Capture::unregister(Capture& capture) {
  Ref<Capture> removed;
  std::lock_guard lock(active_captures().mutex);
  auto& all = active_captures().captures;
  const auto found = std::find_if(all.begin(), all.end(), [&](auto& one) { return one.get() == &capture; });
  if (found == all.end()) return;
  removed = std::move(*found);
  all.erase(found);
  active_captures().count.fetch_sub(1);
}

void Capture::abandon(Stream& stream) {
  std::vector<Member> members;
  Ref<Graph> dropped;
  {
    std::lock_guard lock(mutex_);
    if (ended_ || members_.front().stream.get() != &stream) return;
    invalidate("the stream that began it was destroyed");
    dropped = std::move(graph_);
    members = detach();
  }
  unregister(*this);
}

bool Capture::joined() const {
  const size_t count = graph_->nodes().size();
  std::vector<bool> reached(count, false);
  for (const uint32_t node : members_.front().tails) reached[node] = true;
  for (size_t i = count; i-- > 0;) {
    if (!reached[i]) return false;
    for (const uint32_t before : graph_->nodes()[i].after) reached[before] = true;
  }
  return true;
}

bool Capture::follows(const Stream& stream, const CapturePoint& point) {
  std::lock_guard lock(mutex_);
  const Member* member = find(stream);
  if (!member || point.capture.get() != this) return false;
  for (size_t i = 0; i < point.preceding.size(); ++i) {
    const uint32_t known = i < member->preceding.size() ? member->preceding[i] : 0;
    if (known < point.preceding[i]) return false;
  }
  return true;
}

// ---- Work of a captured stream

Capture::Member* Capture::find(const Stream& stream) {
  for (Member& member : members_) {
    if (member.stream.get() == &stream) return &member;
  }
  return nullptr;
}

orError_t Capture::add(Stream& stream, Node node, const void* args, size_t args_size) {
  std::lock_guard lock(mutex_);
  if (!invalid_.empty()) return fail_invalid();
  Member* member = find(stream);
  if (!member) return fail(orErrorCapture, "the capture ended during the call");
  node.device = stream.device_index();
  node.stream = stream.id();
  node.after = member->tails;
  member->tails.reserve(1);
  const auto number = static_cast<size_t>(member - members_.data());
  if (member->preceding.size() <= number) member->preceding.resize(number + 1);
  const uint32_t index = graph_->add(std::move(node), args, args_size);
  member->tails.assign(1, index);
  ++member->preceding[number];
  return orSuccess;
}

orError_t Capture::add_event_wait(Stream& stream, Event& event) {
  return add(stream, Node::of_event(orGraphNodeEventWait, event), nullptr, 0);
}

orError_t Capture::record(Stream& stream, Event& event) {
  if (event.external()) return add(stream, Node::of_event(orGraphNodeEventRecord, event), nullptr, 0);
  if (event.shared()) return reject("recording an interprocess event");
  std::vector<uint32_t> tails;
  std::vector<uint32_t> preceding;
  {
    std::lock_guard lock(mutex_);
    if (!invalid_.empty()) return fail_invalid();
    const Member* member = find(stream);
    if (!member) return fail(orErrorCapture, "the capture ended during the call");
    tails = member->tails;
    preceding = member->preceding;
  }
  event.set_captured(
      Ref<CapturePoint>::adopt(new CapturePoint(Ref<Capture>(this), std::move(tails), std::move(preceding))));
  return orSuccess;
}

orError_t Capture::wait(Stream& stream, const CapturePoint& point) {
  std::lock_guard lock(mutex_);
  if (!invalid_.empty()) return fail_invalid();
  if (ended_) {
    return fail(orErrorCapture,
                "the event was recorded in a capture that has ended, and never completes; record it again "
                "outside of the capture");
  }
  Member* member = find(stream);
  if (!member) {
    members_.push_back({Ref<Stream>(&stream), {}});
    if (!stream.begin_capture(Ref<Capture>(this))) {
      members_.pop_back();
      return fail(orErrorCapture,
                  "another thread began a capture of stream %llu of device %d during the call",
                  ull(stream.id()), stream.device_index());
    }
    member = &members_.back();
  }
  add_to(member->tails, point.tails);
  if (member->preceding.size() < point.preceding.size()) member->preceding.resize(point.preceding.size());
  for (size_t i = 0; i < point.preceding.size(); ++i) {
    member->preceding[i] = std::max(member->preceding[i], point.preceding[i]);
  }
  return orSuccess;
}

// ---- Rejected calls

void Capture::invalidate(const char* message) {
  if (invalid_.empty()) invalid_ = message;
}

orError_t Capture::fail_invalid() {
  return fail(
      orErrorCaptureInvalidated,
      "operation failed due to a previous error during capture: the capture is invalid and can only be "
      "ended: %s",
      invalid_.c_str());
}

orError_t Capture::reject(const char* what) {
  std::lock_guard lock(mutex_);
  if (!invalid_.empty()) return fail_invalid();
  char message[512];
  if (ended_) {
    std::snprintf(message, sizeof(message), "operation not permitted when stream is capturing: %s", what);
  } else {
    const Stream& origin = *members_.front().stream;
    std::snprintf(message, sizeof(message),
                  "operation not permitted when stream is capturing: %s is not possible while stream %llu of "
                  "device %d is captured into a graph, since nothing runs before the graph is launched",
                  what, ull(origin.id()), origin.device_index());
    invalidate(message);
  }
  return fail(orErrorCapture, "%s", message);
}

orError_t Capture::reject_event(const CapturePoint& point, const char* what) {
  {
    std::lock_guard lock(point.capture->mutex_);
    if (point.capture->ended_) {
      return fail(orErrorCapture,
                  "operation not permitted on an event last recorded in a capturing stream: %s; record it "
                  "again outside of the capture",
                  what);
    }
  }
  return point.capture->reject(what);
}

bool Capture::touches(int device) {
  std::lock_guard lock(mutex_);
  return std::any_of(members_.begin(), members_.end(),
                     [&](const Member& member) { return member.stream->device_index() == device; });
}

orError_t Capture::check_wait(int device) {
  for (const Ref<Capture>& capture : copy_active_captures()) {
    if (!capture->touches(device)) continue;
    char what[64];
    std::snprintf(what, sizeof(what), "synchronizing device %d", device);
    return capture->reject(what);
  }
  return orSuccess;
}

orError_t Capture::check_free(int device, const char* what) {
  for (const Ref<Capture>& capture : copy_active_captures()) {
    const bool forbids =
        capture->mode_ == orCaptureGlobal ||
        (capture->mode_ == orCaptureThreadLocal && capture->thread_ == std::this_thread::get_id());
    if (forbids && capture->touches(device)) return capture->reject(what);
  }
  return orSuccess;
}

orCaptureStatus Capture::status() {
  std::lock_guard lock(mutex_);
  if (ended_) return orCaptureNone;
  return invalid_.empty() ? orCaptureActive : orCaptureBroken;
}

}  // namespace openreg::sim
