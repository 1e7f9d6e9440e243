// Bindings of csrc/memory: statistics, settings, raw allocations. Snapshots are in snapshot.cpp.
#include "bindings.h"
#include "common/check.h"
#include "common/fork.h"
#include "device/device.h"
#include "memory/device_allocator.h"
#include "memory/host_allocator.h"
#include "memory/pool/pool.h"
#include "memory/raw.h"
#include "stream/stream.h"

#include <torch/csrc/Exceptions.h>

#include <mutex>

namespace {

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;
using torch::wrap_pybind_function_no_gil;

template <typename Function>
auto without_gil(Function function) {
  const py::gil_scoped_release no_gil;
  return function();
}

py::dict to_dict(const Stat& stat) {
  py::dict dict;
  dict["current"] = stat.current;
  dict["peak"] = stat.peak;
  dict["allocated"] = stat.allocated;
  dict["freed"] = stat.freed;
  return dict;
}

py::dict to_dict(const StatArray& stats) {
  py::dict dict;
  dict["all"] = to_dict(stats[0]);
  dict["small_pool"] = to_dict(stats[1]);
  dict["large_pool"] = to_dict(stats[2]);
  return dict;
}

py::dict to_dict(const c10::CachingAllocator::DurationStat& stat) {
  py::dict dict;
  dict["total"] = stat.total;
  dict["max"] = stat.max;
  dict["min"] = stat.min;
  dict["count"] = stat.count;
  dict["avg"] = stat.count == 0 ? 0 : stat.total / stat.count;
  return dict;
}

py::dict memory_stats(int device) {
  HANDLE_TH_ERRORS
  const auto stats = without_gil([&] { return openreg::pool_of(openreg::checked_index(device)).stats(); });
  py::dict dict;
  dict["num_alloc_retries"] = stats.num_alloc_retries;
  dict["num_ooms"] = stats.num_ooms;
  dict["num_oom_rejections"] = stats.num_oom_rejections;
  dict["max_split_size"] = stats.max_split_size;
  dict["num_sync_all_streams"] = stats.num_sync_all_streams;
  dict["num_device_alloc"] = stats.num_device_alloc;
  dict["num_device_free"] = stats.num_device_free;
  dict["allocation"] = to_dict(stats.allocation);
  dict["segment"] = to_dict(stats.segment);
  dict["active"] = to_dict(stats.active);
  dict["inactive_split"] = to_dict(stats.inactive_split);
  dict["allocated_bytes"] = to_dict(stats.allocated_bytes);
  dict["reserved_bytes"] = to_dict(stats.reserved_bytes);
  dict["active_bytes"] = to_dict(stats.active_bytes);
  dict["inactive_split_bytes"] = to_dict(stats.inactive_split_bytes);
  dict["requested_bytes"] = to_dict(stats.requested_bytes);
  dict["oversize_allocations"] = to_dict(stats.oversize_allocations);
  dict["oversize_segments"] = to_dict(stats.oversize_segments);
  py::dict pools;
  for (const auto& [id, reserved] : stats.reserved_bytes_by_private_pools) {
    pools[py::make_tuple(id.first, id.second)] = to_dict(reserved);
  }
  dict["reserved_bytes_by_private_pools"] = pools;
  return dict;
  END_HANDLE_TH_ERRORS_PYBIND
}

py::dict host_memory_stats() {
  HANDLE_TH_ERRORS
  const at::HostStats stats = without_gil([] { return openreg::host_allocator().get_stats(); });
  py::dict dict;
  dict["num_host_alloc"] = stats.num_host_alloc;
  dict["num_host_free"] = stats.num_host_free;
  dict["allocations"] = to_dict(stats.allocations);
  dict["allocated_bytes"] = to_dict(stats.allocated_bytes);
  dict["active_requests"] = to_dict(stats.active_requests);
  dict["active_bytes"] = to_dict(stats.active_bytes);
  dict["host_alloc_time"] = to_dict(stats.host_alloc_time);
  dict["host_free_time"] = to_dict(stats.host_free_time);
  return dict;
  END_HANDLE_TH_ERRORS_PYBIND
}

template <typename Function>
void for_each_pool(Function function) {
  for (int device = 0; device < openreg::kMaxDevices; ++device) {
    function(openreg::pool_of(static_cast<c10::DeviceIndex>(device)));
  }
}

// Settings that all pools share.
struct Common {
  std::mutex mutex;  // guards the members below; held while they are applied to the pools
  openreg::Settings settings = openreg::settings_of_environment();
  bool caching = true;
};

Common& common() {
  static auto* one = new Common;
  return *one;
}

void set_allocator_settings(const std::string& text) {
  openreg::check_not_forked();
  std::lock_guard<std::mutex> lock(common().mutex);
  common().settings = openreg::with_settings(openreg::settings_of_environment(), text);
  for_each_pool([&](openreg::Pool& pool) { pool.configure(common().settings); });
}

py::dict allocator_settings() {
  HANDLE_TH_ERRORS
  const openreg::Settings settings = without_gil([] {
    openreg::check_not_forked();
    std::lock_guard<std::mutex> lock(common().mutex);
    return common().settings;
  });
  py::dict divisions;
  for (size_t i = 0; i < settings.roundup_power2_divisions.size(); ++i) {
    divisions[py::str(std::to_string(size_t{1} << i))] = settings.roundup_power2_divisions[i];
  }
  py::dict dict;
  dict["text"] = settings.text;
  dict["max_split_size"] = static_cast<int64_t>(settings.max_split_size);
  dict["max_non_split_rounding_size"] = settings.max_non_split_rounding;
  dict["large_segment_size"] = settings.large_segment;
  dict["garbage_collection_threshold"] = settings.garbage_collection_threshold;
  dict["expandable_segments"] = false;
  dict["roundup_power2_divisions"] = divisions;
  return dict;
  END_HANDLE_TH_ERRORS_PYBIND
}

void set_caching(bool caching) {
  openreg::check_not_forked();
  if (!caching) {
    c10::getDeviceAllocator(openreg::kDevice)->emptyCache();  // first: it throws during a capture
  }
  std::lock_guard<std::mutex> lock(common().mutex);
  common().caching = caching;
  for_each_pool([&](openreg::Pool& pool) { pool.set_caching(caching); });
}

bool is_caching() {
  openreg::check_not_forked();
  std::lock_guard<std::mutex> lock(common().mutex);
  return common().caching;
}

}  // namespace

void bind_memory(py::module_& m) {
  m.def("memory_stats", memory_stats);
  m.def("host_memory_stats", host_memory_stats);
  m.def("empty_host_cache", wrap_pybind_function_no_gil([] { openreg::host_allocator().empty_cache(); }));
  m.def("reset_peak_host_memory_stats",
        wrap_pybind_function_no_gil([] { openreg::host_allocator().reset_peak_stats(); }));
  m.def("reset_accumulated_host_memory_stats",
        wrap_pybind_function_no_gil([] { openreg::host_allocator().reset_accumulated_stats(); }));
  m.def("set_memory_fraction", wrap_pybind_function_no_gil([](double fraction, int device) {
          openreg::pool_of(openreg::checked_index(device)).set_memory_fraction(fraction);
        }));
  m.def("get_memory_fraction", wrap_pybind_function_no_gil([](int device) {
          return openreg::pool_of(openreg::checked_index(device)).memory_fraction();
        }));
  m.def("set_allocator_settings", wrap_pybind_function_no_gil(set_allocator_settings));
  m.def("allocator_settings", allocator_settings);
  m.def("set_caching", wrap_pybind_function_no_gil(set_caching));
  m.def("is_caching", wrap_pybind_function_no_gil(is_caching));
  m.def("raw_allocate", wrap_pybind_function_no_gil([](size_t bytes, int64_t stream, int device) {
          return reinterpret_cast<uintptr_t>(openreg::raw_allocate(bytes, stream_of(stream, device)));
        }));
  m.def("attach_out_of_memory_observer", [](py::object observer) {
    // Never destroyed: there is no interpreter any more when static objects are.
    auto* callable = new py::object(std::move(observer));
    openreg::add_out_of_memory_observer(
        [callable](c10::DeviceIndex device, size_t requested, size_t limit, size_t free) {
          const py::gil_scoped_acquire gil;
          try {
            (*callable)(static_cast<int>(device), requested, limit, free);
          } catch (py::error_already_set& error) {
            error.discard_as_unraisable("an out-of-memory observer");
          }
        });
  });
  m.def("raw_delete", wrap_pybind_function_no_gil(
                          [](uintptr_t ptr) { openreg::raw_delete(reinterpret_cast<void*>(ptr)); }));
}
