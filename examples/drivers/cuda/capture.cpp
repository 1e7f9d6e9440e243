// Another chip: if its driver can record command buffers, a segment is one. Otherwise a graph is a list of
// arguments that are submitted again, which saves the work of the framework.
#include "capture.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <utility>

namespace nv {

orError_t Capture::begin(Stream& origin, orCaptureMode mode) {
  static std::atomic<uint64_t> next_id{1};
  if (origin.capture()) {
    return fail(orErrorCapture, "stream %llu is already being captured",
                static_cast<unsigned long long>(origin.id()));
  }
  auto capture = std::make_shared<Capture>(mode, next_id.fetch_add(1));
  NV_RETURN_IF_ERROR(Graph::create(origin.device(), capture->graph_));
  capture->members_.push_back({origin.shared_from_this(), {}});
  register_active(capture);
  origin.set_capture(capture);
  return orSuccess;
}

orError_t Capture::end(Stream& stream, std::shared_ptr<Graph>& graph) {
  const std::shared_ptr<Capture> capture = stream.capture();
  const auto number = static_cast<unsigned long long>(stream.id());
  if (!capture) return fail(orErrorCapture, "stream %llu is not being captured", number);
  std::vector<Member> members;  // destroyed without the lock, as is `made`
  std::shared_ptr<Graph> made;
  std::string invalid;
  bool joined = false;
  {
    const std::lock_guard lock(capture->mutex_);
    if (capture->ended_) return fail(orErrorCapture, "the capture was ended by another thread");
    if (capture->members_.front().stream.get() != &stream) {
      return fail(orErrorCapture,
                  "stream %llu has joined the capture of stream %llu; end the capture on that stream", number,
                  static_cast<unsigned long long>(capture->members_.front().stream->id()));
    }
    if (capture->mode_ != orCaptureRelaxed && capture->thread_ != std::this_thread::get_id()) {
      return fail(orErrorCapture,
                  "the capture of stream %llu was begun by another thread, which has to end it", number);
    }
    joined = capture->joined();
    if (capture->graph_->finish() != orSuccess) capture->invalidate(last_message());
    invalid = capture->invalid_;
    made = std::move(capture->graph_);
    members = capture->detach();
  }
  unregister(*capture);
  if (!invalid.empty()) {
    return fail(orErrorCaptureInvalidated,
                "operation failed due to a previous error during capture: the capture of stream %llu is "
                "invalid: %s",
                number, invalid.c_str());
  }
  if (!joined) {
    return fail(
        orErrorCapture,
        "capturing stream has unjoined work: another stream has joined the capture of stream %llu and "
        "was not joined back: record an event on it and make stream %llu wait for it",
        number, number);
  }
  graph = std::move(made);
  return orSuccess;
}

void Capture::abandon(Stream& stream) {
  std::vector<Member> members;
  std::shared_ptr<Graph> dropped;
  {
    const std::lock_guard lock(mutex_);
    if (ended_ || members_.front().stream.get() != &stream) return;
    invalidate("the stream that began it was destroyed");
    static_cast<void>(graph_->finish());
    dropped = std::move(graph_);
    members = detach();
  }
  unregister(*this);
}

std::vector<Capture::Member> Capture::detach() {
  for (const Member& member : members_) member.stream->set_capture(nullptr);
  ended_ = true;
  return std::exchange(members_, {});
}

// Whether all nodes precede the end of the stream that began the capture.
bool Capture::joined() const {
  const auto& nodes = graph_->nodes();
  std::vector<bool> reached(nodes.size(), false);
  for (const uint32_t node : members_.front().tails) reached[node] = true;
  for (size_t i = nodes.size(); i-- > 0;) {
    if (!reached[i]) return false;
    for (const uint32_t before : nodes[i].after) reached[before] = true;
  }
  return true;
}

Capture::Member* Capture::find(const Stream& stream) {
  for (Member& member : members_) {
    if (member.stream.get() == &stream) return &member;
  }
  return nullptr;
}

orError_t Capture::begin_node(const Stream& stream, Member*& member) {
  if (!invalid_.empty()) return fail_invalid();
  member = find(stream);
  return member ? orSuccess : fail(orErrorCapture, "the capture ended during the call");
}

void Capture::add_node(Member& member, const WorkInfo& info) {
  const uint32_t index =
      graph_->add_node(info, member.stream->device().index, member.stream->id(), member.tails);
  member.tails.assign(1, index);
}

orError_t Capture::add_work(Stream& stream, const Work& work, const WorkInfo& info) {
  const std::lock_guard lock(mutex_);
  Member* member = nullptr;
  NV_RETURN_IF_ERROR(begin_node(stream, member));
  if (const orError_t error = graph_->add_work(work)) {
    invalidate(last_message());
    return error;
  }
  add_node(*member, info);
  return orSuccess;
}

orError_t Capture::add_kernel(Stream& stream, HostKernel kernel) {
  const std::lock_guard lock(mutex_);
  Member* member = nullptr;
  NV_RETURN_IF_ERROR(begin_node(stream, member));
  const char* name = kernel.kernel->name;
  NV_RETURN_IF_ERROR(graph_->add_kernel(std::move(kernel)));
  add_node(*member, {orGraphNodeKernel, name});
  return orSuccess;
}

// ---- Events

orError_t Capture::record(Stream& stream, Event& event) {
  auto point = std::make_shared<CapturePoint>();
  {
    const std::lock_guard lock(mutex_);
    Member* member = nullptr;
    NV_RETURN_IF_ERROR(begin_node(stream, member));
    if (event.external()) {
      NV_RETURN_IF_ERROR(graph_->add_event(Item::Kind::kRecord, event));
      add_node(*member, {orGraphNodeEventRecord, "event record"});
      return orSuccess;
    }
    *point = {shared_from_this(), member->tails};
  }
  event.set_captured(std::move(point));
  return orSuccess;
}

orError_t Capture::wait(Stream& stream, const CapturePoint& point, const std::shared_ptr<Capture>& current) {
  if (current && current.get() != this) {
    const char* what = "waiting for an event of another capture";
    static_cast<void>(reject(what));
    return current->reject(what);
  }
  const std::lock_guard lock(mutex_);
  if (!invalid_.empty()) return fail_invalid();
  if (ended_) {
    return fail(orErrorCapture,
                "the event was recorded in a capture that has ended, and never completes; record it again");
  }
  Member* member = find(stream);
  if (!member) {
    members_.push_back({stream.shared_from_this(), {}});
    stream.set_capture(shared_from_this());
    member = &members_.back();
  }
  for (const uint32_t node : point.tails) {
    if (std::ranges::find(member->tails, node) == member->tails.end()) member->tails.push_back(node);
  }
  return orSuccess;
}

orError_t Capture::wait_external(Stream& stream, Event& event) {
  if (!event.external()) {
    return event.latest() ? reject("waiting for an event from outside of the capture") : orSuccess;
  }
  const std::lock_guard lock(mutex_);
  Member* member = nullptr;
  NV_RETURN_IF_ERROR(begin_node(stream, member));
  NV_RETURN_IF_ERROR(graph_->add_event(Item::Kind::kWait, event));
  add_node(*member, {orGraphNodeEventWait, "event wait"});
  return orSuccess;
}

}  // namespace nv
