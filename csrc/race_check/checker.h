// The state of the race check; see Note [Race check] in race_check.h.
//
// Thread safety: race_check.cpp locks `mutex` around each call.
#pragma once

#include "race_check/race_check.h"
#include "race_check/shadow_memory.h"

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace openreg::races {

/// The functions are those of race_check.h.
class Checker {
 public:
  std::mutex mutex;  // guards the rest
  int users = 0;
  std::set<const void*> external_events;  // handles are not reused

  void reset();

  void record_event(const void* event, Stream stream);
  void wait_event(Stream stream, const void* event);
  void destroy_event(const void* event) { program_.events.erase(event); }
  void host_waited_for_event(const void* event);
  void host_waited_for_stream(Stream stream) { host_.join(clock_of(program_, stream)); }
  void host_waited_for_device(int device);
  bool host_follows_stream(Stream stream);

  void allocated(uintptr_t begin, size_t bytes, Stream stream, CallSite site);
  void freed(uintptr_t begin, size_t bytes, std::span<const Stream> recorded);
  void kept(uintptr_t begin, size_t bytes, Stream stream) {
    program_.memory.keep(begin, begin + bytes, number_of(stream));
  }
  void forget(uintptr_t begin, size_t bytes) { program_.memory.forget(begin, begin + bytes); }
  void received(uintptr_t begin, size_t bytes, Stream stream, CallSite site);

  Launch launch(Stream stream, const char* op, CallSite site);
  void access(const Launch& launch, std::span<const Access> accesses);
  void host_access(const Access& access, const char* op, CallSite site);
  bool host_follows_access(const Access& access);

  void replay(uint64_t capture, Stream stream, CallSite site);
  void capture_ended(uint64_t capture) { captures_.erase(capture); }
  void graph_destroyed(uint64_t capture);

 private:
  // Streams have numbers, in the order of their first use. The first two are not streams.
  static constexpr uint32_t kHost = 0;
  static constexpr uint32_t kSender = 1;  // stands for all streams of other processes

  struct StreamName {
    int device;
    int64_t id;
  };

  // Clocks and accesses of the program, or of one capture.
  struct World {
    std::unordered_map<uint32_t, VectorClock> clocks;     // of streams
    std::unordered_map<const void*, VectorClock> events;  // of the latest records
    ShadowMemory memory;
  };

  // What a replay does.
  struct GraphAccesses {
    std::vector<Record> records;
    std::set<std::tuple<uintptr_t, uintptr_t, bool>> known;  // of accesses without gaps
    std::vector<const void*> waited_events;                  // external events
    std::vector<const void*> recorded_events;
    VectorClock last;  // of the latest replay
  };

  World& world_of(uint64_t capture) { return capture == 0 ? program_ : captures_[capture]; }
  uint32_t number_of(const Stream& stream);
  // The clock of a stream. The next work of the stream follows what the host has waited for.
  VectorClock& clock_of(World& world, const Stream& stream);
  void add(World& world, const Record& record, const VectorClock& clock);

  std::string name_of(uint32_t stream) const;
  RaceAccess described(const Record& record) const;
  std::string advice(const Record& first, const Record& second, const Region& region) const;
  void report(const Record& first, const Record& second, const Region& region) const;

  std::vector<StreamName> streams_;                    // by number
  std::unordered_map<const void*, uint32_t> numbers_;  // by handle
  const void* latest_handle_ = nullptr;
  uint32_t latest_ = 0;  // the number of latest_handle_; avoids a lookup
  VectorClock host_;
  VectorClock senders_;
  World program_;
  std::map<uint64_t, World> captures_;
  std::map<uint64_t, GraphAccesses> graphs_;
};

}  // namespace openreg::races
