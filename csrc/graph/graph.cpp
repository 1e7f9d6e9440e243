#include "graph/graph.h"

#include "common/check.h"
#include "common/fork.h"
#include "device/device.h"
#include "diagnostics/watched_launch.h"
#include "event/event.h"
#include "memory/host_allocator.h"
#include "memory_check/memory_check.h"
#include "stream/capture.h"
#include "stream/checked_stream.h"
#include "stream/stream.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <optional>

namespace openreg {
namespace {

orCaptureMode mode_for(at::GraphCaptureMode mode) {
  switch (mode) {
    case at::GraphCaptureMode::ThreadLocal:
      return orCaptureThreadLocal;
    case at::GraphCaptureMode::Relaxed:
      return orCaptureRelaxed;
    default:
      return orCaptureGlobal;
  }
}

}  // namespace

Graph::~Graph() {
  if (in_forked_child()) {
    return;
  }
  if (state_ == State::Capturing) {
    // The capture was not ended. End it, which frees its streams, and drop the captured work. If only another
    // thread may end it, the capture never ends, and its memory and its streams leak.
    bool ended = false;
    (void)end_capture_of_stream(ended);
    if (!ended) {
      return;
    }
    state_ = State::Captured;
  }
  reset();
}

void Graph::capture_begin(c10::MempoolId_t pool, at::GraphCaptureMode mode) {
  TORCH_CHECK(state_ == State::Empty,
              "This graph instance already owns a captured graph. To capture a new graph, create a new "
              "instance, or reset() this one.");
  device_ = current_device();
  const c10::Stream stream = current_stream(device_);
  TORCH_CHECK(stream != default_stream(device_), orGetDeviceName(),
              " graphs must be captured on a non-default stream. (However, after capture, it's ok to replay "
              "them on the default stream.) Make another stream current first.");
  const c10::MempoolId_t used = pool.first == 0 && pool.second == 0 ? capture_pool_handle() : pool;
  TORCH_CHECK(used.first == 0 || used != pool || pool_users(device_, pool) > 0, "the memory pool (",
              pool.first, ", ", pool.second,
              ") was released with the last graph that used it; use graph_pool_handle() to share a pool "
              "between graphs");
  const orStream_t handle = stream_handle(stream);
  active_captures.fetch_add(1);  // counts from before the begin until after the end
  if (const orError_t error = orStreamBeginCapture(handle, mode_for(mode)); error != orSuccess) {
    active_captures.fetch_sub(1);
    raise(error, "orStreamBeginCapture", {__func__, __FILE__, static_cast<uint32_t>(__LINE__)});
  }
  capture_ = capture_of(handle);
  const auto takes_part = [id = capture_](c10::Stream candidate) {
    return candidate.device_type() == kDevice && capture_of(stream_handle(candidate)) == id;
  };
  try {
    host_allocator().begin_allocate_to_pool(used, takes_part);  // throws if another capture uses the pool
  } catch (...) {
    (void)!orStreamEndCapture(handle, &graph_);
    (void)!orGraphDestroy(std::exchange(graph_, nullptr));
    active_captures.fetch_sub(1);
    throw;
  }
  captured_ = stream;
  pool_ = used;
  route_ = begin_route(device_, pool_, takes_part);
  random_ = c10::make_intrusive<RandomReplay>();
  RandomReplay::begin(capture_, random_);
  state_ = State::Capturing;
}

// Ends the capture for all participating streams. `ended` is false if the runtime returned an error and the
// capture continues.
orError_t Graph::end_capture_of_stream(bool& ended) noexcept {
  const orStream_t stream = stream_handle(*captured_);
  const orError_t error = orStreamEndCapture(stream, &graph_);
  orCaptureStatus status = orCaptureNone;
  uint64_t id = 0;
  ended = orStreamIsCapturing(stream, &status, &id) != orSuccess || status == orCaptureNone || id != capture_;
  if (ended) {
    if (C10_UNLIKELY(races::on())) {
      races::capture_ended(capture_);
    }
    RandomReplay::end(capture_);
    end_route(route_);
    host_allocator().end_allocate_to_pool(pool_);
    active_captures.fetch_sub(1);
  }
  return error;
}

void Graph::capture_end() {
  TORCH_CHECK(state_ == State::Capturing,
              "Invalid capture: capture_end() without a capture_begin() that succeeded.");
  TORCH_CHECK(current_stream(device_) == *captured_,
              "Capture must end on the same stream it began on. Make that stream current again.");
  bool ended = false;
  if (const orError_t error = end_capture_of_stream(ended); error != orSuccess) {
    if (ended) {
      state_ = State::Empty;
      release_memory();
    }
    raise(error, "orStreamEndCapture", {__func__, __FILE__, static_cast<uint32_t>(__LINE__)});
  }
  state_ = keep_ ? State::Captured : State::Ready;
  size_t nodes = 0;
  OR_CHECK(orGraphGetNodeCount(graph_, &nodes));
  if (nodes == 0) {
    TORCH_WARN("The ", orGetDeviceName(),
               " Graph is empty. This usually means that the graph was attempted to be captured on wrong "
               "device or stream: nothing was launched on device ",
               static_cast<int>(device_), ", stream ", captured_->id(), ".");
  }
}

void Graph::instantiate() {
  TORCH_CHECK(state_ == State::Captured || state_ == State::Ready,
              "capture_end() must have been called before calling instantiate: there is no successful "
              "capture.");
  state_ = State::Ready;
}

void Graph::replay() {
  check_not_forked();
  if (state_ == State::Captured) {
    instantiate();
  }
  TORCH_CHECK(state_ == State::Ready, "Called replay without a preceding successful capture.");
  DeviceScope scope(device_);
  const c10::Stream stream = current_stream(device_);
  // May take the GIL, so not under the lock.
  const bool reported = memory_check::on() || launches_are_watched();
  const CallSite site = C10_UNLIKELY(races::on() || reported) ? call_site() : 0;
  std::optional<CallSiteScope> launches;
  if (C10_UNLIKELY(reported)) {
    launches.emplace(site);
  }
  std::lock_guard<std::mutex> lock(mutex_);
  if (!random_->empty()) {
    order_after_last_replay(stream);
    random_->place(stream_handle(stream));
  }
  if (C10_UNLIKELY(races::on())) {
    races::replay(capture_, checked_stream(stream), site);
  }
  OR_CHECK(orGraphLaunch(graph_, stream_handle(stream)));
  last_ = stream;
}

// The runtime orders the launches of one graph, but not the kernels that RandomReplay::place launches before
// them.
void Graph::order_after_last_replay(c10::Stream stream) {
  if (C10_LIKELY(!last_.has_value() || *last_ == stream)) {
    return;
  }
  void* done = nullptr;
  record_event(&done, *last_, device_, c10::EventFlag::PYTORCH_DEFAULT);
  block_on_event(done, stream);
  destroy_event(done);
}

void Graph::reset() {
  check_not_forked();
  TORCH_CHECK(state_ != State::Capturing,
              "cannot reset a graph during its capture: call capture_end() first");
  if (state_ == State::Empty) {
    return;
  }
  state_ = State::Empty;
  if (graph_ != nullptr) {
    (void)!orGraphDestroy(std::exchange(graph_, nullptr));
  }
  last_.reset();
  release_memory();
}

void Graph::release_memory() noexcept {
  if (C10_UNLIKELY(races::on())) {
    races::graph_destroyed(capture_);
  }
  random_.reset();
  captured_.reset();
  release_pool(device_, pool_);
  // A pool of graph_pool_handle() may be used again, and the host allocator cannot restore a released pool.
  if (pool_.first != 0) {
    host_allocator().release_pool(pool_);
  }
  pool_ = {0, 0};
}

c10::MempoolId_t Graph::pool() const {
  TORCH_CHECK(state_ == State::Captured || state_ == State::Ready,
              "Called pool() without a preceding successful capture.");
  return pool_;
}

void Graph::debug_dump(const std::string& path) {
  TORCH_CHECK(state_ == State::Captured || state_ == State::Ready,
              "Called debug_dump() without a preceding successful capture.");
  if (!debug_) {
    TORCH_WARN(orGetDeviceName(), " Graphs debug not enabled, set with [graph].enable_debug_mode()");
    return;
  }
  std::ofstream file(path);
  size_t nodes = 0;
  OR_CHECK(orGraphGetNodeCount(graph_, &nodes));
  file << "digraph {\n";
  for (size_t i = 0; i < nodes; ++i) {
    orGraphNode node{};
    node.struct_size = sizeof(node);
    OR_CHECK(orGraphGetNode(graph_, i, &node));
    file << "  n" << i << " [label=\"" << i << ": " << node.name;
    if (node.kind == orGraphNodeMemcpy || node.kind == orGraphNodeMemset) {
      file << ", " << node.size << " bytes";
    }
    file << "\\nstream " << node.stream << "\"];\n";
    for (size_t k = 0; k < node.after_count; ++k) {
      file << "  n" << node.after[k] << " -> n" << i << ";\n";
    }
  }
  file << "}\n";
  TORCH_CHECK(file.flush().good(), "cannot write the graph to '", path, "'");
}

namespace {

std::unique_ptr<at::GraphImplInterface> make_graph(at::GraphImplArgs args) {
  return std::make_unique<Graph>(args);
}

// The registry's key is the device name in upper case. REGISTER_GRAPH_IMPL accepts only a literal.
[[maybe_unused]] const bool registered = [] {
  std::string key = orGetDeviceName();
  std::ranges::transform(key, key.begin(), [](unsigned char c) { return std::toupper(c); });
  at::GraphImplRegistry()->Register(key, &make_graph);
  return true;
}();

}  // namespace
}  // namespace openreg
