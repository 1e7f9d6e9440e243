// Moves bytes between the ranks of a group: over Gloo, or, in collectives on the same machine, through shared
// memory (small data) and by reading the memory of the other process (large data).
//
// All functions block, and throw with the rank that is missing, after the timeout of the call or when a peer
// has ended. After an exception the group cannot be used any more: other ranks or Gloo may still access the
// buffers, so the caller passes them to keep().
//
// Thread safety: one exchange at a time; sends and receives of different peers, directions or
// tags from any thread.
#pragma once

#include "distributed/transport/bytes.h"
#include "distributed/transport/connection.h"
#include "distributed/transport/loopback.h"
#include "distributed/transport/mailbox.h"
#include "distributed/transport/message.h"
#include "distributed/transport/peer_memory.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <array>
#include <functional>
#include <memory>
#include <vector>

namespace openreg::distributed {

/// Throws ValueError if a point-to-point operation cannot have this tag.
void check_tag(int tag);

class Transport {
 public:
  static constexpr int kAnyRank = Pending::kAnyRank;

  /// With `peer_memory` false, all data moves over Gloo.
  Transport(c10::intrusive_ptr<c10d::Backend> gloo, int rank, int size, bool peer_memory);
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  const PeerMemory& peer_memory() const { return peer_memory_; }
  const Mailbox& mailbox() const { return mailbox_; }

  /// An exchange in progress: sends to[i] to rank i and receives from[i] from rank i, for all other ranks;
  /// copies to[rank()] into from[rank()].
  class Exchange;

  /// Begins an exchange: sends the messages that describe the call. Does not block.
  std::shared_ptr<Exchange> begin(const Call& call, std::vector<Bytes> to, std::vector<Bytes> from);
  /// Checks that the calls of all ranks match, and moves the data.
  void finish(const std::shared_ptr<Exchange>& exchange);

  /// As finish, but receives the data in pieces of `piece` bytes, which replace each other. `consume` gets
  /// the begin of a piece, and its memory by rank; that of this rank is in `to`. All ranks send the same
  /// number of bytes to this one.
  ///
  /// With `share`, the consumed bytes of to[rank()] then replace those of the other ranks: to[i] is received
  /// from rank i, which has read or received it before.
  using Consume = std::function<void(size_t begin, const std::vector<Bytes>& pieces)>;
  void finish_in_pieces(const std::shared_ptr<Exchange>& exchange, size_t piece, const Consume& consume,
                        bool share = false);

  void send(const Call& call, int peer, int tag, const Bytes& bytes);
  /// Returns the rank of the sender; kAnyRank receives from all ranks but this one.
  int recv(const Call& call, int peer, int tag, const Bytes& bytes);

  /// Makes the waiting calls throw.
  void abort();
  /// Keeps buffers as long as the transport. Other ranks then fail if they read the memory of this rank.
  void keep(std::shared_ptr<void> buffers);

 private:
  struct PointToPoint;

  /// The other ranks, beginning with the next one, so that not all ranks read from the same one first.
  std::vector<int> peers() const;
  template <typename Body>
  void keep_on_failure(const std::shared_ptr<Exchange>& exchange, Body body);
  void move_data(Exchange& exchange);
  void move_pieces(Exchange& exchange, size_t piece, const Consume& consume, bool share);
  size_t expect_notices(Exchange& exchange, bool share) const;
  void finish_reading(Exchange& exchange, bool share, size_t reduced_notices);

  /// Buffers of a set for the pieces of each other rank, with at least this many bytes.
  std::vector<Bytes> piece_buffers(size_t set, size_t bytes);

  Connection connection_;
  const int rank_;
  const int size_;
  Loopback loopback_;
  PeerMemory peer_memory_;  // of the exchange
  Mailbox mailbox_;         // of the exchange
  // Of finish_in_pieces, by set and rank. Kept: fresh memory costs a page fault for each page.
  std::array<std::vector<at::Tensor>, 2> buffers_;
};

}  // namespace openreg::distributed
