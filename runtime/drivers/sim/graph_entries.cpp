#include "graph_entries.h"

#include "entry.h"
#include "event.h"

namespace openreg::sim {

orError_t stream_begin_capture(orDriverStream* stream, orCaptureMode mode) {
  return noexcept_boundary([&] { return Capture::begin(unwrap(stream), mode); });
}

orError_t stream_end_capture(orDriverStream* stream, orDriverGraph** graph, size_t* nodes) {
  return noexcept_boundary([&]() -> orError_t {
    Ref<Graph> made;
    if (const orError_t error = Capture::end(unwrap(stream), made)) return error;
    *nodes = made->nodes().size();
    made->retain();
    *graph = reinterpret_cast<orDriverGraph*>(made.get());
    return orSuccess;
  });
}

orError_t stream_capture_status(orDriverStream* stream, orCaptureStatus* status, uint64_t* id) {
  const Ref<Capture> capture = capture_of(stream);
  *status = capture ? capture->status() : orCaptureNone;
  *id = capture ? capture->id() : 0;
  return orSuccess;
}

orError_t stream_follows_event(orDriverStream* stream, orDriverEvent* event, int* follows) {
  return noexcept_boundary([&]() -> orError_t {
    const Ref<Capture> capture = capture_of(stream);
    const Ref<Record> record = unwrap(event).latest();
    *follows = capture && record && record->captured && capture->follows(unwrap(stream), *record->captured);
    return orSuccess;
  });
}

orError_t stream_check_uncaptured(orDriverStream* stream, const char* what) {
  const Ref<Capture> capture = capture_of(stream);
  return capture ? capture->reject(what) : orSuccess;
}

orError_t device_check_uncaptured(int device, const char* what) {
  return noexcept_boundary([&] { return Capture::check_free(device, what); });
}

orError_t graph_launch(orDriverGraph* graph, orDriverStream* stream, const orObserver* observers) {
  return noexcept_boundary([&]() -> orError_t {
    if (const Ref<Capture> capture = capture_of(stream)) return capture->reject("launching a graph");
    unwrap(graph).launch(unwrap(stream), observers);
    return orSuccess;
  });
}

orError_t graph_node(orDriverGraph* graph, size_t index, orGraphNode* info) {
  const Node& node = unwrap(graph).nodes()[index];
  const uint32_t size = info->struct_size;
  *info = {size,           node.kind,         node.kernel->name ? node.kernel->name : "",
           node.device,    node.stream,       node.size,
           node.copy_kind, node.after.data(), node.after.size()};
  return orSuccess;
}

orError_t graph_destroy(orDriverGraph* graph) {
  unwrap(graph).release();
  return orSuccess;
}

}  // namespace openreg::sim
