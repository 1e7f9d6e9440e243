// Graphs: the work of a stream, captured once and replayed many times.
//
// Note [Graphs for torch]
// The runtime captures and replays (Note [Graphs] in openreg.h). This class keeps valid what a replay uses:
// - launches: a run does not consume a captured LaunchedOp (host_engine/launch/launched_op.h); the graph owns
//   it;
// - memory: allocations on a captured stream come from the graph's private pool (memory/mempool_routing.h),
//   which other code does not use while the graph lives; the same for pinned memory;
// - random numbers: a captured launch stores its offset from the start of the replay (random/replay.h).
// Tensors from outside of the capture are used in place: the caller keeps them alive.
//
// Thread safety: as torch.cuda's graphs: one thread captures; replays lock.
#pragma once

#include "common/export.h"
#include "memory/mempool_routing.h"
#include "random/replay.h"

#include <ATen/core/GraphImplInterface.h>
#include <c10/core/Stream.h>
#include <openreg/openreg.h>

#include <mutex>
#include <optional>
#include <string>

namespace openreg {

class Graph final : public at::GraphImplInterface {
 public:
  explicit Graph(const at::GraphImplArgs& args) : keep_(args.keep_graph) {}
  ~Graph() override;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Captures the current stream, which must not be the default stream. The default mode is the global one.
  void capture_begin(c10::MempoolId_t pool, at::GraphCaptureMode mode) override;
  /// Throws the error that invalidated the capture; the graph is then empty again. Also throws if another
  /// thread must end the capture; the capture then continues.
  void capture_end() override;
  void instantiate() override;
  /// Launches the graph on the current stream of the captured device. Asynchronous.
  void replay() override;
  void reset() override;
  c10::MempoolId_t pool() const override;
  void enable_debug_mode() override { debug_ = true; }
  /// Writes the nodes and their dependencies in Graphviz's DOT format.
  void debug_dump(const std::string& path) override;

 private:
  enum class State { Empty, Capturing, Captured, Ready };

  [[nodiscard]] orError_t end_capture_of_stream(bool& ended) noexcept;
  void release_memory() noexcept;
  void order_after_last_replay(c10::Stream stream);

  const bool keep_;
  bool debug_ = false;
  State state_ = State::Empty;
  c10::DeviceIndex device_ = 0;
  c10::MempoolId_t pool_{0, 0};
  std::optional<c10::Stream> captured_;  // the stream of the capture
  uint64_t capture_ = 0;                 // the id of the capture
  RouteId route_ = 0;
  orGraph_t graph_ = nullptr;
  c10::intrusive_ptr<RandomReplay> random_;
  std::mutex mutex_;                 // guards the order of replays, and last_
  std::optional<c10::Stream> last_;  // the stream of the latest replay
};

}  // namespace openreg
