#include "graph.h"

#include "event.h"
#include "ipc_event_watcher.h"
#include "operation.h"
#include "schedule.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
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

// Operations that are submitted together. Holds the locks of the events, so that the records of this launch
// and of other threads become the latest in the order of their submission.
class Graph::Submission {
 public:
  Submission(Graph& graph, Stream& stream, const orObserver* observers);
  ~Submission();
  Submission(const Submission&) = delete;
  Submission& operator=(const Submission&) = delete;

  [[nodiscard]] uint64_t submit();

 private:
  struct Part {
    Operation::Kind kind;
    Replay replay{};
    Ref<Record> record{};
    Event* event = nullptr;  // of a record
    std::unique_ptr<orObserver[]> observers{};
  };

  void add_nodes(size_t begin, size_t end, const orObserver* observers);
  void add_wait(Ref<Record> record);
  void add_event(const Node& node);

  Graph& graph_;
  Stream& stream_;
  std::vector<Event*> locked_;
  std::vector<Part> parts_;
};

Graph::Submission::Submission(Graph& graph, Stream& stream, const orObserver* observers)
    : graph_(graph), stream_(stream) {
  for (const uint32_t index : graph.event_nodes_) locked_.push_back(graph.nodes_[index].event.get());
  // One order for all threads.
  std::sort(locked_.begin(), locked_.end(), std::less<>());
  locked_.erase(std::unique(locked_.begin(), locked_.end()), locked_.end());
  parts_.reserve(3 * graph.event_nodes_.size() + 1);
  for (Event* event : locked_) event->lock();
  try {
    size_t begin = 0;
    for (const uint32_t index : graph.event_nodes_) {
      add_nodes(begin, index, observers);
      add_event(graph.nodes_[index]);
      begin = index + 1;
    }
    add_nodes(begin, graph.nodes_.size(), observers);
  } catch (...) {
    for (Event* event : locked_) event->unlock();
    throw;
  }
}

Graph::Submission::~Submission() {
  for (Event* event : locked_) event->unlock();
}

void Graph::Submission::add_nodes(size_t begin, size_t end, const orObserver* observers) {
  if (begin == end) return;
  Part& part = parts_.emplace_back(Part{Operation::Kind::kKernel});
  if (observers) {
    part.observers = std::make_unique<orObserver[]>(end - begin);
    std::copy(observers + begin, observers + end, part.observers.get());
  }
  part.replay = {&graph_, begin, end, part.observers.get(), 0};
}

void Graph::Submission::add_wait(Ref<Record> record) {
  // A record of the same stream is already in front of the wait.
  if (!record || record->done() || record->stream.get() == &stream_) return;
  if (record->is_of_other_process()) IpcEventWatcher::get().add(record);
  parts_.emplace_back(Part{Operation::Kind::kWait}).record = std::move(record);
}

void Graph::Submission::add_event(const Node& node) {
  if (node.kind == orGraphNodeEventWait) {
    const bool recorded_here = std::any_of(parts_.begin(), parts_.end(),
                                           [&](const Part& part) { return part.event == node.event.get(); });
    if (!recorded_here) add_wait(node.event->latest_locked());
    return;
  }
  Ref<Record> before;
  Ref<Record> record = node.event->make_record(stream_, before);
  add_wait(std::move(before));
  Part& part = parts_.emplace_back(Part{Operation::Kind::kRecord});
  part.record = std::move(record);
  part.event = node.event.get();
}

uint64_t Graph::Submission::submit() {
  if (parts_.empty()) return 0;
  const auto for_each_kernel = [&](auto function) {
    for (Part& part : parts_) {
      if (part.kind == Operation::Kind::kKernel) function(part);
    }
  };
  for_each_kernel([&](Part&) { graph_.retain(); });
  uint64_t ticket = 0;
  try {
    ticket = stream_.submit_together(parts_.size(), [&](uint64_t i, Operation& operation) {
      const Part& part = parts_[i];
      if (part.kind == Operation::Kind::kKernel) {
        operation.set_kernel(kKernel, &part.replay, sizeof(part.replay), nullptr);
      } else {
        operation.set_record(part.kind, part.record);
      }
    });
  } catch (...) {
    for_each_kernel([&](Part&) { graph_.release(); });
    throw;
  }
  // The queue owns the observers now.
  for_each_kernel([](Part& part) { static_cast<void>(part.observers.release()); });
  for (Part& part : parts_) {
    if (part.event) part.event->set_latest(std::move(part.record));
  }
  return ticket;
}

void Graph::launch(Stream& stream, const orObserver* observers) {
  if (nodes_.empty()) return;
  const Ref<Graph> self(this);
  uint64_t ticket = 0;
  {
    std::lock_guard lock(launch_mutex_);
    if (last_ && last_.get() != &stream) {
      const Ref<Record> done = Ref<Record>::adopt(new Record);
      done->begin(*last_, false);
      last_->submit_record(done);
      stream.submit_wait(done);
    }
    last_ = Ref<Stream>(&stream);
    Submission submission(*this, stream, observers);
    ticket = submission.submit();
  }
  if (ticket) stream.finish_submission(ticket);  // under the blocking schedule it runs the kernels
}

orError_t Graph::run_replay(void* args, char* why, size_t why_size) {
  auto& replay = *static_cast<Replay*>(args);
  const std::vector<Node>& nodes = replay.graph->nodes_;
  Stream::forbid_deferral();
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
