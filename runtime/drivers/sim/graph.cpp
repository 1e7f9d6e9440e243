#include "graph.h"

#include "event.h"
#include "schedule.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>

namespace openreg::sim {

/// The argument block of an operation. It is copied into the queue of the stream and modified there.
struct Graph::Replay {
  Graph* graph;  // holds a reference
  size_t begin;  // the nodes to run
  size_t end;
  orObserver* observers;  // one for each of the nodes; owned; may be NULL
  size_t notified;        // number of observers that were called

  void notify(int64_t start_ns, int64_t end_ns, orError_t result) {
    const orObserver& observer = observers[notified++];
    if (observer.done) observer.done(observer.user, start_ns, end_ns, result);
  }
};

Node Node::of_event(orGraphNodeKind kind, Event& event) {
  static constexpr orKernel kRecord = {"event record", nullptr, nullptr};
  static constexpr orKernel kWait = {"event wait", nullptr, nullptr};
  Node node;
  node.kind = kind;
  node.kernel = kind == orGraphNodeEventRecord ? &kRecord : &kWait;
  node.event = Ref<Event>(&event);
  return node;
}

const orKernel Graph::kKernel = {"graph", &Graph::run_replay, &Graph::release_replay};

Graph::~Graph() {
  for (Node& node : nodes_) {
    if (node.kernel->release) node.kernel->release(node.args);
    ::operator delete(node.args);
  }
}

uint32_t Graph::add(Node node, const void* args, size_t args_size) {
  nodes_.reserve(nodes_.size() + 1 > nodes_.capacity() ? nodes_.size() * 2 + 16 : 0);
  if (node.event) event_nodes_.reserve(event_nodes_.size() + 1);
  node.args = ::operator new(args_size ? args_size : 1);
  if (args_size) std::memcpy(node.args, args, args_size);
  const auto index = static_cast<uint32_t>(nodes_.size());
  if (node.event) event_nodes_.push_back(index);
  nodes_.push_back(std::move(node));
  return index;
}

void Graph::launch(Stream& stream, const orObserver* observers) {
  const Ref<Graph> self(this);
  std::lock_guard lock(launch_mutex_);
  if (last_ && last_.get() != &stream) {
    const Ref<Record> done = Ref<Record>::adopt(new Record);
    done->begin(*last_, false);
    last_->submit_record(done);
    stream.submit_wait(done);
  }
  last_ = Ref<Stream>(&stream);
  size_t begin = 0;
  for (const uint32_t index : event_nodes_) {
    launch_nodes(stream, begin, index, observers);
    begin = index + 1;
    if (nodes_[index].kind == orGraphNodeEventRecord) {
      nodes_[index].event->record(stream);
    } else {
      nodes_[index].event->submit_wait(stream);
    }
  }
  launch_nodes(stream, begin, nodes_.size(), observers);
}

void Graph::launch_nodes(Stream& stream, size_t begin, size_t end, const orObserver* observers) {
  if (begin == end) return;
  std::unique_ptr<orObserver[]> copied;
  if (observers) {
    copied = std::make_unique<orObserver[]>(end - begin);
    std::copy(observers + begin, observers + end, copied.get());
  }
  retain();
  const Replay replay = {this, begin, end, copied.get(), 0};
  try {
    stream.launch(kKernel, &replay, sizeof(replay), nullptr);
  } catch (...) {
    release();
    throw;
  }
  copied.release();
}

orError_t Graph::run_replay(void* args, char* why, size_t why_size) {
  auto& replay = *static_cast<Replay*>(args);
  const std::vector<Node>& nodes = replay.graph->nodes_;
  for (size_t i = replay.begin; i < replay.end; ++i) {
    const Node& node = nodes[i];
    const int64_t start = replay.observers ? now_ns() : 0;
    why[0] = '\0';
    const orError_t result = call_kernel(*node.kernel, node.args, why, why_size);
    if (replay.observers) replay.notify(start, now_ns(), result ? orErrorKernelFailed : orSuccess);
    if (result == orSuccess) [[likely]]
      continue;
    char message[512];
    std::snprintf(message, sizeof(message), "%s", why);
    std::snprintf(why, why_size, "its kernel '%s', node %zu of %zu, failed: %s",
                  node.kernel->name ? node.kernel->name : "", i, nodes.size(), message);
    return result;
  }
  return orSuccess;
}

// If the launch was dropped, or a node failed, calls the remaining observers.
void Graph::release_replay(void* args) {
  auto& replay = *static_cast<Replay*>(args);
  if (replay.observers) {
    const int64_t now = now_ns();
    while (replay.notified < replay.end - replay.begin) replay.notify(now, now, orErrorKernelFailed);
    delete[] replay.observers;
  }
  replay.graph->release();
}

}  // namespace openreg::sim
