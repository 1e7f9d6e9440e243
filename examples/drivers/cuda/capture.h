// Captures: between begin and end, work of the captured streams becomes a graph. See Note [Graphs] in
// openreg.h.
//
// A launch of a graph runs its nodes in the order of one stream, so that all streams of a capture are
// recorded on one CUDA stream, in the order of the calls. Kernels, which are host code, and external events
// cut the graph into segments; each is a CUDA graph.
//
// Thread safety: all functions may be called from any thread.
#pragma once

#include "event.h"
#include "graph.h"
#include "stream.h"

#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace nv {

class Capture : public std::enable_shared_from_this<Capture> {
 public:
  Capture(orCaptureMode mode, uint64_t id) : mode_(mode), id_(id), thread_(std::this_thread::get_id()) {}

  static orError_t begin(Stream& origin, orCaptureMode mode);
  static orError_t end(Stream& origin, std::shared_ptr<Graph>& graph);
  /// Ends the capture if the stream, which is being destroyed, began it.
  void abandon(Stream& stream);

  orError_t add_work(Stream& stream, const Work& work, const WorkInfo& info);
  orError_t add_kernel(Stream& stream, HostKernel kernel);
  orError_t record(Stream& stream, Event& event);
  /// `stream`, whose capture is `current` or none, waits for an event that was recorded in this capture.
  orError_t wait(Stream& stream, const CapturePoint& point, const std::shared_ptr<Capture>& current);
  /// A captured stream waits for an event that was not recorded in a capture.
  orError_t wait_external(Stream& stream, Event& event);

  /// A call that a capture does not permit: invalidates it and returns orErrorCapture.
  orError_t reject(const char* what);
  static orError_t reject_event(const CapturePoint& point, const char* what);
  /// Rejects waiting for the device, and freeing its memory, where a capture does not permit it.
  static orError_t check_wait(int device);
  static orError_t check_free(int device, const char* what);

  orCaptureStatus status();
  uint64_t id() const { return id_; }

 private:
  struct Member {
    std::shared_ptr<Stream> stream;
    std::vector<uint32_t> tails;  // the nodes that precede the next one
  };

  // With the lock.
  Member* find(const Stream& stream);
  orError_t begin_node(const Stream& stream, Member*& member);
  void add_node(Member& member, const WorkInfo& info);
  orError_t fail_invalid() const;
  void invalidate(const std::string& message);
  bool joined() const;
  std::vector<Member> detach();

  static void register_active(const std::shared_ptr<Capture>& capture);
  static void unregister(const Capture& capture);
  static std::vector<std::shared_ptr<Capture>> active();
  bool uses(int device);

  const orCaptureMode mode_;
  const uint64_t id_;
  const std::thread::id thread_;
  std::mutex mutex_;  // guards everything below
  std::shared_ptr<Graph> graph_;
  std::vector<Member> members_;  // the first began the capture
  std::string invalid_;          // why; empty: valid
  bool ended_ = false;
};

// Entries of the table.
orError_t stream_begin_capture(orDriverStream* stream, orCaptureMode mode);
orError_t stream_end_capture(orDriverStream* stream, orDriverGraph** graph, size_t* nodes);
orError_t stream_capture_status(orDriverStream* stream, orCaptureStatus* status, uint64_t* id);
orError_t stream_check_uncaptured(orDriverStream* stream, const char* what);
orError_t device_check_uncaptured(int index, const char* what);

}  // namespace nv
