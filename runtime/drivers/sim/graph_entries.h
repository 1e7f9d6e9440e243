// The graph entries of the driver table; see driver.h.
#pragma once

#include "openreg/driver.h"

namespace openreg::sim {

orError_t stream_begin_capture(orDriverStream* stream, orCaptureMode mode);
orError_t stream_end_capture(orDriverStream* stream, orDriverGraph** graph, size_t* nodes);
orError_t stream_capture_status(orDriverStream* stream, orCaptureStatus* status, uint64_t* id);
orError_t stream_follows_event(orDriverStream* stream, orDriverEvent* event, int* follows);
orError_t stream_check_uncaptured(orDriverStream* stream, const char* what);
orError_t device_check_uncaptured(int device, const char* what);
orError_t graph_launch(orDriverGraph* graph, orDriverStream* stream, const orObserver* observers);
orError_t graph_node(orDriverGraph* graph, size_t index, orGraphNode* info);
orError_t graph_destroy(orDriverGraph* graph);

}  // namespace openreg::sim
