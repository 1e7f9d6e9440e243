// Snapshots and history of device memory, in the format of torch.cuda._memory_viz.
#include "bindings.h"
#include "device/device.h"
#include "memory/pool/pool.h"

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/profiler/combined_traceback.h>

#include <optional>
#include <unordered_map>

namespace {

using c10::CachingDeviceAllocator::BlockInfo;
using c10::CachingDeviceAllocator::SegmentInfo;
using openreg::Context;
using openreg::RecordContext;
using openreg::TraceEntry;

Context python_stack() {
  return torch::CapturedTraceback::gather(true, true, false);
}

Context whole_stack() {
  return torch::CapturedTraceback::gather(true, true, true);
}

// Collects stacks and the dictionaries that refer to them; fill_in symbolizes each stack once and sets
// "frames". Anomaly detection records the stack of the forward operator, which becomes "forward_frames".
class Frames {
 public:
  void add(const py::dict& dict, const Context& context) {
    if (context == nullptr) {
      dict["frames"] = py::list();
      return;
    }
    const auto [found, is_new] = numbers_.try_emplace(context.get(), stacks_.size());
    if (is_new) {
      stacks_.push_back(torch::getCapturedTracebackFromContext(context));
    }
    pending_.emplace_back(dict, found->second);
  }

  void fill_in() {
    const torch::SymbolizedTracebacks symbolized = torch::symbolize(stacks_);
    std::vector<py::dict> frames;
    for (const auto& frame : symbolized.all_frames) {
      py::dict dict;
      dict["name"] = frame.funcname;
      dict["filename"] = frame.filename;
      dict["line"] = frame.lineno;
      frames.push_back(std::move(dict));
    }
    for (const auto& [dict, number] : pending_) {
      py::list stack;
      for (const uint64_t frame : symbolized.tracebacks.at(number)) {
        stack.append(frames.at(frame));
      }
      dict["frames"] = stack;
      if (const auto& forward = stacks_.at(number)->forward_traceback()) {
        dict["forward_frames"] = *forward;
      }
    }
  }

 private:
  std::unordered_map<const c10::GatheredContext*, size_t> numbers_;
  std::vector<torch::CapturedTraceback*> stacks_;
  std::vector<std::pair<py::dict, size_t>> pending_;
};

py::dict to_dict(const SegmentInfo& segment, Frames& frames) {
  py::dict dict;
  dict["device"] = static_cast<int>(segment.device);
  dict["address"] = segment.address;
  dict["total_size"] = segment.total_size;
  dict["allocated_size"] = segment.allocated_size;
  dict["active_size"] = segment.active_size;
  dict["requested_size"] = segment.requested_size;
  dict["stream"] = reinterpret_cast<int64_t>(segment.stream);
  dict["segment_type"] = segment.is_large ? "large" : "small";
  dict["segment_pool_id"] =
      py::make_tuple(segment.owner_private_pool_id.first, segment.owner_private_pool_id.second);
  dict["is_expandable"] = segment.is_expandable;
  frames.add(dict, segment.context_when_allocated);
  py::list blocks;
  size_t address = segment.address;
  for (const BlockInfo& block : segment.blocks) {
    py::dict piece;
    piece["address"] = address;
    piece["size"] = block.size;
    piece["requested_size"] = block.requested_size;
    piece["state"] = block.allocated ? "active_allocated" : block.active ? "active_pending_free" : "inactive";
    frames.add(piece, block.context_when_allocated);
    blocks.append(piece);
    address += block.size;
  }
  dict["blocks"] = blocks;
  return dict;
}

constexpr std::array kActions{"alloc",         "free_requested", "free_completed",
                              "segment_alloc", "segment_free",   "segment_map",
                              "segment_unmap", "snapshot",       "oom"};
static_assert(TraceEntry::ALLOC == 0 && TraceEntry::SNAPSHOT == 7 && TraceEntry::OOM == 8);

py::dict to_dict(const TraceEntry& entry, Frames& frames) {
  py::dict dict;
  dict["action"] = kActions.at(entry.action_);
  dict[entry.action_ == TraceEntry::OOM ? "device_free" : "addr"] = entry.addr_;
  dict["size"] = entry.size_;
  dict["stream"] = reinterpret_cast<int64_t>(entry.stream_);
  dict["time_us"] = static_cast<int64_t>(entry.time_.t_);
  dict["pool_id"] = py::make_tuple(entry.mempool_.first, entry.mempool_.second);
  dict["compile_context"] = entry.compile_context_;
  dict["user_metadata"] = entry.user_metadata_;
  frames.add(dict, entry.context_);
  return dict;
}

std::pair<py::list, py::list> memory_snapshot(bool with_history) {
  HANDLE_TH_ERRORS
  std::vector<openreg::PoolSnapshot> snapshots;
  {
    const py::gil_scoped_release no_gil;
    for (c10::DeviceIndex device = 0; device < openreg::device_count(); ++device) {
      snapshots.push_back(openreg::pool_of(device).snapshot(with_history));
    }
  }
  Frames frames;
  py::list segments;
  py::list traces;
  for (const openreg::PoolSnapshot& snapshot : snapshots) {
    for (const SegmentInfo& segment : snapshot.segments) {
      segments.append(to_dict(segment, frames));
    }
    py::list trace;
    for (const TraceEntry& entry : snapshot.history) {
      trace.append(to_dict(entry, frames));
    }
    traces.append(trace);
  }
  frames.fill_in();
  return {segments, traces};
  END_HANDLE_TH_ERRORS_PYBIND
}

py::object allocation_traceback(uintptr_t address) {
  HANDLE_TH_ERRORS
  Context context;
  {
    const py::gil_scoped_release no_gil;
    for (c10::DeviceIndex device = 0; context == nullptr && device < openreg::device_count(); ++device) {
      context = openreg::pool_of(device).allocation_context(reinterpret_cast<void*>(address));
    }
  }
  if (context == nullptr) {
    return py::none();
  }
  py::dict dict;
  Frames frames;
  frames.add(dict, context);
  frames.fill_in();
  return dict["frames"];
  END_HANDLE_TH_ERRORS_PYBIND
}

std::vector<uint64_t> recorded_allocations() {
  std::vector<uint64_t> numbers;
  for (c10::DeviceIndex device = 0; device < openreg::device_count(); ++device) {
    numbers.push_back(openreg::pool_of(device).recorded_allocations());
  }
  return numbers;
}

// Of each device, from the number that recorded_allocations has returned for it: (device, address, size,
// stack).
py::list allocations_since(const std::vector<uint64_t>& numbers) {
  HANDLE_TH_ERRORS
  std::vector<std::pair<size_t, openreg::LiveAllocation>> found;
  {
    const py::gil_scoped_release no_gil;
    for (size_t device = 0; device < numbers.size(); ++device) {
      auto& pool = openreg::pool_of(static_cast<c10::DeviceIndex>(device));
      for (auto& one : pool.allocations_since(numbers[device])) {
        found.emplace_back(device, std::move(one));
      }
    }
  }
  Frames frames;
  std::vector<py::dict> dicts;
  for (const auto& [device, one] : found) {
    frames.add(dicts.emplace_back(), one.context);
  }
  frames.fill_in();
  py::list list;
  for (size_t i = 0; i < found.size(); ++i) {
    const auto& [device, one] = found[i];
    list.append(
        py::make_tuple(device, reinterpret_cast<uintptr_t>(one.ptr), one.requested, dicts[i]["frames"]));
  }
  return list;
  END_HANDLE_TH_ERRORS_PYBIND
}

// `context` is 0 to 3 and selects the events with stacks: none, memory in use, allocations, all.
void record_memory_history(bool on, int context, bool cpp_stacks, size_t max_entries, bool clear,
                           const std::vector<std::string>& skip) {
  openreg::HistoryOptions options;
  options.on = on;
  options.gather = cpp_stacks ? whole_stack : python_stack;
  options.when = static_cast<RecordContext>(context);
  options.max_entries = max_entries;
  for (const std::string& action : skip) {
    options.skip.push_back(c10::CachingDeviceAllocator::parseTraceEntryAction(action));
  }
  for (int device = 0; device < openreg::kMaxDevices; ++device) {
    openreg::pool_of(static_cast<c10::DeviceIndex>(device)).record_history(options, clear);
  }
}

}  // namespace

void bind_snapshot(py::module_& m) {
  m.def("memory_snapshot", memory_snapshot);
  m.def("allocation_traceback", allocation_traceback);
  m.def("recorded_allocations", torch::wrap_pybind_function_no_gil(recorded_allocations));
  m.def("allocations_since", allocations_since);
  m.def("records_memory_history", [] { return openreg::pool_of(0).records_history(); });
  m.def("record_memory_history", torch::wrap_pybind_function_no_gil(record_memory_history));
}
