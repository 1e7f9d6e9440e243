// The connection of a rank to the others, over Gloo, and the sends and receives in progress.
//
// Gloo's headers are not part of torch's, so its process group is used through c10d::Backend. After an
// exception the connection cannot be used any more: Gloo may still access the buffers, so the caller passes
// them to keep().
//
// Thread safety: Connection from any thread; a Pending from one thread, except that abort() ends its waits.
#pragma once

#include "distributed/transport/bytes.h"
#include "distributed/transport/message.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace openreg::distributed {

class Pending;

class Connection {
 public:
  explicit Connection(c10::intrusive_ptr<c10d::Backend> gloo) : gloo_(std::move(gloo)) {}

  /// Makes the waiting calls throw, and all later ones.
  void abort();
  /// Keeps buffers as long as the connection.
  void keep(std::shared_ptr<void> buffers);

 private:
  friend class Pending;
  void check_not_aborted() const;  // with the lock

  c10::intrusive_ptr<c10d::Backend> gloo_;
  std::mutex mutex_;  // guards everything below
  bool aborted_ = false;
  std::vector<Pending*> waiting_;
  std::vector<std::shared_ptr<void>> kept_;
};

/// Sends and receives in progress. Destroyed only when all are done, or with the connection.
class Pending {
 public:
  static constexpr int kAnyRank = -1;

  Pending(Connection& connection, const Call& call);
  ~Pending();
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  void send(int peer, int tag, const Bytes& bytes);
  void recv(int peer, int tag, const Bytes& bytes);
  /// A receive from `peer` that is not over Gloo.
  void recv(int peer, c10::intrusive_ptr<c10d::Work> work);
  size_t count() const { return operations_.size(); }
  /// Waits for the first `end` operations; returns the source of the last one. Throws with the rank that is
  /// missing after the timeout of the call, or when a peer has ended.
  int wait(size_t end = SIZE_MAX);

 private:
  friend class Connection;
  using Clock = std::chrono::steady_clock;
  struct Operation {
    int peer;
    const char* direction;
    c10::intrusive_ptr<c10d::Work> work;
  };

  template <typename Start>
  void add(int peer, const char* direction, const Bytes& bytes, Start start);
  static std::string describe(const Operation& operation);
  [[noreturn]] void fail(const Operation& operation, const std::string& reason) const;

  Connection& connection_;
  const Clock::time_point deadline_;
  std::vector<Operation> operations_;
  size_t next_ = 0;
};

}  // namespace openreg::distributed
