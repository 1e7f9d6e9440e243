// An event that several processes have: its entry in the IPC registry of the process that made it.
//
// Thread safety: everything may be called from any thread. Making, opening and the end lock ipc_mutex().
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
  /// The number of a new record, which this process makes. `earlier`: the record whose place it takes, and
  /// who made it.
  uint64_t begin_record(Latest& earlier);
  void finish_record(uint64_t number);
  bool is_done(uint64_t number) const;
  /// False if the process cannot finish a record any more.
  bool is_alive(int process) const;

  /// Who watches reads the doorbell, looks, and sleeps as long as the doorbell has not moved.
  const std::atomic<uint32_t>& doorbell() const { return ledger_.doorbell; }
  void begin_watching() { ledger_.waiting.fetch_add(1); }
  void end_watching() { ledger_.waiting.fetch_sub(1); }

 private:
  SharedEvent(IpcRegistry& ipc_registry, int file, uint32_t index, std::shared_ptr<Peer> peer);

  IpcRegistry& ledger_;
  const int file_;
  const uint32_t index_;
  EventEntry& entry_;
  std::shared_ptr<Peer> peer_;  // empty if this process made it
};

}  // namespace openreg::sim
