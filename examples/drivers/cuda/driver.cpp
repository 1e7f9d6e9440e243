// The table. Every entry is in the file of its subject.
//
// What is absent, and what the runtime then does:
// - kernel_view_offset: the host cannot access the memory of the GPU. The integration uses functions instead.
// - stream_run, kernel_defer: the runtime launches and synchronizes.
// - set_schedule: only the asynchronous schedule.
// - stream_pending, stream_follows_event: CUDA does not count its work.
#include "openreg/driver.h"

#include "capture.h"
#include "device.h"
#include "event.h"
#include "graph.h"
#include "host_work.h"
#include "ipc.h"
#include "memory.h"
#include "module.h"
#include "stream.h"

namespace {

constexpr orDriver make_table() {
  orDriver table{};
  table.struct_size = sizeof(orDriver);
  table.version = OR_DRIVER_VERSION;
  table.name = "nv";
  table.capabilities = nv::kCapabilities;
  table.init = &nv::init;
  table.device_count = &nv::count_devices;
  table.device_properties = &nv::device_properties;
  table.device_open = &nv::device_open;
  table.device_close = &nv::device_close;
  table.memory_alloc = &nv::memory_alloc;
  table.memory_free = &nv::memory_free;
  table.memory_info = &nv::memory_info;
  table.host_alloc = &nv::host_alloc;
  table.host_free = &nv::host_free;
  table.stream_create = &nv::stream_create;
  table.stream_destroy = &nv::stream_destroy;
  table.stream_query = &nv::stream_query;
  table.stream_synchronize = &nv::stream_synchronize;
  table.stream_wait_event = &nv::stream_wait_event;
  table.stream_launch = &nv::stream_launch;
  table.stream_copy = &nv::stream_copy;
  table.stream_fill = &nv::stream_fill;
  table.device_synchronize = &nv::device_synchronize;
  table.event_create = &nv::event_create;
  table.event_destroy = &nv::event_destroy;
  table.event_record = &nv::event_record;
  table.event_query = &nv::event_query;
  table.event_synchronize = &nv::event_synchronize;
  table.event_elapsed = &nv::event_elapsed;
  table.device_drain = &nv::device_drain;
  table.stream_begin_capture = &nv::stream_begin_capture;
  table.stream_end_capture = &nv::stream_end_capture;
  table.stream_capture_status = &nv::stream_capture_status;
  table.stream_check_uncaptured = &nv::stream_check_uncaptured;
  table.device_check_uncaptured = &nv::device_check_uncaptured;
  table.graph_launch = &nv::graph_launch;
  table.graph_node = &nv::graph_node;
  table.graph_destroy = &nv::graph_destroy;
  table.ipc_name = &nv::ipc_name;
  table.ipc_retire = &nv::ipc_retire;
  table.ipc_withdraw = &nv::ipc_withdraw;
  table.ipc_open = &nv::ipc_open;
  table.ipc_close = &nv::ipc_close;
  table.ipc_name_event = &nv::ipc_name_event;
  table.ipc_open_event = &nv::ipc_open_event;
  table.module_load = &nv::module_load;
  table.module_unload = &nv::module_unload;
  table.module_function = &nv::module_function;
  table.stream_launch_function = &nv::stream_launch_function;
  table.stream_native_handle = &nv::stream_native_handle;
  table.device_native_handle = &nv::device_native_handle;
  return table;
}

constexpr orDriver kTable = make_table();

}  // namespace

const orDriver* orGetDriver(void) {
  return &kTable;
}
