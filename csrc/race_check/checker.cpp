#include "race_check/checker.h"

#include <openreg/openreg.h>

#include <algorithm>

namespace openreg::races {

RaceLog& log() {
  static auto* made = new RaceLog;
  return *made;
}

void Checker::reset() {
  streams_.assign({{-1, kHost}, {-1, kSender}});
  numbers_.clear();
  latest_ = 0;
  host_ = {};
  senders_ = {};
  program_ = {};
  captures_.clear();
  graphs_.clear();
}

// ---- Order

uint32_t Checker::number_of(const Stream& stream) {
  if (latest_ != 0 && latest_handle_ == stream.handle) {
    return latest_;
  }
  const auto [entry, added] = numbers_.try_emplace(stream.handle, static_cast<uint32_t>(streams_.size()));
  if (added) {
    streams_.push_back({stream.device, stream.id});
  }
  streams_[entry->second].id =
      std::min(streams_[entry->second].id, stream.id);  // an external one has a large ID
  latest_handle_ = stream.handle;
  latest_ = entry->second;
  return latest_;
}

VectorClock& Checker::clock_of(World& world, const Stream& stream) {
  VectorClock& clock = world.clocks[number_of(stream)];
  if (&world == &program_) {
    clock.join(host_);
  }
  return clock;
}

void Checker::record_event(const void* event, Stream stream) {
  World& world = world_of(stream.capture);
  world.events[event] = clock_of(world, stream);
  if (stream.capture != 0 && external_events.contains(event)) {
    graphs_[stream.capture].recorded_events.push_back(event);
  }
}

void Checker::wait_event(Stream stream, const void* event) {
  World& world = world_of(stream.capture);
  VectorClock& clock = clock_of(world, stream);
  if (const auto found = world.events.find(event); found != world.events.end()) {
    clock.join(found->second);
  } else if (stream.capture != 0) {
    graphs_[stream.capture].waited_events.push_back(event);
  } else {
    clock.join(senders_);  // an event of another process
  }
}

void Checker::host_waited_for_event(const void* event) {
  const auto found = program_.events.find(event);
  host_.join(found != program_.events.end() ? found->second : senders_);
}

void Checker::host_waited_for_device(int device) {
  for (const auto& [number, clock] : program_.clocks) {
    if (streams_[number].device == device) {
      host_.join(clock);
    }
  }
}

bool Checker::host_follows_stream(Stream stream) {
  const uint32_t number = number_of(stream);
  return host_.follows(number, program_.clocks[number].at(number));
}

// ---- Memory

void Checker::allocated(uintptr_t begin, size_t bytes, Stream stream, CallSite site) {
  world_of(stream.capture).memory.allocate(begin, begin + bytes, number_of(stream), site);
}

// The streams of record_stream and of kept() have done the work of the clocks that they have now.
void Checker::freed(uintptr_t begin, size_t bytes, std::span<const Stream> recorded) {
  const auto forget_done = [&](World& world) {
    world.memory.forget_if(begin, begin + bytes, [&](const Record& record, const Region& region) {
      const auto follows = [&](const VectorClock& clock) {
        return clock.follows(record.stream, record.number);
      };
      return std::ranges::any_of(recorded,
                                 [&](const Stream& stream) { return follows(clock_of(world, stream)); }) ||
             std::ranges::any_of(region.kept_by,
                                 [&](uint32_t stream) { return follows(world.clocks[stream]); });
    });
  };
  forget_done(program_);
  for (auto& [capture, world] : captures_) {
    forget_done(world);
  }
}

void Checker::received(uintptr_t begin, size_t bytes, Stream stream, CallSite site) {
  const uint64_t number = senders_.tick(kSender);
  program_.memory.forget(begin, begin + bytes);
  program_.memory.allocate(begin, begin + bytes, number_of(stream), site);
  const Access access{begin, begin + bytes, begin, begin + bytes, true, nullptr};
  add(program_, {access, kSender, number, "the sending process", 0, 0}, senders_);
  clock_of(program_, stream).join(senders_);
}

// ---- Accesses

Launch Checker::launch(Stream stream, const char* op, CallSite site) {
  return {stream, clock_of(world_of(stream.capture), stream).tick(number_of(stream)), op, site};
}

void Checker::add(World& world, const Record& record, const VectorClock& clock) {
  world.memory.add(record, clock,
                   [&](const Record& earlier, const Region& region) { report(earlier, record, region); });
}

void Checker::access(const Launch& launch, std::span<const Access> accesses) {
  World& world = world_of(launch.stream.capture);
  const uint32_t number = number_of(launch.stream);
  const VectorClock& clock = clock_of(world, launch.stream);
  for (const Access& one : accesses) {
    const Record record{one, number, launch.number, launch.op, launch.site, 0};
    add(world, record, clock);
    if (launch.stream.capture == 0) {
      continue;
    }
    GraphAccesses& graph = graphs_[launch.stream.capture];
    if (one.geometry != nullptr || graph.known.emplace(one.begin, one.end, one.write).second) {
      graph.records.push_back(record);
    }
  }
}

void Checker::host_access(const Access& access, const char* op, CallSite site) {
  const Record record{access, kHost, 0, op, site, 0};
  program_.memory.check(
      record, host_, [&](const Record& earlier, const Region& region) { report(earlier, record, region); });
}

bool Checker::host_follows_access(const Access& access) {
  bool follows = true;
  program_.memory.check({access, kHost, 0, "", 0, 0}, host_,
                        [&](const Record&, const Region&) { follows = false; });
  return follows;
}

// ---- Graphs

void Checker::replay(uint64_t capture, Stream stream, CallSite site) {
  const auto found = graphs_.find(capture);
  if (found == graphs_.end()) {
    return;  // captured while the check was off
  }
  GraphAccesses& graph = found->second;
  VectorClock& clock = clock_of(program_, stream);
  clock.join(graph.last);
  for (const void* event : graph.waited_events) {
    if (const auto record = program_.events.find(event); record != program_.events.end()) {
      clock.join(record->second);
    }
  }
  const uint32_t number = number_of(stream);
  const uint64_t launch = clock.tick(number);
  for (const Record& one : graph.records) {
    add(program_, {one.access, number, launch, one.op, site, one.site}, clock);
  }
  for (const void* event : graph.recorded_events) {
    program_.events[event] = clock;
  }
  graph.last = clock;
}

void Checker::graph_destroyed(uint64_t capture) {
  captures_.erase(capture);
  graphs_.erase(capture);
}

// ---- Reports

std::string Checker::name_of(uint32_t stream) const {
  if (stream == kHost) {
    return "the host";
  }
  if (stream == kSender) {
    return "a stream of that process";
  }
  const auto [device, id] = streams_[stream];
  return (id == 0 ? std::string("the default stream") : "stream " + std::to_string(id)) + " of " +
         orGetDeviceName() + ":" + std::to_string(device);
}

RaceAccess Checker::described(const Record& record) const {
  return {record.op, record.access.write, name_of(record.stream), call_site_text(record.site),
          call_site_text(record.captured_at)};
}

std::string Checker::advice(const Record& first, const Record& second, const Region& region) const {
  const std::string first_stream = name_of(first.stream);
  const std::string second_stream = name_of(second.stream);
  if (second.stream == kHost) {
    return "call synchronize() of an event recorded after the first access, or of " + first_stream +
           ", before the host " + (second.access.write ? "writes" : "reads");
  }
  if (first.stream == kSender) {
    return "call wait_stream() of " + second_stream +
           " with the stream that was current when the tensor was received, before the second access";
  }
  if (first.old && first.stream != region.stream) {
    return "the memory of the first tensor was reused after its free: call record_stream() of that tensor "
           "with " +
           first_stream + " before it is freed";
  }
  return "call wait_stream() of " + second_stream + " with " + first_stream +
         ", or wait for an event of it, between the two accesses";
}

void Checker::report(const Record& first, const Record& second, const Region& region) const {
  log().add({described(first), described(second), second.access.begin, second.access.end,
             call_site_text(region.allocated_at), advice(first, second, region)});
}

}  // namespace openreg::races
