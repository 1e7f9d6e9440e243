// Point-to-point operations of a rank with itself, which Gloo does not have.
//
// A send waits until the receive has taken the data, as to another rank. Thread safety: all functions may be
// called from any thread.
#pragma once

#include "distributed/transport/bytes.h"
#include "distributed/transport/message.h"

#include <condition_variable>
#include <list>
#include <mutex>

namespace openreg::distributed {

class Loopback {
 public:
  explicit Loopback(int rank) : rank_(rank) {}

  /// Throws DistBackendError after the timeout of the call.
  void send(const Call& call, int tag, const Bytes& bytes);
  /// Also throws if the size or dtype of the send differs.
  void recv(const Call& call, int tag, const Bytes& bytes);

  /// Makes the waiting calls throw.
  void abort();

 private:
  struct Sent {
    int tag;
    const Message& message;
    const Bytes& bytes;
    bool received = false;
  };

  template <typename Ready>
  void wait(std::unique_lock<std::mutex>& lock, const Call& call, const char* direction, Ready ready);

  const int rank_;
  std::mutex mutex_;  // guards everything below
  std::condition_variable changed_;
  std::list<Sent*> sent_;  // in the order of the sends
  bool aborted_ = false;
};

}  // namespace openreg::distributed
