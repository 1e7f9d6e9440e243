#include "distributed/transport/loopback.h"

#include <c10/util/Exception.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <cstring>

namespace openreg::distributed {

template <typename Ready>
void Loopback::wait(std::unique_lock<std::mutex>& lock, const Call& call, const char* direction,
                    Ready ready) {
  const bool in_time = changed_.wait_for(lock, call.timeout, [&] { return aborted_ || ready(); });
  TORCH_CHECK_WITH(DistBackendError, !aborted_, "the group was aborted");
  TORCH_CHECK_WITH(DistBackendError, in_time, "timed out while it waited to ", direction, " rank ", rank_);
}

void Loopback::send(const Call& call, int tag, const Bytes& bytes) {
  const Message message(call, bytes.size, 0);
  Sent sent{tag, message, bytes};
  std::unique_lock lock(mutex_);
  sent_.push_back(&sent);
  const auto remove = c10::make_scope_exit([&] { sent_.remove(&sent); });
  changed_.notify_all();
  wait(lock, call, "send to", [&] { return sent.received; });
}

void Loopback::recv(const Call& call, int tag, const Bytes& bytes) {
  std::unique_lock lock(mutex_);
  Sent* sent = nullptr;
  wait(lock, call, "receive from", [&] {
    const auto found = std::find_if(sent_.begin(), sent_.end(),
                                    [&](const Sent* one) { return one->tag == tag && !one->received; });
    sent = found == sent_.end() ? nullptr : *found;
    return sent != nullptr;
  });
  sent->received = true;
  changed_.notify_all();
  check_received(call, rank_, bytes.size, rank_, sent->message);
  // With the lock: the sender cannot return before.
  std::memcpy(bytes.data, sent->bytes.data, bytes.size);
}

void Loopback::abort() {
  std::lock_guard lock(mutex_);
  aborted_ = true;
  changed_.notify_all();
}

}  // namespace openreg::distributed
