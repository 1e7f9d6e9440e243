#include "distributed/transport.h"

#include "distributed/message.h"

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
// Point-to-point operations with the tag t of the program: kFirstTag + 2 t, and the next for the data.
constexpr int kFirstTag = 2;
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

Bytes bytes_of(const at::Tensor& contiguous) {
  return {const_cast<void*>(contiguous.const_data_ptr()), contiguous.nbytes(), contiguous};
}

/// Sends and receives in progress. Destroyed only when all are done, or with the transport.
class Transport::Pending {
 public:
  Pending(Transport& transport, const Call& call)
      : transport_(transport), deadline_(Clock::now() + call.timeout), messages_(transport.size()) {
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
      const size_t i = next_;
      Operation& operation = operations_[i];
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

  struct Messages {
    explicit Messages(int size) : mine(static_cast<size_t>(size)), theirs(static_cast<size_t>(size)) {}
    std::vector<Message> mine;
    std::vector<Message> theirs;
  };
  Messages& messages() { return messages_; }

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
    check_not_aborted();
    operations_.push_back(std::move(operation));
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
  Messages messages_;
  std::vector<Operation> operations_;
  size_t next_ = 0;
};

Transport::Transport(c10::intrusive_ptr<c10d::Backend> gloo, int rank, int size)
    : gloo_(std::move(gloo)), rank_(rank), size_(size) {}

Transport::~Transport() = default;

class Transport::Exchange {
 public:
  Exchange(Transport& transport, const Call& call, std::vector<Bytes> to, std::vector<Bytes> from)
      : to(std::move(to)), from(std::move(from)), pending(transport, call) {}

  /// Waits for the messages of the other ranks, and compares them.
  void check(int rank) {
    pending.wait();
    const auto& [mine, theirs] = pending.messages();
    for (size_t peer = 0; peer < to.size(); ++peer) {
      if (static_cast<int>(peer) != rank) check_match(rank, mine[peer], static_cast<int>(peer), theirs[peer]);
    }
  }

  const std::vector<Bytes> to;
  const std::vector<Bytes> from;
  Pending pending;
};

std::shared_ptr<Transport::Exchange> Transport::begin(const Call& call, std::vector<Bytes> to,
                                                      std::vector<Bytes> from) {
  auto exchange = std::make_shared<Exchange>(*this, call, std::move(to), std::move(from));
  try {
    auto& [mine, theirs] = exchange->pending.messages();
    for (int peer = 0; peer < size_; ++peer) {
      if (peer != rank_) exchange->pending.recv(peer, kMessageTag, bytes_of_struct(theirs[peer]));
    }
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      const Bytes& bytes = exchange->to[peer];
      mine[peer] = Message(call, bytes.size, exchange->from[peer].size);
      if (bytes.size <= Message::kInlineBytes) std::memcpy(mine[peer].data, bytes.data, bytes.size);
      exchange->pending.send(peer, kMessageTag, bytes_of_struct(mine[peer]));
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
      std::memcpy(from[peer].data, exchange.pending.messages().theirs[peer].data, from[peer].size);
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

void Transport::finish_in_pieces(Exchange& exchange, size_t piece, const Consume& consume) {
  exchange.check(rank_);
  const size_t mine = exchange.to[static_cast<size_t>(rank_)].size;
  size_t largest = 0;
  for (const Bytes& bytes : exchange.to) largest = std::max(largest, bytes.size);
  // Two sets of buffers: one is consumed while the other is filled.
  std::vector<Bytes> buffers[2];
  for (std::vector<Bytes>& set : buffers) {
    for (int peer = 0; peer < size_; ++peer) {
      set.push_back(peer == rank_ ? Bytes{} : bytes_of(at::empty({static_cast<int64_t>(piece)}, at::kByte)));
    }
  }
  const auto part = [&](const Bytes& bytes, size_t begin) {
    return Bytes{static_cast<char*>(bytes.data) + begin, std::min(piece, bytes.size - begin), bytes.owner};
  };
  std::vector<size_t> ends;  // operations of each piece
  const auto post = [&](size_t begin) {
    for (size_t peer = 0; peer < exchange.to.size(); ++peer) {
      if (static_cast<int>(peer) == rank_) continue;
      const Bytes& buffer = buffers[begin / piece % 2][peer];
      const Bytes& sent = exchange.to[peer];
      if (begin < mine) {
        exchange.pending.recv(static_cast<int>(peer), kDataTag,
                              {buffer.data, std::min(piece, mine - begin), buffer.owner});
      }
      if (begin < sent.size) exchange.pending.send(static_cast<int>(peer), kDataTag, part(sent, begin));
    }
    ends.push_back(exchange.pending.count());
  };
  post(0);
  for (size_t begin = 0; begin < largest; begin += piece) {
    exchange.pending.wait(ends[begin / piece]);
    if (begin + piece < largest) post(begin + piece);
    if (begin >= mine) continue;
    std::vector<Bytes> pieces = buffers[begin / piece % 2];
    pieces[static_cast<size_t>(rank_)] = part(exchange.to[static_cast<size_t>(rank_)], begin);
    for (Bytes& bytes : pieces) bytes.size = std::min(piece, mine - begin);
    consume(begin, pieces);
  }
}

void Transport::share(Exchange& exchange, const Bytes& mine, const std::vector<Bytes>& from) {
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_ && from[peer].size > 0) exchange.pending.recv(peer, kDataTag, from[peer]);
  }
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_ && mine.size > 0) exchange.pending.send(peer, kDataTag, mine);
  }
  exchange.pending.wait();
}

void Transport::send(const Call& call, int peer, int tag, const Bytes& bytes) {
  auto pending = std::make_shared<Pending>(*this, call);
  try {
    Message& message = pending->messages().mine[static_cast<size_t>(peer)];
    message = Message(call, bytes.size, 0);
    if (bytes.size <= Message::kInlineBytes) std::memcpy(message.data, bytes.data, bytes.size);
    pending->send(peer, message_tag(tag), bytes_of_struct(message));
    if (bytes.size > Message::kInlineBytes) pending->send(peer, message_tag(tag) + 1, bytes);
    pending->wait();
  } catch (...) {
    keep(std::move(pending));
    throw;
  }
}

int Transport::recv(const Call& call, int peer, int tag, const Bytes& bytes) {
  auto pending = std::make_shared<Pending>(*this, call);
  try {
    Message& message = pending->messages().theirs[0];
    pending->recv(peer, message_tag(tag), bytes_of_struct(message));
    const int any = pending->wait();
    const int source = peer == kAnyRank ? any : peer;
    TORCH_CHECK_WITH(DistBackendError, message.magic == Message::kMagic, "rank ", source,
                     " sent a message that is not of occl");
    TORCH_CHECK_WITH(DistBackendError, message.bytes_to_receiver == bytes.size && message.dtype == call.dtype,
                     "rank ", rank_, " called ", to_string(call), ", which has ", bytes.size,
                     " bytes, but rank ", source, " sent ", message.bytes_to_receiver, " bytes of ",
                     std::string(message.tensors, strnlen(message.tensors, sizeof(message.tensors))), " at ",
                     std::string(message.site, strnlen(message.site, sizeof(message.site))));
    if (bytes.size <= Message::kInlineBytes) {
      std::memcpy(bytes.data, message.data, bytes.size);
    } else {
      pending->recv(source, message_tag(tag) + 1, bytes);
      pending->wait();
    }
    return source;
  } catch (...) {
    keep(std::move(pending));
    throw;
  }
}

void Transport::abort() {
  std::lock_guard lock(mutex_);
  aborted_ = true;
  for (Pending* pending : waiting_) pending->abort();
}

void Transport::keep(std::shared_ptr<void> buffers) {
  std::lock_guard lock(mutex_);
  kept_.push_back(std::move(buffers));
}

}  // namespace openreg::distributed
