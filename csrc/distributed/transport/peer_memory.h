// Reads the memory of other ranks on the same machine, as NCCL's peer-to-peer transport does on GPUs.
//
// A rank tells its address to the others. A rank that can read it copies large data itself with one system
// call, instead of receiving it through a socket. The memory of ranks on other machines, in other containers,
// or of processes that the system protects cannot be read; their data comes over Gloo.
//
// The owner of the memory keeps it unchanged until it knows that it was read, or calls withdraw().
//
// Thread safety: withdraw() and bytes_read() from any thread; the others from one thread at a time.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace openreg::distributed {

class PeerMemory {
 public:
  using Token = std::array<uint64_t, 2>;
  /// Of a rank: its process, and a random token in its memory that identifies the rank.
  struct Address {
    int64_t pid = 0;  // 0: the memory must not be read
    uint64_t location = 0;
    Token token{};
  };

  /// With `enabled` false, no rank can read the memory of another.
  PeerMemory(int size, bool enabled);

  const Address& own() const { return own_; }
  /// Erases the token, so that reads of other ranks that have not ended fail.
  void withdraw();

  /// The address that a rank has sent.
  void set_address(int peer, const Address& address);
  const Address& address(int peer) const { return peers_[static_cast<size_t>(peer)]; }
  /// Tries to read the token of the rank.
  bool can_read(int peer) const;
  /// Throws DistBackendError if the process has ended, or if the rank has withdrawn its address.
  void read(int peer, uint64_t location, void* to, size_t size);
  /// The total of read().
  uint64_t bytes_read() const { return bytes_read_.load(std::memory_order_relaxed); }

 private:
  Address own_;
  std::vector<Address> peers_;
  std::atomic<uint64_t> bytes_read_{0};
};

}  // namespace openreg::distributed
