#include "profiler/recorder.h"

#include "common/check.h"
#include "common/fork.h"
#include "stream/stream.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <sys/syscall.h>
#include <unistd.h>
#include <unordered_map>
#include <utility>
#include <vector>

namespace openreg {
namespace {

struct Finish {
  uint64_t correlation;
  Interval work;
  orError_t result;
};

struct Return {
  uint64_t correlation;
  Interval call;
};

struct Launch {
  Activity activity;
  uint64_t stream;  // id of orStreamGetId
};

// Trace records received on one thread.
struct Shard {
  std::mutex mutex;  // guards the lists; uncontended except at start and stop
  std::vector<Launch> launches;
  std::vector<Return> returns;
  std::vector<Finish> finishes;

  void clear() {
    launches.clear();
    returns.clear();
    finishes.clear();
  }
};

std::atomic<bool> recording{false};

struct Shards {
  std::mutex mutex;  // guards the lists, not the shards
  std::deque<Shard> all;
  std::vector<Shard*> unused;  // of threads that have exited
};

Shards& shards() {
  static auto* made = new Shards;
  return *made;
}

// A shard and its records outlive its thread; a later thread reuses the shard.
class MyShard {
 public:
  ~MyShard() {
    if (shard_ != nullptr && !in_forked_child()) {
      std::lock_guard<std::mutex> lock(shards().mutex);
      shards().unused.push_back(std::exchange(shard_, nullptr));
    }
  }

  Shard& get() {
    if (C10_UNLIKELY(shard_ == nullptr)) {
      std::lock_guard<std::mutex> lock(shards().mutex);
      std::vector<Shard*>& unused = shards().unused;
      if (unused.empty()) {
        shard_ = &shards().all.emplace_back();
      } else {
        shard_ = unused.back();
        unused.pop_back();
      }
    }
    return *shard_;
  }

 private:
  Shard* shard_ = nullptr;
};

Shard& my_shard() {
  static thread_local MyShard mine;
  return mine.get();
}

// The operators and ranges in progress on this thread. A session that begins or ends during an operator
// leaves pushes without pops, and pops without pushes. Unmatched pushes must not leak into the next session.
struct Place {
  uint64_t session = 0;
  std::vector<uint64_t> operations;
  std::shared_ptr<const OpenRange> range;
};

std::atomic<uint64_t> session{0};

Place& my_place() {
  static thread_local Place place;
  const uint64_t now = session.load(std::memory_order_relaxed);
  if (place.session != now) {
    place = Place{now, {}, nullptr};
  }
  return place;
}

thread_local std::shared_ptr<const Collective> current_collective;

int32_t thread_number() {
  static thread_local const auto number = static_cast<int32_t>(::syscall(SYS_gettid));
  return number;
}

void note_launch(Shard& shard, const orTraceRecord& record) {
  const Place& place = my_place();
  Activity activity{
      .kind = record.kind,
      .name = record.name,
      .function = record.function,
      .device = record.device,
      .stream = 0,
      .correlation = record.correlation,
      .bytes = record.size,
      .copy_kind = record.copy_kind,
      .thread = thread_number(),
      .operation = place.operations.empty() ? 0 : place.operations.back(),
      .range = place.range,
      .call = {},
      .work = {},
      .collective = current_collective,
  };
  shard.launches.push_back({std::move(activity), record.stream});
}

void on_trace_record(const orTraceRecord* record, void*) {
  if (C10_UNLIKELY(in_forked_child())) {
    return;  // end of a range that was open at the fork
  }
  Shard& shard = my_shard();
  std::lock_guard<std::mutex> lock(shard.mutex);
  if (!recording.load(std::memory_order_relaxed)) {
    return;
  }
  switch (record->phase) {
    case orTraceLaunched:
      note_launch(shard, *record);
      break;
    case orTraceReturned:
      shard.returns.push_back({record->correlation, {record->start_ns, record->end_ns}});
      break;
    case orTraceFinished:
      shard.finishes.push_back({record->correlation, {record->start_ns, record->end_ns}, record->result});
      break;
  }
}

int32_t stream_number(int32_t device, uint64_t id) {
  const c10::StreamId number = device < 0 ? 0 : number_of_stream(static_cast<c10::DeviceIndex>(device), id);
  return number >= 0 ? static_cast<int32_t>(number) : kExternalStreams + static_cast<int32_t>(id);
}

template <typename Record>
std::unordered_map<uint64_t, const Record*> by_correlation(const std::vector<Record>& records) {
  std::unordered_map<uint64_t, const Record*> found;
  found.reserve(records.size());
  for (const Record& record : records) {
    found.emplace(record.correlation, &record);
  }
  return found;
}

std::vector<Activity> join_records(std::vector<Launch> launches, const std::vector<Return>& returns,
                                   const std::vector<Finish>& finishes) {
  const auto returned = by_correlation(returns);
  const auto finished = by_correlation(finishes);
  std::map<std::pair<int32_t, uint64_t>, int32_t> numbers;
  std::vector<Activity> activities;
  activities.reserve(launches.size());
  for (auto& [activity, stream] : launches) {
    if (const auto found = returned.find(activity.correlation); found != returned.end()) {
      activity.call = found->second->call;
    }
    if (const auto found = finished.find(activity.correlation); found != finished.end()) {
      activity.work = found->second->work;
      activity.result = found->second->result;
    }
    const auto [number, fresh] = numbers.try_emplace({activity.device, stream}, 0);
    if (fresh) {
      number->second = stream_number(activity.device, stream);
    }
    activity.stream = number->second;
    activities.push_back(std::move(activity));
  }
  return activities;
}

}  // namespace

orError_t start_recording() {
  if (recording.load(std::memory_order_relaxed)) {
    return orTraceSubscribe(&on_trace_record, nullptr);  // returns an error with a message; keeps the records
  }
  {
    std::lock_guard<std::mutex> lock(shards().mutex);
    for (Shard& shard : shards().all) {
      std::lock_guard<std::mutex> own(shard.mutex);
      shard.clear();
    }
  }
  session.fetch_add(1, std::memory_order_relaxed);
  recording.store(true, std::memory_order_relaxed);
  const orError_t error = orTraceSubscribe(&on_trace_record, nullptr);
  if (error != orSuccess) {
    recording.store(false, std::memory_order_relaxed);
  }
  return error;
}

std::vector<Activity> stop_recording() {
  OR_CHECK(orTraceUnsubscribe());
  recording.store(false, std::memory_order_relaxed);
  std::vector<Launch> launches;
  std::vector<Return> returns;
  std::vector<Finish> finishes;
  {
    std::lock_guard<std::mutex> lock(shards().mutex);
    for (Shard& shard : shards().all) {
      std::lock_guard<std::mutex> own(shard.mutex);
      std::ranges::move(shard.launches, std::back_inserter(launches));
      std::ranges::move(shard.returns, std::back_inserter(returns));
      std::ranges::move(shard.finishes, std::back_inserter(finishes));
      shard.clear();
    }
  }
  return join_records(std::move(launches), returns, finishes);
}

bool is_recording() {
  return recording.load(std::memory_order_relaxed);
}

CollectiveScope::CollectiveScope(Collective collective) {
  current_collective = std::make_shared<const Collective>(std::move(collective));
}

CollectiveScope::~CollectiveScope() {
  current_collective = nullptr;
}

void push_operation(uint64_t id) {
  my_place().operations.push_back(id);
}

void pop_operation() {
  if (auto& operations = my_place().operations; !operations.empty()) {
    operations.pop_back();
  }
}

void push_range(uint64_t id) {
  Place& place = my_place();
  place.range = std::make_shared<const OpenRange>(OpenRange{id, std::move(place.range)});
}

void pop_range() {
  if (Place& place = my_place(); place.range != nullptr) {
    place.range = place.range->outer;
  }
}

}  // namespace openreg
