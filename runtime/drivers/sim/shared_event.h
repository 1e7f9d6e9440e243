// An interprocess event: an entry in the IPC registry of the process that created it.
//
// Thread safety: all members may be called from any thread. create, open, name and the destructor lock
// ipc_mutex().
#pragma once

#include "ipc_layout.h"
#include "openreg/error.h"
#include "ref.h"

#include <atomic>
#include <cstdint>
#include <memory>

namespace openreg::sim {

class Peer;

class SharedEvent : public Counted<SharedEvent> {
 public:
  [[nodiscard]] static orError_t create(int device, Ref<SharedEvent>& event);
  [[nodiscard]] static orError_t open(const WireHandle& handle, int& device, Ref<SharedEvent>& event);
  ~SharedEvent();

  [[nodiscard]] orError_t name(WireHandle& handle) const;

  struct Latest {
    uint64_t number;  // 0: never recorded
    int process;
  };
  Latest latest() const;
  /// Begins a record of this process and returns its number. `earlier`: the record whose ring slot it reuses,
  /// and the process of that record.
  uint64_t begin_record(Latest& earlier);
  void finish_record(uint64_t number);
  bool is_done(uint64_t number) const;
  /// False if the process has ended and cannot finish a record.
  bool is_alive(int process) const;

  /// A watcher reads the doorbell, checks its records, and sleeps until the doorbell changes.
  const std::atomic<uint32_t>& doorbell() const { return registry_.doorbell; }
  void begin_watching() { registry_.waiting.fetch_add(1); }
  void end_watching() { registry_.waiting.fetch_sub(1); }

 private:
  SharedEvent(IpcRegistry& ipc_registry, int file, uint32_t index, std::shared_ptr<Peer> peer);

  IpcRegistry& registry_;
  const int file_;
  const uint32_t index_;
  EventEntry& entry_;
  std::shared_ptr<Peer> peer_;  // empty if this process created the event
};

}  // namespace openreg::sim
