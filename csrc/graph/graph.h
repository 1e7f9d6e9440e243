// Graphs: what a stream is given, written down once and run again and again.
//
// Note [Graphs for torch]
// The runtime captures and replays (Note [Graphs] in openreg.h). What torch adds is that a replay must find
// everything where the capture left it:
// - work: a captured LaunchedOp (host_engine/launch/launched_op.h) is not used up by a run, and belongs to
// the graph;
// - memory: what is allocated on a captured stream comes from the graph's private pool
// (memory/mempool_routing.h), so
//   nobody else is given it while the graph lives; pinned memory likewise;
// - random numbers: a captured launch holds its distance from where the replay begins (random/replay.h).
// Tensors from outside are used where they are: whoever made them keeps them alive.
//
// Thread safety: as torch.cuda's: one thread captures; replays lock.
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

  /// On the current stream, which must not be the default one. The default mode is the global one.
  void capture_begin(c10::MempoolId_t pool, at::GraphCaptureMode mode) override;
  /// Throws what made the capture invalid; the graph is then as before the begin. Throws too if the capture
  /// is another thread's, and then goes on.
  void capture_end() override;
  void instantiate() override;
  /// On the current stream of the device of the capture. Returns before it has run.
  void replay() override;
  void reset() override;
  c10::MempoolId_t pool() const override;
  void enable_debug_mode() override { debug_ = true; }
  /// Writes the nodes and what each follows, in the language of Graphviz.
  void debug_dump(const std::string& path) override;

 private:
  enum class State { Empty, Capturing, Captured, Ready };

  [[nodiscard]] orError_t end_capture_of_stream(bool& ended) noexcept;
  void give_up_memory() noexcept;
  void order_behind_last_replay(c10::Stream stream);

  const bool keep_;
  bool debug_ = false;
  State state_ = State::Empty;
  c10::DeviceIndex device_ = 0;
  c10::MempoolId_t pool_{0, 0};
  std::optional<c10::Stream> captured_;  // the stream of the capture
  uint64_t capture_ = 0;                 // its number
  RouteId route_ = 0;
  orGraph_t graph_ = nullptr;
  c10::intrusive_ptr<RandomReplay> random_;
  std::mutex mutex_;                 // guards the order of replays, and last_
  std::optional<c10::Stream> last_;  // the stream of the latest replay
};

}  // namespace openreg
