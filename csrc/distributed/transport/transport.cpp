#include "distributed/transport/transport.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <tuple>

namespace openreg::distributed {
namespace {

// Tags of Gloo. Operations with different tags do not affect each other.
constexpr int kMessageTag = 0;
constexpr int kDataTag = 1;
constexpr int kSharedTag = 2;
constexpr int kReducedTag = 3;  // notices of one byte
constexpr int kReadTag = 4;
// Point-to-point operations with the tag t of the program: kFirstTag + 2 t, and the next for the data.
constexpr int kFirstTag = 5;
constexpr int kLastUserTag = (INT32_MAX - kFirstTag) / 2 - 1;

template <typename T>
Bytes bytes_of_struct(T& value) {
  return {&value, sizeof(value), {}};
}

int message_tag(int tag) {
  return kFirstTag + 2 * tag;
}

}  // namespace

void check_tag(int tag) {
  TORCH_CHECK_VALUE(tag >= 0 && tag <= kLastUserTag,
                    "the tag of a point-to-point operation must be from 0 to ", kLastUserTag, ", got ", tag);
}

/// A send or a receive in progress.
struct Transport::PointToPoint {
  PointToPoint(Connection& connection, const Call& call) : pending(connection, call) {}
  Message message{};
  Pending pending;
};

Transport::Transport(c10::intrusive_ptr<c10d::Backend> gloo, int rank, int size, bool peer_memory)
    : connection_(std::move(gloo)),
      rank_(rank),
      size_(size),
      loopback_(rank),
      peer_memory_(size, peer_memory),
      mailbox_(rank, size, peer_memory_) {
  for (auto& set : buffers_) set.resize(static_cast<size_t>(size));
}

Transport::~Transport() {
  peer_memory_.withdraw();
}

class Transport::Exchange {
 public:
  Exchange(Transport& transport, const Call& call, std::vector<Bytes> to, std::vector<Bytes> from)
      : to(std::move(to)),
        from(std::move(from)),
        mine(this->to.size()),
        theirs(this->to.size()),
        transport_(transport),
        notice_bytes_(3 * this->to.size()),
        pending(transport.connection_, call),
        shared(transport.connection_, call),
        notices(transport.connection_, call) {}

  /// Waits for the messages of the other ranks, and compares them.
  void check() {
    pending.wait();
    for (int peer = 0; peer < transport_.size_; ++peer) {
      if (peer == transport_.rank_) continue;
      check_match(transport_.rank_, mine[peer], peer, theirs[peer]);
      transport_.peer_memory_.set_address(peer, theirs[peer].memory);
      mailbox().connect(peer, theirs[peer].inbox);
      if (theirs[peer].uses_inbox != 0) mailbox().use_for_receives(peer);
    }
  }

  // Note [Reading from peers]
  // Each message says whether its sender can read the memory of its receiver, so both ranks know who moves
  // the data of this exchange. A rank that has read sends a notice, and the other rank keeps the data until
  // then. The first exchange with a peer is over Gloo: its message has the address. A rank that fails
  // withdraws its address before its memory can change, so that the others fail, too.

  /// This rank reads data of `size` bytes from the memory of the peer.
  bool reads(int peer, size_t size) const {
    return mine[peer].reads_receiver != 0 && size > Message::kInlineBytes;
  }
  /// The peer reads data of `size` bytes from the memory of this rank.
  bool is_read_by(int peer, size_t size) const {
    return theirs[peer].reads_receiver != 0 && size > Message::kInlineBytes;
  }

  void read(int peer, uint64_t location, const Bytes& target) {
    transport_.peer_memory_.read(peer, location, target.data, target.size);
  }
  void notify(int peer, int tag) { send_small(notices, peer, tag, notice(0, peer)); }
  void expect(int peer, int tag) { recv_small(notices, peer, tag, notice(tag == kReadTag ? 1 : 2, peer)); }

  void send_message(int peer) {
    mine[peer].inbox = mailbox().descriptor();
    mine[peer].uses_inbox = mailbox().is_connected(peer) ? 1 : 0;
    send_small(pending, peer, kMessageTag, bytes_of_struct(mine[peer]));
    if (mine[peer].uses_inbox != 0) mailbox().use_for_sends(peer);
  }
  void recv_message(int peer) { recv_small(pending, peer, kMessageTag, bytes_of_struct(theirs[peer])); }

  const std::vector<Bytes> to;
  const std::vector<Bytes> from;
  std::vector<Message> mine;  // by receiver
  std::vector<Message> theirs;

 private:
  Mailbox& mailbox() { return transport_.mailbox_; }
  void send_small(Pending& operations, int peer, int tag, const Bytes& bytes) {
    if (mailbox().sends_to(peer)) {
      mailbox().send(peer, tag, bytes);
    } else {
      operations.send(peer, tag, bytes);
    }
  }
  void recv_small(Pending& operations, int peer, int tag, const Bytes& bytes) {
    if (mailbox().receives_from(peer)) {
      operations.recv(peer, mailbox().recv(peer, tag, bytes));
    } else {
      operations.recv(peer, tag, bytes);
    }
  }
  Bytes notice(size_t kind, int peer) {
    return bytes_of_struct(notice_bytes_[kind * to.size() + static_cast<size_t>(peer)]);
  }

  Transport& transport_;
  std::vector<char> notice_bytes_;

 public:  // destroyed before the memory that they access
  Pending pending;
  Pending shared;
  Pending notices;
};

std::shared_ptr<Transport::Exchange> Transport::begin(const Call& call, std::vector<Bytes> to,
                                                      std::vector<Bytes> from) {
  auto exchange = std::make_shared<Exchange>(*this, call, std::move(to), std::move(from));
  try {
    for (int peer = 0; peer < size_; ++peer) {
      if (peer != rank_) exchange->recv_message(peer);
    }
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      const Bytes& bytes = exchange->to[peer];
      Message& message = exchange->mine[peer];
      message = Message(call, bytes.size, exchange->from[peer].size);
      message.memory = peer_memory_.own();
      message.location = reinterpret_cast<uint64_t>(bytes.data);
      message.own_location = reinterpret_cast<uint64_t>(exchange->to[rank_].data);
      const bool large = std::max(bytes.size, exchange->from[peer].size) > Message::kInlineBytes;
      message.reads_receiver = large && peer_memory_.can_read(peer) ? 1 : 0;
      if (bytes.size <= Message::kInlineBytes) std::memcpy(message.data, bytes.data, bytes.size);
      exchange->send_message(peer);
    }
  } catch (...) {
    keep(std::move(exchange));
    throw;
  }
  return exchange;
}

template <typename Body>
void Transport::keep_on_failure(const std::shared_ptr<Exchange>& exchange, Body body) {
  try {
    body(*exchange);
  } catch (...) {
    keep(exchange);
    throw;
  }
}

void Transport::finish(const std::shared_ptr<Exchange>& exchange) {
  keep_on_failure(exchange, [&](Exchange& e) { move_data(e); });
}

void Transport::move_data(Exchange& exchange) {
  exchange.check();
  const auto& [to, from] = std::tie(exchange.to, exchange.from);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) {
      TORCH_INTERNAL_ASSERT(to[peer].size == from[peer].size);
      if (from[peer].data != to[peer].data) std::memcpy(from[peer].data, to[peer].data, to[peer].size);
    } else if (from[peer].size <= Message::kInlineBytes) {
      std::memcpy(from[peer].data, exchange.theirs[peer].data, from[peer].size);
    } else if (!exchange.reads(peer, from[peer].size)) {
      exchange.pending.recv(peer, kDataTag, from[peer]);
    }
  }
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_ || to[peer].size <= Message::kInlineBytes) continue;
    if (exchange.is_read_by(peer, to[peer].size)) {
      exchange.expect(peer, kReadTag);
    } else {
      exchange.pending.send(peer, kDataTag, to[peer]);
    }
  }
  for (int peer : peers()) {
    if (!exchange.reads(peer, from[peer].size)) continue;
    exchange.read(peer, exchange.theirs[peer].location, from[peer]);
    exchange.notify(peer, kReadTag);
  }
  exchange.pending.wait();
  exchange.notices.wait();
}

std::vector<Bytes> Transport::piece_buffers(size_t set, size_t bytes) {
  std::vector<Bytes> result;
  for (size_t peer = 0; peer < static_cast<size_t>(size_); ++peer) {
    at::Tensor& buffer = buffers_[set][peer];
    const bool needed = static_cast<int>(peer) != rank_ && bytes > 0;
    if (needed && (!buffer.defined() || buffer.nbytes() < bytes)) {
      buffer = at::empty({static_cast<int64_t>(bytes)}, at::kByte);
    }
    result.push_back(needed ? bytes_of(buffer) : Bytes{});
  }
  return result;
}

std::vector<int> Transport::peers() const {
  std::vector<int> result;
  for (int next = 1; next < size_; ++next) result.push_back((rank_ + next) % size_);
  return result;
}

void Transport::finish_in_pieces(const std::shared_ptr<Exchange>& exchange, size_t piece,
                                 const Consume& consume, bool share) {
  keep_on_failure(exchange, [&](Exchange& e) { move_pieces(e, piece, consume, share); });
}

void Transport::move_pieces(Exchange& exchange, size_t piece, const Consume& consume, bool share) {
  exchange.check();
  const auto me = static_cast<size_t>(rank_);
  const std::vector<Bytes>& to = exchange.to;
  const size_t mine = to[me].size;
  const size_t reduced_notices = expect_notices(exchange, share);
  size_t largest = 0;
  for (const Bytes& bytes : to) largest = std::max(largest, bytes.size);
  // Two sets of buffers: one is consumed while the other is filled.
  const std::vector<Bytes> buffers[2] = {piece_buffers(0, std::min(piece, mine)),
                                         piece_buffers(1, mine > piece ? piece : 0)};
  const auto part = [&](const Bytes& bytes, size_t begin) {
    return Bytes{static_cast<char*>(bytes.data) + begin, std::min(piece, bytes.size - begin), bytes.owner};
  };
  std::vector<size_t> ends;  // operations of each piece
  const auto post = [&](size_t begin) {
    for (const int peer : peers()) {
      const Bytes& buffer = buffers[begin / piece % 2][peer];
      const Bytes& sent = to[peer];
      if (begin < mine && !exchange.reads(peer, mine)) {
        exchange.pending.recv(peer, kDataTag, {buffer.data, std::min(piece, mine - begin), buffer.owner});
      }
      if (begin < sent.size && !exchange.is_read_by(peer, sent.size)) {
        exchange.pending.send(peer, kDataTag, part(sent, begin));
      }
      if (share && begin < sent.size && !exchange.reads(peer, sent.size)) {
        exchange.shared.recv(peer, kSharedTag, part(sent, begin));
      }
    }
    ends.push_back(exchange.pending.count());
  };
  post(0);
  for (size_t begin = 0; begin < largest; begin += piece) {
    exchange.pending.wait(ends[begin / piece]);
    if (begin + piece < largest) post(begin + piece);
    if (begin >= mine) continue;
    std::vector<Bytes> pieces = buffers[begin / piece % 2];
    pieces[me] = part(to[me], begin);
    for (Bytes& bytes : pieces) bytes.size = pieces[me].size;
    for (const int peer : peers()) {
      if (exchange.reads(peer, mine)) {
        exchange.read(peer, exchange.theirs[peer].location + begin, pieces[peer]);
      }
    }
    consume(begin, pieces);
    for (const int peer : peers()) {
      if (!share || exchange.is_read_by(peer, mine)) continue;
      exchange.shared.send(peer, kSharedTag, part(to[me], begin));
    }
  }
  finish_reading(exchange, share, reduced_notices);
}

// Returns the number of notices of kReducedTag, which are the first ones.
size_t Transport::expect_notices(Exchange& exchange, bool share) const {
  const size_t mine = exchange.to[static_cast<size_t>(rank_)].size;
  for (const int peer : peers()) {
    if (share && exchange.reads(peer, exchange.to[peer].size)) exchange.expect(peer, kReducedTag);
  }
  const size_t reduced = exchange.notices.count();
  for (const int peer : peers()) {
    if (exchange.is_read_by(peer, exchange.to[peer].size) || (share && exchange.is_read_by(peer, mine))) {
      exchange.expect(peer, kReadTag);
    }
  }
  return reduced;
}

// A rank that has consumed all pieces does not read to[rank()] of the others any more, so they may replace
// it.
void Transport::finish_reading(Exchange& exchange, bool share, size_t reduced_notices) {
  const size_t mine = exchange.to[static_cast<size_t>(rank_)].size;
  for (const int peer : peers()) {
    if (share && exchange.is_read_by(peer, mine)) exchange.notify(peer, kReducedTag);
  }
  exchange.notices.wait(reduced_notices);
  for (const int peer : peers()) {
    const Bytes& theirs = exchange.to[peer];
    const bool reads_shared = share && exchange.reads(peer, theirs.size);
    if (reads_shared) exchange.read(peer, exchange.theirs[peer].own_location, theirs);
    if (reads_shared || exchange.reads(peer, mine)) exchange.notify(peer, kReadTag);
  }
  exchange.shared.wait();
  exchange.notices.wait();
}

void Transport::send(const Call& call, int peer, int tag, const Bytes& bytes) {
  if (peer == rank_) return loopback_.send(call, tag, bytes);
  auto transfer = std::make_shared<PointToPoint>(connection_, call);
  try {
    auto& [message, pending] = *transfer;
    message = Message(call, bytes.size, 0);
    if (bytes.size <= Message::kInlineBytes) std::memcpy(message.data, bytes.data, bytes.size);
    pending.send(peer, message_tag(tag), bytes_of_struct(message));
    if (bytes.size > Message::kInlineBytes) pending.send(peer, message_tag(tag) + 1, bytes);
    pending.wait();
  } catch (...) {
    keep(std::move(transfer));
    throw;
  }
}

int Transport::recv(const Call& call, int peer, int tag, const Bytes& bytes) {
  if (peer == rank_) {
    loopback_.recv(call, tag, bytes);
    return rank_;
  }
  auto transfer = std::make_shared<PointToPoint>(connection_, call);
  try {
    auto& [message, pending] = *transfer;
    pending.recv(peer, message_tag(tag), bytes_of_struct(message));
    const int any = pending.wait();
    const int source = peer == kAnyRank ? any : peer;
    check_received(call, rank_, bytes.size, source, message);
    if (bytes.size <= Message::kInlineBytes) {
      std::memcpy(bytes.data, message.data, bytes.size);
    } else {
      pending.recv(source, message_tag(tag) + 1, bytes);
      pending.wait();
    }
    return source;
  } catch (...) {
    keep(std::move(transfer));
    throw;
  }
}

void Transport::abort() {
  peer_memory_.withdraw();
  loopback_.abort();
  connection_.abort();
}

void Transport::keep(std::shared_ptr<void> buffers) {
  peer_memory_.withdraw();
  connection_.keep(std::move(buffers));
}

}  // namespace openreg::distributed
