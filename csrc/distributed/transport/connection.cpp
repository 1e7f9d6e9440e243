#include "distributed/transport/connection.h"

#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>

#include <algorithm>

namespace openreg::distributed {
namespace {

constexpr const char* kSend = "send to";
constexpr const char* kReceive = "receive from";

at::Tensor as_tensor(const Bytes& bytes) {
  return at::from_blob(
      bytes.data, {static_cast<int64_t>(bytes.size)}, [owner = bytes.owner](void*) {}, at::kByte);
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

}  // namespace

void Connection::abort() {
  std::lock_guard lock(mutex_);
  aborted_ = true;
  for (Pending* pending : waiting_) {
    for (Pending::Operation& operation : pending->operations_) operation.work->abort();
  }
}

void Connection::keep(std::shared_ptr<void> buffers) {
  std::lock_guard lock(mutex_);
  kept_.push_back(std::move(buffers));
}

void Connection::check_not_aborted() const {
  if (aborted_) C10_THROW_ERROR(DistBackendError, "the group was aborted");
}

Pending::Pending(Connection& connection, const Call& call)
    : connection_(connection), deadline_(Clock::now() + call.timeout) {
  std::lock_guard lock(connection.mutex_);
  connection_.check_not_aborted();
  connection_.waiting_.push_back(this);
}

Pending::~Pending() {
  std::lock_guard lock(connection_.mutex_);
  auto& waiting = connection_.waiting_;
  waiting.erase(std::remove(waiting.begin(), waiting.end(), this), waiting.end());
}

void Pending::send(int peer, int tag, const Bytes& bytes) {
  add(peer, kSend, bytes,
      [&](std::vector<at::Tensor>& tensors) { return connection_.gloo_->send(tensors, peer, tag); });
}

void Pending::recv(int peer, int tag, const Bytes& bytes) {
  add(peer, kReceive, bytes, [&](std::vector<at::Tensor>& tensors) {
    return peer == kAnyRank ? connection_.gloo_->recvAnysource(tensors, tag)
                            : connection_.gloo_->recv(tensors, peer, tag);
  });
}

void Pending::recv(int peer, c10::intrusive_ptr<c10d::Work> work) {
  std::lock_guard lock(connection_.mutex_);
  connection_.check_not_aborted();
  operations_.push_back({peer, kReceive, std::move(work)});
}

int Pending::wait(size_t end) {
  int source = kAnyRank;
  // By index: abort() may read the vector at the same time.
  for (; next_ < std::min(end, operations_.size()); ++next_) {
    Operation& operation = operations_[next_];
    const auto left = std::chrono::ceil<Milliseconds>(deadline_ - Clock::now());
    bool completed = false;
    try {
      completed = operation.work->wait(std::max(left, Milliseconds(1)));
    } catch (const std::exception& error) {
      fail(operation, reason_of(error));
    }
    if (!completed) {
      std::lock_guard lock(connection_.mutex_);
      connection_.check_not_aborted();
      C10_THROW_ERROR(DistBackendError, describe(operation) + " was interrupted");
    }
    if (operation.peer == kAnyRank) source = operation.work->sourceRank();
  }
  return source;
}

template <typename Start>
void Pending::add(int peer, const char* direction, const Bytes& bytes, Start start) {
  std::vector<at::Tensor> tensors{as_tensor(bytes)};
  Operation operation{peer, direction, nullptr};
  try {
    operation.work = start(tensors);
  } catch (const std::exception& error) {
    fail(operation, reason_of(error));
  }
  std::lock_guard lock(connection_.mutex_);
  operations_.push_back(std::move(operation));  // also if aborted: Gloo may access its memory
  connection_.check_not_aborted();
}

std::string Pending::describe(const Operation& operation) {
  return operation.peer == kAnyRank ? std::string("to receive from any rank")
                                    : c10::str("to ", operation.direction, " rank ", operation.peer);
}

void Pending::fail(const Operation& operation, const std::string& reason) const {
  if (Clock::now() >= deadline_) {
    C10_THROW_ERROR(DistBackendError,
                    c10::str("timed out while it waited ", describe(operation), " (", reason, ")"));
  }
  C10_THROW_ERROR(DistBackendError, c10::str("could not continue ", describe(operation),
                                             "; that process may have ended (", reason, ")"));
}

}  // namespace openreg::distributed
