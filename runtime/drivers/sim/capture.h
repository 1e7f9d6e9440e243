// A capture: work submitted to its streams is recorded as a graph and does not run.
//
// Note [Captured streams]
// A captured stream refers to its capture, and its work is added to the capture instead of its queue. Each
// operation becomes a node that depends on the tails of the stream: the latest nodes that the next operation
// must follow. An event recorded on the stream copies the tails. A stream that waits for the event adds them
// to its own tails, and joins the capture if it is not a member. When the capture ends, every node must be a
// tail of the origin stream or an ancestor of one; otherwise a stream was not joined.
//
// Note [Rejected calls]
// A call that a capture does not permit is rejected and invalidates the capture. The message of the first
// rejected call is kept; later calls and the end of the capture return it.
//
// Lock order: the list of all captures, then one capture, then a stream.
// Lifetime: reference counted. Captured streams, capture points of events and the list of all captures hold
// references. A capture holds references to its streams until it ends.
#pragma once

#include "graph.h"
#include "openreg/driver.h"
#include "ref.h"
#include "stream.h"

#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace openreg::sim {

class Capture;

/// The position of an event that was recorded in a capture.
struct CapturePoint : Counted<CapturePoint> {
  CapturePoint(Ref<Capture> in, std::vector<uint32_t> behind, std::vector<uint32_t> counts);
  ~CapturePoint();

  const Ref<Capture> capture;
  const std::vector<uint32_t> tails;
  const std::vector<uint32_t> preceding;  // see Capture::Member
};

class Capture : public Counted<Capture> {
 public:
  Capture(orCaptureMode mode, uint64_t id);
  ~Capture();

  [[nodiscard]] static orError_t begin(Stream& origin, orCaptureMode mode);
  /// Removes all streams from the capture, also on failure, unless the stream or the thread is the wrong one.
  [[nodiscard]] static orError_t end(Stream& stream, Ref<Graph>& graph);

  // ---- Work of a captured stream.
  [[nodiscard]] orError_t add(Stream& stream, Node node, const void* args, size_t args_size);
  [[nodiscard]] orError_t record(Stream& stream, Event& event);
  /// Adds a node that waits for an external event.
  [[nodiscard]] orError_t add_event_wait(Stream& stream, Event& event);
  /// Makes the stream wait for a point of this capture; the stream joins if it is not a member.
  [[nodiscard]] orError_t wait(Stream& stream, const CapturePoint& point);

  /// True if all work before the point precedes the next work of the stream.
  bool follows(const Stream& stream, const CapturePoint& point);

  // ---- Rejected calls. `what` is the operation, for the message.
  [[nodiscard]] orError_t reject(const char* what);
  /// Rejects the call if a capture does not permit to wait for the device.
  [[nodiscard]] static orError_t check_wait(int device);
  /// Rejects the call if a capture does not permit the calling thread to free memory of the device.
  [[nodiscard]] static orError_t check_free(int device, const char* what);
  /// Rejects a query of, or a wait for, an event that was recorded in a capture.
  [[nodiscard]] static orError_t reject_event(const CapturePoint& point, const char* what);

  /// The handle of the stream was destroyed. Ends the capture if the stream began it.
  void abandon(Stream& stream);

  orCaptureStatus status();
  uint64_t id() const { return id_; }

 private:
  struct Member {
    Ref<Stream> stream;
    std::vector<uint32_t> tails;
    // For each member, how many of its nodes precede the next node of this one: a vector clock.
    std::vector<uint32_t> preceding{};
  };

  Member* find(const Stream& stream);
  bool touches(int device);
  bool joined() const;
  void invalidate(const char* message);
  [[nodiscard]] orError_t fail_invalid();
  std::vector<Member> detach();
  static void unregister(Capture& capture);

  const orCaptureMode mode_;
  const uint64_t id_;
  const std::thread::id thread_;

  std::mutex mutex_;             // guards everything below
  std::vector<Member> members_;  // the first is the origin; empty after the end
  bool ended_ = false;
  std::string invalid_;  // message of the first rejected call; empty while the capture is valid
  Ref<Graph> graph_;
};

}  // namespace openreg::sim
