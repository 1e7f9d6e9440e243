// Moves bytes between the ranks of a group, over Gloo.
//
// Gloo's headers are not part of torch's, so its process group is used through c10d::Backend. All functions
// block, and throw with the rank that is missing, after the timeout of the call or when a peer has ended.
// After an exception the group cannot be used any more: Gloo may still access the buffers, so the caller
// passes them to keep().
//
// Thread safety: one exchange at a time; sends and receives of different peers, directions or
// tags from any thread.
#pragma once

#include "distributed/transport/bytes.h"
#include "distributed/transport/loopback.h"
#include "distributed/transport/message.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace openreg::distributed {

/// Throws ValueError if a point-to-point operation cannot have this tag.
void check_tag(int tag);

class Transport {
 public:
  static constexpr int kAnyRank = -1;

  Transport(c10::intrusive_ptr<c10d::Backend> gloo, int rank, int size);
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// An exchange in progress: sends to[i] to rank i and receives from[i] from rank i, for all other ranks;
  /// copies to[rank()] into from[rank()].
  class Exchange;

  /// Begins an exchange: sends the messages that describe the call. Does not block.
  std::shared_ptr<Exchange> begin(const Call& call, std::vector<Bytes> to, std::vector<Bytes> from);
  /// Checks that the calls of all ranks match, and moves the data.
  void finish(Exchange& exchange);

  /// As finish, but receives the data in pieces of `piece` bytes, which replace each other. `consume` gets
  /// the begin of a piece, and its memory by rank; that of this rank is in `to`. All ranks send the same
  /// number of bytes to this one.
  ///
  /// If `shared` is not empty, every piece of shared[rank()] is sent to all other ranks as soon as it was
  /// consumed, and shared[i] is received from rank i. It may be `to`: rank i sends a piece only after it has
  /// received the one that it replaces.
  using Consume = std::function<void(size_t begin, const std::vector<Bytes>& pieces)>;
  void finish_in_pieces(Exchange& exchange, size_t piece, const Consume& consume,
                        const std::vector<Bytes>& shared = {});

  void send(const Call& call, int peer, int tag, const Bytes& bytes);
  /// Returns the rank of the sender; kAnyRank receives from all ranks but this one.
  int recv(const Call& call, int peer, int tag, const Bytes& bytes);

  /// Makes the waiting calls throw.
  void abort();
  void keep(std::shared_ptr<void> buffers);

 private:
  class Pending;
  struct PointToPoint;

  /// Buffers of a set for the pieces of each other rank, with at least this many bytes.
  std::vector<Bytes> piece_buffers(size_t set, size_t bytes);

  c10::intrusive_ptr<c10d::Backend> gloo_;
  const int rank_;
  const int size_;
  Loopback loopback_;
  // Of finish_in_pieces, by set and rank. Kept: fresh memory costs a page fault for each page.
  std::array<std::vector<at::Tensor>, 2> buffers_;
  std::mutex mutex_;  // guards the two below
  bool aborted_ = false;
  std::vector<Pending*> waiting_;
  std::vector<std::shared_ptr<void>> kept_;
};

}  // namespace openreg::distributed
