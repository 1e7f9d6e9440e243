#include "distributed/transport/transport.h"

#include "distributed/transport/message.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
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
// Point-to-point operations with the tag t of the program: kFirstTag + 2 t, and the next for the data.
constexpr int kFirstTag = 3;
constexpr int kLastUserTag = (INT32_MAX - kFirstTag) / 2 - 1;

using Clock = std::chrono::steady_clock;

at::Tensor as_tensor(const Bytes& bytes) {
  return at::from_blob(
      bytes.data, {static_cast<int64_t>(bytes.size)}, [owner = bytes.owner](void*) {}, at::kByte);
}

template <typename T>
Bytes bytes_of_struct(T& value) {
  return {&value, sizeof(value), {}};
}

// The reason in an exception of Gloo, "[file:line] reason. More text".
std::string reason_of(const std::exception& error) {
  std::string text = error.what();
  text = text.substr(0, text.find('\n'));
  if (const size_t end = text.find("] "); !text.empty() && text[0] == '[' && end != std::string::npos) {
    text = text.substr(end + 2);
  }
  return text.substr(0, text.find(". "));
}

int message_tag(int tag) {
  return kFirstTag + 2 * tag;
}

}  // namespace

void check_tag(int tag) {
  TORCH_CHECK_VALUE(tag >= 0 && tag <= kLastUserTag,
                    "the tag of a point-to-point operation must be from 0 to ", kLastUserTag, ", got ", tag);
}

/// Sends and receives in progress. Destroyed only when all are done, or with the transport.
class Transport::Pending {
 public:
  Pending(Transport& transport, const Call& call)
      : transport_(transport), deadline_(Clock::now() + call.timeout) {
    std::lock_guard lock(transport.mutex_);
    check_not_aborted();
    transport_.waiting_.push_back(this);
  }
  ~Pending() {
    std::lock_guard lock(transport_.mutex_);
    auto& waiting = transport_.waiting_;
    waiting.erase(std::remove(waiting.begin(), waiting.end(), this), waiting.end());
  }
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  void send(int peer, int tag, const Bytes& bytes) {
    add(peer, "send to", bytes,
        [&](std::vector<at::Tensor>& tensors) { return transport_.gloo_->send(tensors, peer, tag); });
  }
  void recv(int peer, int tag, const Bytes& bytes) {
    add(peer, "receive from", bytes, [&](std::vector<at::Tensor>& tensors) {
      return peer == kAnyRank ? transport_.gloo_->recvAnysource(tensors, tag)
                              : transport_.gloo_->recv(tensors, peer, tag);
    });
  }

  size_t count() const { return operations_.size(); }

  /// Waits for the first `end` operations; returns the source of the last one.
  int wait(size_t end = SIZE_MAX) {
    int source = kAnyRank;
    // By index: abort() may read the vector at the same time.
    for (; next_ < std::min(end, operations_.size()); ++next_) {
      Operation& operation = operations_[next_];
      const auto left = std::chrono::duration_cast<Milliseconds>(deadline_ - Clock::now());
      bool completed = false;
      try {
        completed = operation.work->wait(std::max(left, Milliseconds(1)));
      } catch (const std::exception& error) {
        fail(operation, reason_of(error));
      }
      if (!completed) {
        std::lock_guard lock(transport_.mutex_);
        check_not_aborted();
        C10_THROW_ERROR(DistBackendError, describe(operation) + " was interrupted");
      }
      if (operation.peer == kAnyRank) source = operation.work->sourceRank();
    }
    return source;
  }

  /// With the lock of the transport.
  void abort() {
    for (Operation& operation : operations_) operation.work->abort();
  }

 private:
  struct Operation {
    int peer;
    const char* direction;
    c10::intrusive_ptr<c10d::Work> work;
  };

  template <typename Start>
  void add(int peer, const char* direction, const Bytes& bytes, Start start) {
    std::vector<at::Tensor> tensors{as_tensor(bytes)};
    Operation operation{peer, direction, nullptr};
    try {
      operation.work = start(tensors);
    } catch (const std::exception& error) {
      fail(operation, reason_of(error));
    }
    std::lock_guard lock(transport_.mutex_);
    operations_.push_back(std::move(operation));  // also if aborted: Gloo may access its memory
    check_not_aborted();
  }

  void check_not_aborted() const {
    if (transport_.aborted_) C10_THROW_ERROR(DistBackendError, "the group was aborted");
  }

  static std::string describe(const Operation& operation) {
    return operation.peer == kAnyRank ? std::string("to receive from any rank")
                                      : c10::str("to ", operation.direction, " rank ", operation.peer);
  }

  [[noreturn]] void fail(const Operation& operation, const std::string& reason) const {
    if (Clock::now() >= deadline_) {
      C10_THROW_ERROR(DistBackendError,
                      c10::str("timed out while it waited ", describe(operation), " (", reason, ")"));
    }
    C10_THROW_ERROR(DistBackendError, c10::str("could not continue ", describe(operation),
                                               "; that process may have ended (", reason, ")"));
  }

  Transport& transport_;
  const Clock::time_point deadline_;
  std::vector<Operation> operations_;
  size_t next_ = 0;
};

/// A send or a receive in progress.
struct Transport::PointToPoint {
  PointToPoint(Transport& transport, const Call& call) : pending(transport, call) {}
  Message message{};
  Pending pending;
};

Transport::Transport(c10::intrusive_ptr<c10d::Backend> gloo, int rank, int size)
    : gloo_(std::move(gloo)), rank_(rank), size_(size), loopback_(rank) {
  for (auto& set : buffers_) set.resize(static_cast<size_t>(size));
}

Transport::~Transport() = default;

class Transport::Exchange {
 public:
  Exchange(Transport& transport, const Call& call, std::vector<Bytes> to, std::vector<Bytes> from)
      : to(std::move(to)),
        from(std::move(from)),
        mine(this->to.size()),
        theirs(this->to.size()),
        pending(transport, call),
        shared(transport, call) {}

  /// Waits for the messages of the other ranks, and compares them.
  void check(int rank) {
    pending.wait();
    for (size_t peer = 0; peer < to.size(); ++peer) {
      if (static_cast<int>(peer) != rank) check_match(rank, mine[peer], static_cast<int>(peer), theirs[peer]);
    }
  }

  const std::vector<Bytes> to;
  const std::vector<Bytes> from;
  std::vector<Message> mine;  // by receiver
  std::vector<Message> theirs;
  Pending pending;
  Pending shared;
};

std::shared_ptr<Transport::Exchange> Transport::begin(const Call& call, std::vector<Bytes> to,
                                                      std::vector<Bytes> from) {
  auto exchange = std::make_shared<Exchange>(*this, call, std::move(to), std::move(from));
  try {
    for (int peer = 0; peer < size_; ++peer) {
      if (peer != rank_) exchange->pending.recv(peer, kMessageTag, bytes_of_struct(exchange->theirs[peer]));
    }
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      const Bytes& bytes = exchange->to[peer];
      Message& message = exchange->mine[peer];
      message = Message(call, bytes.size, exchange->from[peer].size);
      if (bytes.size <= Message::kInlineBytes) std::memcpy(message.data, bytes.data, bytes.size);
      exchange->pending.send(peer, kMessageTag, bytes_of_struct(message));
    }
  } catch (...) {
    keep(std::move(exchange));
    throw;
  }
  return exchange;
}

void Transport::finish(Exchange& exchange) {
  exchange.check(rank_);
  const auto& [to, from] = std::tie(exchange.to, exchange.from);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) {
      TORCH_INTERNAL_ASSERT(to[peer].size == from[peer].size);
      if (from[peer].data != to[peer].data) std::memcpy(from[peer].data, to[peer].data, to[peer].size);
    } else if (from[peer].size <= Message::kInlineBytes) {
      std::memcpy(from[peer].data, exchange.theirs[peer].data, from[peer].size);
    } else {
      exchange.pending.recv(peer, kDataTag, from[peer]);
    }
  }
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_ && to[peer].size > Message::kInlineBytes)
      exchange.pending.send(peer, kDataTag, to[peer]);
  }
  exchange.pending.wait();
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

void Transport::finish_in_pieces(Exchange& exchange, size_t piece, const Consume& consume,
                                 const std::vector<Bytes>& shared) {
  exchange.check(rank_);
  const auto me = static_cast<size_t>(rank_);
  const size_t mine = exchange.to[me].size;
  size_t largest = 0;
  for (const Bytes& bytes : exchange.to) largest = std::max(largest, bytes.size);
  // Two sets of buffers: one is consumed while the other is filled.
  const std::vector<Bytes> buffers[2] = {piece_buffers(0, std::min(piece, mine)),
                                         piece_buffers(1, mine > piece ? piece : 0)};
  const auto part = [&](const Bytes& bytes, size_t begin) {
    return Bytes{static_cast<char*>(bytes.data) + begin, std::min(piece, bytes.size - begin), bytes.owner};
  };
  std::vector<size_t> ends;  // operations of each piece
  const auto post = [&](size_t begin) {
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      const Bytes& buffer = buffers[begin / piece % 2][peer];
      const Bytes& sent = exchange.to[peer];
      if (begin < mine) {
        exchange.pending.recv(peer, kDataTag, {buffer.data, std::min(piece, mine - begin), buffer.owner});
      }
      if (begin < sent.size) exchange.pending.send(peer, kDataTag, part(sent, begin));
      if (!shared.empty() && begin < shared[peer].size) {
        exchange.shared.recv(peer, kSharedTag, part(shared[peer], begin));
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
    pieces[me] = part(exchange.to[me], begin);
    for (Bytes& bytes : pieces) bytes.size = pieces[me].size;
    consume(begin, pieces);
    for (int peer = 0; peer < size_ && !shared.empty(); ++peer) {
      if (peer != rank_) exchange.shared.send(peer, kSharedTag, part(shared[me], begin));
    }
  }
  exchange.shared.wait();
}

void Transport::send(const Call& call, int peer, int tag, const Bytes& bytes) {
  if (peer == rank_) return loopback_.send(call, tag, bytes);
  auto transfer = std::make_shared<PointToPoint>(*this, call);
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
  auto transfer = std::make_shared<PointToPoint>(*this, call);
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
  loopback_.abort();
  std::lock_guard lock(mutex_);
  aborted_ = true;
  for (Pending* pending : waiting_) pending->abort();
}

void Transport::keep(std::shared_ptr<void> buffers) {
  std::lock_guard lock(mutex_);
  kept_.push_back(std::move(buffers));
}

}  // namespace openreg::distributed
