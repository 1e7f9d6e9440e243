// The device in torch.profiler: a child profiler of Kineto, which writes one host activity for each call that
// launched work and one device activity for that work.
//
// Note [Linking activities]
// torch assigns an id to every operator that it records, and pushes and pops it through the session on the
// operator's thread. A launch stores the innermost id (profiler/recorder.h), and Kineto resolves it to the
// operator's activity. This is `linked`; it makes device time appear beside operators in tables. An arrow
// from a call to its kernel is a flow, whose id is made from the correlation id of the launch.
#include "device/device.h"
#include "device/on_device.h"
#include "profiler/clock.h"
#include "profiler/kineto.h"
#include "profiler/recorder.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace openreg {
namespace {

using libkineto::ActivityLogger;
using libkineto::ActivityType;
using libkineto::GenericTraceActivity;

ActivityType type_on_device(orTraceKind kind) {
  switch (kind) {
    case orTraceMemcpy:
      return ActivityType::GPU_MEMCPY;
    case orTraceMemset:
      return ActivityType::GPU_MEMSET;
    default:
      return ActivityType::CONCURRENT_KERNEL;
  }
}

// The names of CUDA's profiler, so that tools recognize copies.
const char* copy_name(orMemcpyKind kind) {
  switch (kind) {
    case orMemcpyHostToDevice:
      return "Memcpy HtoD (Host -> Device)";
    case orMemcpyDeviceToHost:
      return "Memcpy DtoH (Device -> Host)";
    case orMemcpyDeviceToDevice:
      return "Memcpy DtoD (Device -> Device)";
    default:
      return "Memcpy HtoH (Host -> Host)";
  }
}

std::string name_on_device(const Activity& activity) {
  switch (activity.kind) {
    case orTraceMemcpy:
      return copy_name(activity.copy_kind);
    case orTraceMemset:
      return "Memset (Device)";
    default:
      return activity.name;
  }
}

// CUDA's profiler counts its flows from 1. In a profile of both devices the ids must differ: torch
// before 2.13 fails otherwise, and later versions drop flows.
uint32_t flow_id(const Activity& activity) {
  constexpr uint32_t kFirst = 1 << 30;
  return kFirst + static_cast<uint32_t>(activity.correlation % kFirst);
}

class Session final : public libkineto::IActivityProfilerSession {
 public:
  explicit Session(std::set<ActivityType> types) : types_(std::move(types)) {}

  // Unsubscribes if the session is destroyed before its end, for instance by an exception.
  ~Session() override {
    try {
      stop();
    } catch (const std::exception&) {
      // Fails in a forked child, where it is not needed.
    }
  }

  void start() override {
    recording_ = start_recording() == orSuccess;
    if (!recording_) {
      errors_.emplace_back(orGetLastErrorMessage());
      TORCH_WARN("the profiler cannot record ", orGetDeviceName(), " activities: ", errors_.back());
      status_ = libkineto::TraceStatus::ERROR;
      return;
    }
    clock_ = ClockMap();
    status_ = libkineto::TraceStatus::RECORDING;
  }

  void stop() override {
    if (std::exchange(recording_, false)) {
      activities_ = stop_recording();
      clock_.finish();
      unfinished_ = std::ranges::count_if(activities_, [](const Activity& a) { return !a.work.has_value(); });
      status_ = libkineto::TraceStatus::PROCESSING;
    }
  }

  std::vector<std::string> errors() override { return errors_; }

  void processTrace(ActivityLogger& logger) override { processTrace(logger, nullptr, 0, 0); }

  void processTrace(ActivityLogger& logger, libkineto::getLinkedActivityCallback linked, int64_t start,
                    int64_t end) override {
    linked_ = std::move(linked);
    buffer_ = std::make_unique<libkineto::CpuTraceBuffer>();
    buffer_->gpuOpCount = 0;
    buffer_->span = libkineto::TraceSpan(start, end, orGetDeviceName());
    for (const Activity& activity : activities_) {
      write_call(activity);
      write_work(activity);
    }
    write_ranges();
    for (const auto& activity : buffer_->activities) {
      logger.handleActivity(*activity);
    }
    name_rows(logger, start);
  }

  // Kineto queries one device, and generates names for all devices if there is none. name_rows names the
  // other devices.
  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override {
    return std::make_unique<libkineto::DeviceInfo>(device_info(0));
  }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override { return {}; }
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override { return std::move(buffer_); }

  std::string getDeviceProperties() override {
    std::string json;
    for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
      const orDeviceProperties properties = device_properties(device);
      json += fmt::format(
          R"({}{{"id": {}, "name": "{}", "totalGlobalMem": {}, "major": {}, "minor": {}, "numSms": {}}})",
          json.empty() ? "" : ", ", device, properties.name, properties.total_memory, properties.major,
          properties.minor, properties.multi_processor_count);
    }
    return json;
  }

  // The number of launches that had not finished when the profile ended.
  std::unordered_map<std::string, std::string> getMetadata() override {
    return {{fmt::format("{}_unfinished", orGetDeviceName()), std::to_string(unfinished_)}};
  }

  void pushCorrelationId(uint64_t id) override { push_operation(id); }
  void popCorrelationId() override { pop_operation(); }
  void pushUserCorrelationId(uint64_t id) override { push_range(id); }
  void popUserCorrelationId() override { pop_range(); }

 private:
  using Row = std::pair<int32_t, int32_t>;  // device and stream

  GenericTraceActivity& add(ActivityType type, const std::string& name, Interval when) {
    buffer_->emplace_activity(buffer_->span, type, name);
    GenericTraceActivity& added = *buffer_->activities.back();
    added.startTime = clock_.unix_ns(when.start_ns);
    added.endTime = clock_.unix_ns(when.end_ns);
    return added;
  }

  void link(GenericTraceActivity& added, const Activity& activity, bool is_call) {
    const uint32_t id = flow_id(activity);
    added.id = static_cast<int32_t>(id);
    added.flow.id = id;
    added.flow.type = libkineto::kLinkAsyncCpuGpu;
    added.flow.start = is_call;
    if (activity.operation != 0 && linked_) {
      added.linked = linked_(static_cast<int32_t>(activity.operation));
    }
    added.addMetadata("correlation", id);
  }

  // A synchronization has no launch: the wait itself is the activity.
  void write_call(const Activity& activity) {
    const bool waits = activity.kind == orTraceSynchronize;
    const std::optional<Interval>& when = waits ? activity.work : activity.call;
    if (activity.device < 0 || !when.has_value() || !types_.contains(ActivityType::PRIVATEUSE1_RUNTIME)) {
      return;
    }
    GenericTraceActivity& added = add(ActivityType::PRIVATEUSE1_RUNTIME, activity.function, *when);
    added.device = libkineto::processId();
    added.resource = activity.thread;
    added.threadId = activity.thread;
    link(added, activity, true);
    if (waits) {
      added.flow = {};  // no device activity to link to
      added.addMetadata("device", activity.device);
      added.addMetadata("stream", activity.stream);
    }
  }

  void write_work(const Activity& activity) {
    const ActivityType type = type_on_device(activity.kind);
    if (activity.device < 0 || activity.kind == orTraceSynchronize || !activity.work.has_value() ||
        !types_.contains(type)) {
      return;
    }
    GenericTraceActivity& added = add(type, name_on_device(activity), *activity.work);
    added.device = activity.device;
    added.resource = activity.stream;
    rows_.emplace(activity.device, activity.stream);
    link(added, activity, false);
    added.addMetadata("device", added.device);
    added.addMetadata("stream", added.resource);
    if (activity.bytes != 0) {
      added.addMetadata("bytes", activity.bytes);
      const int64_t ns = std::max<int64_t>(activity.work->end_ns - activity.work->start_ns, 1);
      added.addMetadata("memory bandwidth (GB/s)",
                        static_cast<double>(activity.bytes) / static_cast<double>(ns));
    }
    if (activity.result != orSuccess) {
      added.addMetadataQuoted("result", orGetErrorName(activity.result));
    }
    if (activity.collective != nullptr) {
      describe(added, *activity.collective);
    }
    extend_ranges(activity, {added.device, added.resource});
  }

  // The names are those of NCCL's kernels in traces.
  static void describe(GenericTraceActivity& added, const Collective& collective) {
    added.addMetadataQuoted("Collective name", collective.name);
    added.addMetadataQuoted("Process Group Name", collective.group);
    added.addMetadata("Group size", collective.group_size);
    added.addMetadata("Rank", collective.rank);
    added.addMetadata("Seq", collective.sequence);
    if (!collective.dtype.empty()) {
      added.addMetadataQuoted("dtype", collective.dtype);
      added.addMetadata("bytes", collective.bytes);
    }
  }

  // On the device, a range spans all work that was launched inside it.
  void extend_ranges(const Activity& activity, Row row) {
    for (const OpenRange* range = activity.range.get(); range != nullptr; range = range->outer.get()) {
      const auto [found, fresh] = ranges_.try_emplace({row, range->id}, *activity.work);
      found->second.start_ns = std::min(found->second.start_ns, activity.work->start_ns);
      found->second.end_ns = std::max(found->second.end_ns, activity.work->end_ns);
    }
  }

  void write_ranges() {
    if (!types_.contains(ActivityType::GPU_USER_ANNOTATION) || !linked_) {
      return;
    }
    for (const auto& [key, when] : ranges_) {
      const auto& [row, id] = key;
      if (const libkineto::ITraceActivity* range = linked_(static_cast<int32_t>(id))) {
        GenericTraceActivity& added = add(ActivityType::GPU_USER_ANNOTATION, range->name(), when);
        std::tie(added.device, added.resource) = row;
        added.id = static_cast<int32_t>(id);
      }
    }
  }

  void name_rows(ActivityLogger& logger, int64_t time) const {
    std::set<int32_t> devices;
    for (const auto& [device, stream] : rows_) {
      devices.insert(device);
      logger.handleResourceInfo(
          row_info(device, stream,
                   stream < kExternalStreams ? fmt::format("stream {}", stream)
                                             : fmt::format("external stream {}", stream - kExternalStreams)),
          time);
    }
    devices.erase(0);
    for (const int32_t device : devices) {
      logger.handleDeviceInfo(device_info(device), time);
    }
  }

  static libkineto::DeviceInfo device_info(int32_t device) {
    return {device, device + libkineto::kExceedMaxPid, libkineto::processName(libkineto::processId()),
            fmt::format("{} {}", orGetDeviceName(), device)};
  }

  const std::set<ActivityType> types_;
  std::vector<std::string> errors_;
  bool recording_ = false;
  ClockMap clock_;
  std::vector<Activity> activities_;
  std::ptrdiff_t unfinished_ = 0;
  libkineto::getLinkedActivityCallback linked_;
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_;
  std::map<std::pair<Row, uint64_t>, Interval> ranges_;
  std::set<Row> rows_;
};

class ActivityProfiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override { return name_; }
  const std::set<ActivityType>& availableActivities() const override { return types_; }

  std::unique_ptr<libkineto::IActivityProfilerSession> configure(const std::set<ActivityType>& types,
                                                                 const libkineto::Config&) override {
    std::set<ActivityType> supported;
    std::ranges::set_intersection(types, types_, std::inserter(supported, supported.end()));
    // Every CPU profile requests PRIVATEUSE1_RUNTIME; that alone does not start a session.
    const bool has_device_types = std::ranges::any_of(
        supported, [](ActivityType type) { return type != ActivityType::PRIVATEUSE1_RUNTIME; });
    return has_device_types ? std::make_unique<Session>(std::move(supported)) : nullptr;
  }

  std::unique_ptr<libkineto::IActivityProfilerSession> configure(int64_t, int64_t,
                                                                 const std::set<ActivityType>& types,
                                                                 const libkineto::Config& config) override {
    return configure(types, config);
  }

 private:
  const std::string name_ = orGetDeviceName();
  const std::set<ActivityType> types_ = {ActivityType::CONCURRENT_KERNEL, ActivityType::GPU_MEMCPY,
                                         ActivityType::GPU_MEMSET, ActivityType::GPU_USER_ANNOTATION,
                                         ActivityType::PRIVATEUSE1_RUNTIME};
};

[[maybe_unused]] const bool registered = register_profiler<ActivityProfiler>();

}  // namespace
}  // namespace openreg
