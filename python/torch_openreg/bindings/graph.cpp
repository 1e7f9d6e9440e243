// Bindings of graph capture status and private memory pools. torch binds graphs themselves
// (torch.accelerator.Graph).
#include "bindings.h"
#include "device/device.h"
#include "memory/checkpoint.h"
#include "memory/mempool_routing.h"
#include "stream/capture.h"
#include "stream/stream.h"

#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>

using torch::wrap_pybind_function_no_gil;

namespace {

std::unordered_set<void*> as_pointers(const std::unordered_set<uintptr_t>& addresses) {
  std::unordered_set<void*> pointers;
  for (const uintptr_t address : addresses) {
    pointers.insert(reinterpret_cast<void*>(address));
  }
  return pointers;
}

// The storages of Python's `_cdata`.
std::vector<c10::StorageImpl*> as_storages(const std::vector<uintptr_t>& addresses) {
  std::vector<c10::StorageImpl*> storages;
  for (const uintptr_t address : addresses) {
    storages.push_back(reinterpret_cast<c10::StorageImpl*>(address));
  }
  return storages;
}

// As torch._C._cuda_getCheckpointState and its relatives.
void bind_checkpoints(py::module_& m) {
  py::class_<openreg::PoolCheckpoint>(m, "PoolCheckpoint");
  m.def("get_checkpoint_state", wrap_pybind_function_no_gil([](int device, c10::MempoolId_t pool) {
          return openreg::pool_of(openreg::checked_index(device)).checkpoint(pool);
        }));
  // Keeps the GIL, so that no Python code uses or frees the storages during the call.
  m.def("set_checkpoint_pool_state",
        torch::wrap_pybind_function([](int device, const openreg::PoolCheckpoint& state,
                                       const std::vector<uintptr_t>& stale_storages,
                                       const std::vector<uintptr_t>& storages_to_add_deleters_to) {
          openreg::restore_checkpoint(openreg::checked_index(device), state, as_storages(stale_storages),
                                      as_storages(storages_to_add_deleters_to));
        }));
  m.def("check_pool_live_allocations",
        wrap_pybind_function_no_gil([](int device, c10::MempoolId_t pool,
                                       const std::unordered_set<uintptr_t>& expected_live_allocations) {
          return openreg::pool_of(openreg::checked_index(device))
              .has_live_allocations(pool, as_pointers(expected_live_allocations));
        }));
}

}  // namespace

void bind_graph(py::module_& m) {
  m.def("graph_pool_handle", [] { return openreg::graph_pool_handle(); });
  m.def("is_current_stream_capturing", wrap_pybind_function_no_gil([] {
          return openreg::stream_is_capturing(openreg::current_stream(openreg::current_device()));
        }));
  m.def("use_pool", wrap_pybind_function_no_gil([](int device, c10::MempoolId_t pool) {
          openreg::use_pool(openreg::checked_index(device), pool);
        }));
  m.def("configure_pool",
        wrap_pybind_function_no_gil([](int device, c10::MempoolId_t pool, bool use_on_oom, bool no_split) {
          openreg::configure_pool(openreg::checked_index(device), pool,
                                  {.use_on_oom = use_on_oom, .no_split = no_split});
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
  bind_checkpoints(m);
}
