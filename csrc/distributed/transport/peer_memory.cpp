#include "distributed/transport/peer_memory.h"

#include "common/setting.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <string>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

namespace openreg::distributed {
namespace {

// The kernel copies at most 2 GiB per call.
constexpr size_t kLargestRead = size_t{1} << 30;

using StoredToken = std::array<std::atomic<uint64_t>, 2>;
static_assert(sizeof(StoredToken) == sizeof(PeerMemory::Token));

// Returns 0 or an error number.
int read_process(int64_t pid, uint64_t location, void* to, size_t size) {
  auto* target = static_cast<char*>(to);
  while (size > 0) {
    const size_t part = std::min(size, kLargestRead);
    const iovec local{target, part};
    const iovec remote{reinterpret_cast<void*>(location), part};  // NOLINT(performance-no-int-to-ptr)
    const ssize_t copied = process_vm_readv(static_cast<pid_t>(pid), &local, 1, &remote, 1, 0);
    if (copied < 0) return errno;
    if (copied == 0) return EFAULT;
    target += copied;
    location += static_cast<uint64_t>(copied);
    size -= static_cast<size_t>(copied);
  }
  return 0;
}

bool has_token(const PeerMemory::Address& address) {
  PeerMemory::Token token{};
  return read_process(address.pid, address.location, &token, sizeof(token)) == 0 && token == address.token;
}

}  // namespace

PeerMemory::PeerMemory(int size, bool enabled) : peers_(static_cast<size_t>(size)) {
  if (!enabled) return;
  // Where the Yama module is active, only ancestors may read a process unless it allows others. Without it,
  // this call fails and is not needed.
  static_cast<void>(prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0));
  std::random_device source;
  const auto draw = [&] { return (uint64_t{source()} << 32) | source(); };
  own_.pid = getpid();
  own_.token = {draw(), draw()};
  // Leaked: other ranks may read it after the end of the group.
  auto* stored = new StoredToken;
  for (size_t i = 0; i < stored->size(); ++i) (*stored)[i] = own_.token[i];
  own_.location = reinterpret_cast<uint64_t>(stored);
}

void PeerMemory::withdraw() {
  if (own_.pid == 0) return;
  auto* stored = reinterpret_cast<StoredToken*>(own_.location);  // NOLINT(performance-no-int-to-ptr)
  for (std::atomic<uint64_t>& word : *stored) word = 0;
  std::atomic_thread_fence(std::memory_order_seq_cst);  // before any later write to the memory
}

void PeerMemory::set_address(int peer, const Address& address) {
  peers_[static_cast<size_t>(peer)] = address;
}

bool PeerMemory::can_read(int peer) const {
  const Address& address = peers_[static_cast<size_t>(peer)];
  return own_.pid != 0 && address.pid > 0 && has_token(address);
}

void PeerMemory::read(int peer, uint64_t location, void* to, size_t size) {
  const Address& address = peers_[static_cast<size_t>(peer)];
  const int error = read_process(address.pid, location, to, size);
  if (error == 0 && has_token(address)) {
    bytes_read_.fetch_add(size, std::memory_order_relaxed);
    return;
  }
  std::string why = error == 0 || error == ESRCH ? "; it has failed, or its process has ended"
                                                 : c10::str(" (", std::strerror(error), ")");
  if (error == EPERM) why += "; " + setting_name("P2P_DISABLE") + "=1 moves all data over Gloo";
  C10_THROW_ERROR(DistBackendError, c10::str("could not read the memory of rank ", peer, why));
}

}  // namespace openreg::distributed
