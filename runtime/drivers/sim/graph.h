// A graph: captured work that can be launched repeatedly.
//
// Note [Running a graph]
// Nodes are in submission order, which is a valid execution order: a node depends only on earlier nodes. A
// launch is one operation of one stream that runs all nodes in sequence; records and waits of external events
// divide it into several operations, which are submitted together. Kernels may write to the arguments
// of their nodes, so launches of the same graph never overlap: a launch first waits for the stream of the
// previous launch if that is a different stream.
//
// Thread safety: a graph is filled under the lock of its capture and is constant afterwards; launch locks.
// Lifetime: reference counted. The capture or the handle, and every unfinished launch, hold a reference.
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
  void* args = nullptr;  // a heap copy of the argument block
  int device = 0;
  uint64_t stream = 0;
  size_t size = 0;  // bytes copied or set
  orMemcpyKind copy_kind = orMemcpyDefault;
  std::vector<uint32_t> after;
  Ref<Event> event;  // of a record or a wait

  static Node of_event(orGraphNodeKind kind, Event& event);
};

class Graph : public Counted<Graph> {
 public:
  Graph() = default;
  /// Releases the argument blocks of the nodes.
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Copies the arguments. May throw std::bad_alloc; then no node is added.
  uint32_t add(Node node, const void* args, size_t args_size);
  const std::vector<Node>& nodes() const { return nodes_; }

  /// Queues a run of the graph. `observers`: NULL, or one for each node.
  void launch(Stream& stream, const orObserver* observers);

 private:
  struct Replay;
  class Submission;
  static orError_t run_replay(void* args, char* why, size_t why_size);
  static void release_replay(void* args);
  static const orKernel kKernel;

  std::vector<Node> nodes_;
  std::vector<uint32_t> event_nodes_;  // indices of records and waits
  std::mutex launch_mutex_;            // guards last_; the locks of events and streams are taken under it
  Ref<Stream> last_;                   // stream of the last launch
};

}  // namespace openreg::sim
