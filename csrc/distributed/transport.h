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

#include "distributed/call.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace openreg::distributed {

/// Contiguous memory that kernels can access.
struct Bytes {
  void* data = nullptr;
  size_t size = 0;
  at::Tensor owner{};  // kept while Gloo may access the memory
};

Bytes bytes_of(const at::Tensor& contiguous);

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
  using Consume = std::function<void(size_t begin, const std::vector<Bytes>& pieces)>;
  void finish_in_pieces(Exchange& exchange, size_t piece, const Consume& consume);

  /// Moves more data of a finished exchange: sends mine to all other ranks, and receives from[i] from rank i.
  void share(Exchange& exchange, const Bytes& mine, const std::vector<Bytes>& from);

  void send(const Call& call, int peer, int tag, const Bytes& bytes);
  /// Returns the rank of the sender.
  int recv(const Call& call, int peer, int tag, const Bytes& bytes);

  /// Makes the waiting calls throw.
  void abort();
  void keep(std::shared_ptr<void> buffers);

 private:
  class Pending;

  c10::intrusive_ptr<c10d::Backend> gloo_;
  const int rank_;
  const int size_;
  std::mutex mutex_;  // guards the two below
  bool aborted_ = false;
  std::vector<Pending*> waiting_;
  std::vector<std::shared_ptr<void>> kept_;
};

}  // namespace openreg::distributed
