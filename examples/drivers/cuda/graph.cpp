// Another chip: a command buffer that is submitted again; or a list of submissions, as `steps` here without
// CUDA's part. Without the entries of captures, programs cannot capture.
#include "graph.h"

#include "capture.h"

#include <utility>

namespace nv {
namespace {

// Calls the observers of all nodes of a segment, with the times of the segment: CUDA runs it as one.
struct SegmentObserver {
  std::vector<orObserver> observers;

  static void done(void* user, int64_t start_ns, int64_t end_ns, orError_t result) {
    const std::unique_ptr<SegmentObserver> seen(static_cast<SegmentObserver*>(user));
    for (const orObserver& one : seen->observers) {
      if (one.done) one.done(one.user, start_ns, end_ns, result);
    }
  }
};

}  // namespace

// The workspace exists before CUDA captures: libraries allocate memory when they are initialized.
orError_t Graph::create(Device& device, std::shared_ptr<Graph>& graph) {
  const Current current(device);
  auto made = std::make_shared<Graph>();
  NV_RETURN_IF_ERROR(Stream::create(device, kLeastPriority, 0, made->recorder_));
  made->recorder_->workspace().prepare();
  static_cast<void>(made->recorder_->failure_words());
  graph = std::move(made);
  return orSuccess;
}

Graph::~Graph() {
  if (!recorder_) return;
  const Current current(device());
  for (const Step& step : steps_) {
    if (step.exec) static_cast<void>(cuda.graph_exec_destroy(step.exec));
    const orKernel* kernel = step.kernel.kernel;
    if (kernel && kernel->release) kernel->release(step.kernel.args.get());
  }
}

// ---- Recording

orError_t Graph::add_work(const Work& work) {
  if (!recording_) {
    NV_RETURN_IF_ERROR(NV_CALL(capture_begin, recorder_->native(), int{kCaptureRelaxed}));
    recording_ = true;
    segment_begin_ = nodes_.size();
  }
  return work(*recorder_);
}

orError_t Graph::end_segment() {
  if (!recording_) return orSuccess;
  recording_ = false;
  const Current current(device());
  CUgraph graph = nullptr;
  Step step;
  step.first = segment_begin_;
  step.count = nodes_.size() - segment_begin_;
  NV_RETURN_IF_ERROR(NV_CALL(capture_end, recorder_->native(), &graph));
  const orError_t error = NV_CALL(graph_instantiate, &step.exec, graph, 0ull);
  static_cast<void>(cuda.graph_destroy(graph));
  if (!error) steps_.push_back(std::move(step));
  return error;
}

orError_t Graph::add_kernel(HostKernel kernel) {
  NV_RETURN_IF_ERROR(end_segment());
  Step step;
  step.kind = Item::Kind::kKernel;
  step.first = nodes_.size();
  step.kernel = std::move(kernel);
  step.kernel.release = false;
  step.kernel.node = step.first;
  steps_.push_back(std::move(step));
  return orSuccess;
}

orError_t Graph::add_event(Item::Kind kind, Event& event) {
  NV_RETURN_IF_ERROR(end_segment());
  Step step;
  step.kind = kind;
  step.first = nodes_.size();
  step.event = event.shared_from_this();
  steps_.push_back(std::move(step));
  return orSuccess;
}

uint32_t Graph::add_node(const WorkInfo& info, int device, uint64_t stream,
                         const std::vector<uint32_t>& after) {
  nodes_.push_back({info.kind, info.name ? info.name : "", device, stream, info.size, info.copy_kind, after});
  return static_cast<uint32_t>(nodes_.size() - 1);
}

orError_t Graph::finish() {
  return end_segment();
}

// ---- Launches

orError_t Graph::make_item(const Step& step, const orObserver* observers, Item& item) {
  item.kind = step.kind;
  switch (step.kind) {
    case Item::Kind::kWork: {
      item.work = [exec = step.exec, keep = shared_from_this()](Stream& stream) {
        return NV_CALL(graph_launch, exec, stream.native());
      };
      if (!observers) break;
      auto all = std::make_unique<SegmentObserver>();
      all->observers.assign(observers + step.first, observers + step.first + step.count);
      item.observer = {&SegmentObserver::done, all.release()};
      break;
    }
    case Item::Kind::kKernel:
      item.kernel = step.kernel;
      item.kernel.graph = shared_from_this();
      if (observers) item.observer = observers[step.first];
      break;
    case Item::Kind::kRecord:
      return step.event->renew(item.record);
    case Item::Kind::kWait:
      item.record = step.event->latest();
      break;
  }
  return orSuccess;
}

// CUDA orders launches of one executable graph. If there are several steps, events order whole launches.
orError_t Graph::launch(Stream& stream, const orObserver* observers) {
  if (const auto capture = stream.capture()) return capture->reject("launching a graph");
  const std::lock_guard lock(mutex_);
  std::vector<Item> items;
  items.reserve(steps_.size() + 2);
  if (last_ && steps_.size() > 1) {
    items.emplace_back();
    items.back().kind = Item::Kind::kWait;
    items.back().record = last_;
  }
  for (const Step& step : steps_) {
    items.emplace_back();
    NV_RETURN_IF_ERROR(make_item(step, observers, items.back()));
    if (step.kind == Item::Kind::kWait && !items.back().record) items.pop_back();
  }
  auto last = std::make_shared<Record>(device(), false);
  NV_RETURN_IF_ERROR(last->create());
  items.emplace_back();
  items.back().kind = Item::Kind::kRecord;
  items.back().record = last;
  if (recorder_->failure_words()) stream.watch(recorder_->failure_words());
  NV_RETURN_IF_ERROR(stream.submit_items(std::move(items)));
  last_ = std::move(last);
  return orSuccess;
}

bool Graph::idle() {
  const std::lock_guard lock(mutex_);
  return !last_ || last_->done();
}

orError_t graph_launch(orDriverGraph* graph, orDriverStream* stream, const orObserver* observers) {
  return entry([&] { return Graph::of(graph).launch(Stream::of(stream), observers); });
}

orError_t graph_node(orDriverGraph* graph, size_t index, orGraphNode* node) {
  const Node& found = Graph::of(graph).nodes()[index];
  node->kind = found.kind;
  node->name = found.name.c_str();
  node->device = found.device;
  node->stream = found.stream;
  node->size = found.size;
  node->copy_kind = found.copy_kind;
  node->after = found.after.data();
  node->after_count = found.after.size();
  return orSuccess;
}

orError_t graph_destroy(orDriverGraph* given) {
  return entry([&] {
    std::shared_ptr<Graph> graph = std::move(Graph::of(given).self);
    Device& device = graph->device();
    {
      const std::lock_guard lock(device.mutex);
      device.retired.push_back(std::move(graph));
    }
    reap(device);
    return orSuccess;
  });
}

}  // namespace nv
