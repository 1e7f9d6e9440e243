// Messages between ranks on the same machine through shared memory, as NCCL's SHM transport.
//
// Gloo passes a message of 1 KiB through two threads and several system calls; here it is a copy, and a
// system call only if the receiver sleeps.
//
// Note [Mailboxes]
// Each rank has an inbox: a memory file with a ring of entries for every other rank. Another rank opens it
// through /proc, so it needs the permission to do so, as for reading memory; without it, messages stay with
// Gloo. The ranks agree by their messages. The first message of a rank, over Gloo, has the descriptor of its
// inbox. A rank that has opened the inbox says so in its next message, and from then on sends everything
// small there. Each direction does this on its own.
//
// Entries are read in the order in which they were sent, so the receiver waits for them in this order. Other
// processes can write to an inbox at any time: an entry is copied once, and the copy is checked.
//
// Thread safety: one exchange at a time, as Transport; Work::abort() from any thread.
#pragma once

#include "distributed/transport/bytes.h"
#include "distributed/transport/message.h"
#include "distributed/transport/peer_memory.h"

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace openreg::distributed {

class Mailbox {
 public:
  /// Without an inbox if `memory` must not be read, or if the system has no memory files.
  Mailbox(int rank, int size, const PeerMemory& memory);
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  /// The file descriptor of the inbox of this rank; -1: none.
  int descriptor() const { return descriptor_; }

  /// Opens the inbox of a rank, unless it is open. The peer memory must have the address of the rank.
  void connect(int peer, int64_t descriptor);
  bool is_connected(int peer) const { return peers_[static_cast<size_t>(peer)].inbox != nullptr; }

  /// The rank was told that this one sends to its inbox from now on.
  void use_for_sends(int peer) { peers_[static_cast<size_t>(peer)].sends = true; }
  bool sends_to(int peer) const { return peers_[static_cast<size_t>(peer)].sends; }
  /// The rank has said so.
  void use_for_receives(int peer) { peers_[static_cast<size_t>(peer)].receives = descriptor_ >= 0; }
  bool receives_from(int peer) const { return peers_[static_cast<size_t>(peer)].receives; }

  /// Does not wait. Throws DistBackendError if the rank has not read the last entries.
  void send(int peer, int tag, const Bytes& bytes);
  /// A receive of the next entry from the rank. Its wait() must be called in the order of the receives. It
  /// throws if the entry has another tag or size, or if the rank has failed.
  c10::intrusive_ptr<c10d::Work> recv(int peer, int tag, const Bytes& bytes);

  /// The number of entries received.
  uint64_t received() const { return received_.load(std::memory_order_relaxed); }

 private:
  struct Entry;
  struct Ring;
  struct Inbox;
  class Receive;
  struct Peer {
    std::shared_ptr<Inbox> inbox;  // of the peer
    uint64_t written = 0;          // entries to the peer
    uint64_t read = 0;             // entries from the peer
    bool sends = false;
    bool receives = false;
  };

  /// Maps the inbox in a file; nullptr if that fails.
  std::shared_ptr<Inbox> map(int file) const;

  const int rank_;
  const int size_;
  const PeerMemory& memory_;
  int descriptor_ = -1;
  std::shared_ptr<Inbox> own_;
  std::vector<Peer> peers_;
  std::atomic<uint64_t> received_{0};
};

}  // namespace openreg::distributed
