// A graph: work that a capture has written down, to be run again and again.
//
// Note [Running a graph]
// Nodes stand in the order of their submission, which is one in which they can run: a node follows only
// earlier ones. A launch is one operation of one stream that runs them back to back. Nodes have arguments
// that their kernels may write to, so launches of one graph never overlap: a launch on another stream than
// the one before waits for that stream first.
//
// Thread safety: a graph is filled under its capture's lock and constant afterwards; launch locks.
// Lifetime: counted. The capture or the handle has a reference, and every launch that is not done.
#pragma once

#include "openreg/driver.h"
#include "ref.h"
#include "stream.h"

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace openreg::sim {

struct Node {
  orGraphNodeKind kind = orGraphNodeKernel;
  const orKernel* kernel = nullptr;
  void* args = nullptr;  // a copy of the launch's, on the heap
  int device = 0;
  uint64_t stream = 0;
  size_t size = 0;  // bytes copied or set
  orMemcpyKind copy_kind = orMemcpyDefault;
  std::vector<uint32_t> after;
};

class Graph : public Counted<Graph> {
 public:
  Graph() = default;
  /// Releases what the nodes hold.
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Copies the arguments. May throw std::bad_alloc, and then nothing was added.
  uint32_t add(Node node, const void* args, size_t args_size);
  const std::vector<Node>& nodes() const { return nodes_; }

  /// Queues a run of the whole. `observers`: NULL, or one for each node.
  void launch(Stream& stream, const orObserver* observers);

 private:
  struct Replay;
  static orError_t run_replay(void* args, char* why, size_t why_size);
  static void release_replay(void* args);
  static const orKernel kKernel;

  std::vector<Node> nodes_;
  std::mutex launch_mutex_;  // guards last_; a stream's locks are taken under it
  Ref<Stream> last_;         // where it was launched last
};

}  // namespace openreg::sim
