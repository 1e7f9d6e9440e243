// Graphs: the nodes of a capture, and the steps that a launch submits to a stream.
#pragma once

#include "event.h"
#include "stream.h"

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace nv {

struct Node {
  orGraphNodeKind kind;
  std::string name;
  int device;
  uint64_t stream;
  size_t size;
  orMemcpyKind copy_kind;
  std::vector<uint32_t> after;
};

class Graph : public std::enable_shared_from_this<Graph> {
 public:
  static orError_t create(Device& device, std::shared_ptr<Graph>& graph);
  ~Graph();
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  static Graph& of(orDriverGraph* handle) { return *reinterpret_cast<Graph*>(handle); }

  // ---- Recording; the capture has a lock
  orError_t add_work(const Work& work);
  orError_t add_kernel(HostKernel kernel);
  orError_t add_event(Item::Kind kind, Event& event);
  uint32_t add_node(const WorkInfo& info, int device, uint64_t stream, const std::vector<uint32_t>& after);
  /// Ends the recording.
  orError_t finish();

  // ---- A finished graph
  const std::vector<Node>& nodes() const { return nodes_; }
  size_t size() const { return nodes_.size(); }
  orError_t launch(Stream& stream, const orObserver* observers);
  /// Whether no launch is in progress.
  bool idle();
  Device& device() const { return recorder_->device(); }

  std::shared_ptr<Graph> self;  // until the graph is destroyed; launches in progress also keep it

 private:
  // A CUDA graph of `count` nodes, a kernel, or an external event.
  struct Step {
    Item::Kind kind = Item::Kind::kWork;
    CUgraphExec exec = nullptr;
    HostKernel kernel;
    std::shared_ptr<Event> event;
    size_t first = 0;
    size_t count = 1;
  };

  orError_t end_segment();
  orError_t make_item(const Step& step, const orObserver* observers, Item& item);

  std::shared_ptr<Stream> recorder_;  // CUDA captures this stream; its workspace is that of the graph
  bool recording_ = false;            // a segment
  size_t segment_begin_ = 0;
  std::vector<Node> nodes_;
  std::vector<Step> steps_;
  std::mutex mutex_;              // guards last_, and orders launches
  std::shared_ptr<Record> last_;  // behind the last launch
};

// Entries of the table.
orError_t graph_launch(orDriverGraph* graph, orDriverStream* stream, const orObserver* observers);
orError_t graph_node(orDriverGraph* graph, size_t index, orGraphNode* node);
orError_t graph_destroy(orDriverGraph* graph);

}  // namespace nv
