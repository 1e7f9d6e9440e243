// Bindings of graph capture status and private memory pools. torch binds graphs themselves
// (torch.accelerator.Graph).
#include "bindings.h"
#include "device/device.h"
#include "memory/mempool_routing.h"
#include "stream/capture.h"
#include "stream/stream.h"

#include <torch/csrc/Exceptions.h>

using torch::wrap_pybind_function_no_gil;

void bind_graph(py::module_& m) {
  m.def("graph_pool_handle", [] { return openreg::graph_pool_handle(); });
  m.def("is_current_stream_capturing", wrap_pybind_function_no_gil([] {
          return openreg::stream_is_capturing(openreg::current_stream(openreg::current_device()));
        }));
  m.def("use_pool", wrap_pybind_function_no_gil([](int device, c10::MempoolId_t pool) {
          openreg::use_pool(openreg::checked_index(device), pool);
        }));
  m.def("release_pool", wrap_pybind_function_no_gil([](int device, c10::MempoolId_t pool) {
          openreg::release_pool(openreg::checked_index(device), pool);
        }));
  m.def("pool_users", wrap_pybind_function_no_gil([](int device, c10::MempoolId_t pool) {
          return openreg::pool_users(openreg::checked_index(device), pool);
        }));
  m.def("begin_thread_route", wrap_pybind_function_no_gil([](int device, c10::MempoolId_t pool) {
          return openreg::begin_thread_route(openreg::checked_index(device), pool);
        }));
  m.def("end_route", wrap_pybind_function_no_gil([](openreg::RouteId route) { openreg::end_route(route); }));
  m.def("empty_pool", wrap_pybind_function_no_gil([](int device, c10::MempoolId_t pool) {
          openreg::empty_pool(openreg::checked_index(device), pool);
        }));
}
