// The graph functions of openreg.h.
#include "run.h"
#include "runtime.h"
#include "trace.h"

#include <memory>
#include <vector>

using namespace openreg;

namespace {

orError_t check_graphs(const Runtime& runtime) {
  if (runtime.driver().stream_begin_capture) return orSuccess;
  return fail(orErrorNotSupported, "the driver '%s' does not support graphs", runtime.driver().name);
}

orTraceKind trace_kind(const orGraphNode& node) {
  if (node.kind == orGraphNodeMemcpy) return orTraceMemcpy;
  return node.kind == orGraphNodeMemset ? orTraceMemset : orTraceKernel;
}

bool is_event(const orGraphNode& node) {
  return node.kind == orGraphNodeEventRecord || node.kind == orGraphNodeEventWait;
}

// Traces every node as if it were launched separately.
orError_t launch_traced(Runtime& runtime, const GraphInfo& graph, const StreamInfo& stream) {
  std::vector<TracedWork*> works;
  std::vector<orObserver> observers;
  std::vector<std::unique_ptr<ReturnTrace>> returns;
  works.reserve(graph.nodes);
  observers.reserve(graph.nodes);
  returns.reserve(graph.nodes);
  for (size_t i = 0; i < graph.nodes; ++i) {
    orGraphNode node = {};
    node.struct_size = sizeof(node);
    OR_RETURN_IF_ERROR(from_driver(runtime.driver().graph_node(graph.driver, i, &node)));
    if (is_event(node)) {  // not traced, as outside of graphs
      works.push_back(nullptr);
      observers.push_back({});
      continue;
    }
    works.push_back(TracedWork::begin("orGraphLaunch", trace_kind(node), node.name, stream.device, stream.id,
                                      node.size, node.copy_kind));
    returns.push_back(std::make_unique<ReturnTrace>(works.back()));
    observers.push_back(works.back() ? works.back()->observer() : orObserver{});
  }
  const orError_t error =
      from_driver(runtime.driver().graph_launch(graph.driver, stream.driver, observers.data()));
  if (error) {
    for (TracedWork* work : works) {
      if (work) work->rejected(error);
    }
  }
  return error;
}

// Ends the capture of a stream without a graph. Keeps the last error.
orError_t abandon_capture(orStream_t stream) {
  orError_t error;
  Runtime* runtime = Runtime::enter(error);
  int device = 0;
  uint64_t number = 0;
  if (!runtime || !runtime->driver().stream_end_capture) return orSuccess;
  if (!runtime->locate({EntryPoint::orStreamEndCapture, stream}, CallTarget::kStream, device, number)) {
    return orSuccess;
  }
  StreamPin pin;
  OR_RETURN_IF_ERROR(runtime->pin_stream(stream, pin));
  orDriverGraph* graph = nullptr;
  size_t nodes = 0;
  if (!runtime->captured(*pin)) return orSuccess;
  if (runtime->driver().stream_end_capture(pin->driver, &graph, &nodes) == orSuccess) {
    static_cast<void>(runtime->driver().graph_destroy(graph));
  } else {
    report_from_driver("");  // drops the driver's message
  }
  return orSuccess;
}

}  // namespace

extern "C" {

orError_t orStreamBeginCapture(orStream_t stream, orCaptureMode mode) {
  if (mode < orCaptureGlobal || mode > orCaptureRelaxed) {
    return fail(orErrorInvalidValue, "orStreamBeginCapture: invalid capture mode %d", static_cast<int>(mode));
  }
  return with_runtime({EntryPoint::orStreamBeginCapture, stream}, [&](Runtime& runtime) -> orError_t {
    OR_RETURN_IF_ERROR(check_graphs(runtime));
    StreamPin pin;
    OR_RETURN_IF_ERROR(runtime.pin_stream(stream, pin));
    return from_driver(runtime.driver().stream_begin_capture(pin->driver, mode));
  });
}

orError_t orStreamEndCapture(orStream_t stream, orGraph_t* graph) {
  if (!graph) return fail(orErrorInvalidValue, "orStreamEndCapture: graph is NULL");
  bool entered = false;
  const auto end = [&](Runtime& runtime) -> orError_t {
    entered = true;
    OR_RETURN_IF_ERROR(check_graphs(runtime));
    StreamPin pin;
    OR_RETURN_IF_ERROR(runtime.pin_stream(stream, pin));
    GraphInfo info = {nullptr, pin->device, 0};
    OR_RETURN_IF_ERROR(
        from_driver(runtime.driver().stream_end_capture(pin->driver, &info.driver, &info.nodes)));
    OR_RETURN_IF_ERROR(check_created(info.driver, "stream_end_capture", runtime.driver().name));
    uint64_t handle;
    OR_RETURN_IF_ERROR(runtime.add_graph(info, handle));
    *graph = as_graph(handle);
    return orSuccess;
  };
  const orError_t error = with_runtime({EntryPoint::orStreamEndCapture, stream}, end);
  // The end of a capture removes all streams from it, also if a fault or a lost device is its result.
  if (error && !entered) static_cast<void>(noexcept_boundary([&] { return abandon_capture(stream); }));
  return error;
}

orError_t orStreamIsCapturing(orStream_t stream, orCaptureStatus* status, uint64_t* id) {
  if (!status) return fail(orErrorInvalidValue, "orStreamIsCapturing: status is NULL");
  return with_runtime({EntryPoint::orStreamIsCapturing, stream}, [&](Runtime& runtime) -> orError_t {
    StreamPin pin;
    OR_RETURN_IF_ERROR(runtime.pin_stream(stream, pin));
    *status = orCaptureNone;
    uint64_t number = 0;
    if (runtime.driver().stream_capture_status) {
      OR_RETURN_IF_ERROR(from_driver(runtime.driver().stream_capture_status(pin->driver, status, &number)));
    }
    if (id) *id = number;
    return orSuccess;
  });
}

orError_t orStreamFollowsEvent(orStream_t stream, orEvent_t event, int* follows) {
  if (!follows) return fail(orErrorInvalidValue, "orStreamFollowsEvent: follows is NULL");
  return with_runtime({EntryPoint::orStreamFollowsEvent, stream}, [&](Runtime& runtime) -> orError_t {
    StreamPin stream_pin;
    EventPin event_pin;
    OR_RETURN_IF_ERROR(runtime.pin_stream(stream, stream_pin));
    OR_RETURN_IF_ERROR(runtime.pin_event(event, event_pin));
    *follows = 0;
    if (!runtime.driver().stream_follows_event) return orSuccess;
    return from_driver(runtime.driver().stream_follows_event(stream_pin->driver, event_pin->driver, follows));
  });
}

orError_t orStreamCheckUncaptured(orStream_t stream, const char* what) {
  if (!what) return fail(orErrorInvalidValue, "orStreamCheckUncaptured: what is NULL");
  return with_runtime({EntryPoint::orStreamCheckUncaptured, stream}, [&](Runtime& runtime) -> orError_t {
    StreamPin pin;
    OR_RETURN_IF_ERROR(runtime.pin_stream(stream, pin));
    if (!runtime.driver().stream_check_uncaptured) return orSuccess;
    return from_driver(runtime.driver().stream_check_uncaptured(pin->driver, what));
  });
}

orError_t orDeviceCheckUncaptured(const char* what) {
  if (!what) return fail(orErrorInvalidValue, "orDeviceCheckUncaptured: what is NULL");
  return with_runtime({EntryPoint::orDeviceCheckUncaptured}, [&](Runtime& runtime) -> orError_t {
    int device;
    OR_RETURN_IF_ERROR(runtime.current_device(device));
    if (!runtime.driver().device_check_uncaptured) return orSuccess;
    return from_driver(runtime.driver().device_check_uncaptured(device, what));
  });
}

orError_t orGraphLaunch(orGraph_t graph, orStream_t stream) {
  return with_runtime({EntryPoint::orGraphLaunch, stream}, [&](Runtime& runtime) -> orError_t {
    GraphPin graph_pin;
    StreamPin stream_pin;
    OR_RETURN_IF_ERROR(runtime.pin_graph(graph, graph_pin));
    OR_RETURN_IF_ERROR(runtime.pin_stream(stream, stream_pin));
    if (graph_pin->device != stream_pin->device) {
      return fail(orErrorInvalidValue,
                  "orGraphLaunch: the graph was captured on device %d and the stream belongs to device %d",
                  graph_pin->device, stream_pin->device);
    }
    if (trace_subscriber.load(std::memory_order_acquire)) {
      return launch_traced(runtime, *graph_pin, *stream_pin);
    }
    return from_driver(runtime.driver().graph_launch(graph_pin->driver, stream_pin->driver, nullptr));
  });
}

orError_t orGraphDestroy(orGraph_t graph) {
  return with_runtime({EntryPoint::orGraphDestroy, graph},
                      [&](Runtime& runtime) { return runtime.destroy_graph(graph); });
}

orError_t orGraphGetNodeCount(orGraph_t graph, size_t* count) {
  if (!count) return fail(orErrorInvalidValue, "orGraphGetNodeCount: count is NULL");
  return with_runtime({EntryPoint::orGraphGetNodeCount, graph}, [&](Runtime& runtime) -> orError_t {
    GraphPin pin;
    OR_RETURN_IF_ERROR(runtime.pin_graph(graph, pin));
    *count = pin->nodes;
    return orSuccess;
  });
}

orError_t orGraphGetNode(orGraph_t graph, size_t index, orGraphNode* node) {
  if (!node) return fail(orErrorInvalidValue, "orGraphGetNode: node is NULL");
  return with_runtime({EntryPoint::orGraphGetNode, graph}, [&](Runtime& runtime) -> orError_t {
    OR_RETURN_IF_ERROR(
        check_struct_size("orGraphGetNode", "orGraphNode", node->struct_size, sizeof(orGraphNode)));
    GraphPin pin;
    OR_RETURN_IF_ERROR(runtime.pin_graph(graph, pin));
    if (index >= pin->nodes) {
      return fail(orErrorInvalidValue,
                  "orGraphGetNode: node index %zu is out of range; the graph has %zu nodes", index,
                  pin->nodes);
    }
    return from_driver(runtime.driver().graph_node(pin->driver, index, node));
  });
}

}  // extern "C"
