// A capture: what its streams are given is written down, as a graph, and does not run.
//
// Note [Captured streams]
// A stream that is captured knows its capture, and what it is given goes there and not into its queue. Each
// piece becomes a node behind the stream's tails, the latest nodes that whatever comes next there has to
// follow. An event that is recorded there holds a copy of the tails; a stream that waits for it adds them to
// its own, and joins the capture if it is not in it. At the end every node has to be in front of the tails of
// the stream that began: else a stream was not joined.
//
// Note [Refusals]
// A call that does not fit is refused, and the capture is invalid from then on. The words of the first
// refusal are kept for everybody who comes later, and for the end.
//
// Locks: that of all captures, then one capture's, then a stream's.
// Lifetime: counted. Its streams have references, points of events, and the list of all; a capture has
// references to its streams until its end.
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

/// What an event holds that was recorded in a capture.
struct CapturePoint : Counted<CapturePoint> {
  CapturePoint(Ref<Capture> in, std::vector<uint32_t> behind);
  ~CapturePoint();

  const Ref<Capture> capture;
  const std::vector<uint32_t> tails;
};

class Capture : public Counted<Capture> {
 public:
  Capture(orCaptureMode mode, uint64_t id);
  ~Capture();

  [[nodiscard]] static orError_t begin(Stream& origin, orCaptureMode mode);
  /// Takes all streams out, whatever it returns, unless the stream or the thread is the wrong one.
  [[nodiscard]] static orError_t end(Stream& stream, Ref<Graph>& graph);

  // ---- What a captured stream is given.
  [[nodiscard]] orError_t add(Stream& stream, Node node, const void* args, size_t args_size);
  [[nodiscard]] orError_t record(Stream& stream, Event& event);
  /// The stream waits for a point of this capture, and joins if it is not in it.
  [[nodiscard]] orError_t wait(Stream& stream, const CapturePoint& point);

  // ---- What it must not be asked.
  [[nodiscard]] orError_t refuse(const char* what);
  /// Refuses if a capture is in the way of waiting for the device.
  [[nodiscard]] static orError_t check_wait(int device);
  /// Refuses if a capture forbids the calling thread to free memory of the device.
  [[nodiscard]] static orError_t check_free(int device, const char* what);
  /// Refuses to ask for, or wait for, an event that was recorded in a capture.
  [[nodiscard]] static orError_t refuse_event(const CapturePoint& point, const char* what);

  /// The handle of the stream is gone: if it began the capture, nobody can end it.
  void abandon(Stream& stream);

  orCaptureStatus status();
  uint64_t id() const { return id_; }

 private:
  struct Member {
    Ref<Stream> stream;
    std::vector<uint32_t> tails;
  };

  Member* find(const Stream& stream);
  bool touches(int device);
  bool joined() const;
  void invalidate(const char* words);
  [[nodiscard]] orError_t fail_invalid();
  std::vector<Member> detach();
  static void forget(Capture& capture);

  const orCaptureMode mode_;
  const uint64_t id_;
  const std::thread::id thread_;

  std::mutex mutex_;             // guards everything below
  std::vector<Member> members_;  // the first began; empty at the end
  bool ended_ = false;
  std::string invalid_;  // why; empty while it is valid
  Ref<Graph> graph_;
};

}  // namespace openreg::sim
