#include "distributed/transport/mailbox.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <linux/futex.h>
#include <new>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace openreg::distributed {
namespace {

// Two exchanges can be in progress, of three entries each: a message and two notices.
constexpr uint64_t kEntries = 8;
// How often a waiting rank looks whether the other one is still there.
constexpr Milliseconds kLookAfter{50};

// Waits until the word is not `seen`, for at most this time.
void wait_while(std::atomic<uint32_t>& word, uint32_t seen, Milliseconds limit) {
  const timespec time{limit.count() / 1000, limit.count() % 1000 * 1'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, &time, nullptr, 0);
}

void wake(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

struct Mailbox::Entry {
  struct Header {
    int32_t tag = 0;
    uint32_t size = 0;
  };
  Header header;
  unsigned char data[sizeof(Message)] = {};
};

/// Entries from one rank. Each side keeps its count of entries to itself, and shows it here.
struct Mailbox::Ring {
  alignas(64) std::atomic<uint64_t> written{0};
  alignas(64) std::atomic<uint64_t> read{0};
  Entry entries[kEntries];
};

/// The memory of an inbox: this header, and a ring for each rank.
struct Mailbox::Inbox {
  PeerMemory::Token token{};                    // of the owner
  alignas(64) std::atomic<uint32_t> signal{0};  // changes with every entry
  std::atomic<uint32_t> sleeping{0};            // 1: the owner waits for `signal`

  static size_t bytes(int ranks) { return sizeof(Inbox) + static_cast<size_t>(ranks) * sizeof(Ring); }
  Ring& ring(int rank) { return reinterpret_cast<Ring*>(this + 1)[rank]; }

  void notify() {
    signal.fetch_add(1, std::memory_order_seq_cst);
    if (sleeping.load(std::memory_order_seq_cst) != 0) wake(signal);
  }
};

class Mailbox::Receive : public c10d::Work {
 public:
  Receive(Mailbox& mailbox, int peer, int tag, const Bytes& bytes)
      : mailbox_(mailbox),
        inbox_(mailbox.own_),
        ring_(inbox_->ring(peer)),
        peer_(peer),
        tag_(tag),
        bytes_(bytes) {}

  /// Returns false if it was aborted.
  bool wait(std::chrono::milliseconds timeout) override {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    while (!arrived()) {
      if (aborted_.load(std::memory_order_seq_cst)) return false;
      const auto left = std::chrono::ceil<Milliseconds>(deadline - std::chrono::steady_clock::now());
      TORCH_CHECK_WITH(DistBackendError, left > Milliseconds(0), "no message");
      if (sleep(std::min(left, kLookAfter))) continue;
      const bool alive = mailbox_.memory_.can_read(peer_);
      TORCH_CHECK_WITH(DistBackendError, alive || arrived(), "it has failed, or its process has ended");
    }
    take();
    return true;
  }

  void abort() override {
    aborted_.store(true, std::memory_order_seq_cst);
    inbox_->notify();
  }

 private:
  uint64_t& read() const { return mailbox_.peers_[static_cast<size_t>(peer_)].read; }
  bool arrived() const { return ring_.written.load(std::memory_order_seq_cst) != read(); }

  /// Returns whether something was signaled.
  bool sleep(Milliseconds limit) {
    const uint32_t seen = inbox_->signal.load(std::memory_order_seq_cst);
    inbox_->sleeping.store(1, std::memory_order_seq_cst);
    // Checked after `sleeping` is set: who writes or aborts later sees it, and wakes this thread.
    if (!arrived() && !aborted_.load(std::memory_order_seq_cst)) wait_while(inbox_->signal, seen, limit);
    inbox_->sleeping.store(0, std::memory_order_seq_cst);
    return inbox_->signal.load(std::memory_order_seq_cst) != seen;
  }

  void take() {
    const Entry& entry = ring_.entries[read() % kEntries];
    Entry::Header header;
    std::memcpy(&header, &entry.header, sizeof(header));
    TORCH_CHECK_WITH(DistBackendError, header.tag == tag_ && header.size == bytes_.size, "it sent ",
                     header.size, " bytes with tag ", header.tag, ", expected ", bytes_.size,
                     " bytes with tag ", tag_);
    std::memcpy(bytes_.data, entry.data, bytes_.size);
    ring_.read.store(++read(), std::memory_order_release);
    mailbox_.received_.fetch_add(1, std::memory_order_relaxed);
  }

  Mailbox& mailbox_;
  const std::shared_ptr<Inbox> inbox_;
  Ring& ring_;
  const int peer_;
  const int tag_;
  const Bytes bytes_;
  std::atomic<bool> aborted_{false};
};

Mailbox::Mailbox(int rank, int size, const PeerMemory& memory)
    : rank_(rank), size_(size), memory_(memory), peers_(static_cast<size_t>(size)) {
  if (memory.own().pid == 0 || size == 1) return;
  const int file = memfd_create("openreg_occl", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) return;
  const bool sized = ftruncate(file, static_cast<off_t>(Inbox::bytes(size))) == 0 &&
                     fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0;
  if (sized) own_ = map(file);
  if (own_ == nullptr) {
    close(file);
    return;
  }
  // A new file is zero, which is what the atomics begin with.
  own_->token = memory.own().token;
  descriptor_ = file;
}

Mailbox::~Mailbox() {
  if (descriptor_ >= 0) close(descriptor_);
}

std::shared_ptr<Mailbox::Inbox> Mailbox::map(int file) const {
  const size_t bytes = Inbox::bytes(size_);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return nullptr;
  return {static_cast<Inbox*>(memory), [bytes](Inbox* inbox) { munmap(inbox, bytes); }};
}

void Mailbox::connect(int peer, int64_t descriptor) {
  std::shared_ptr<Inbox>& inbox = peers_[static_cast<size_t>(peer)].inbox;
  if (inbox != nullptr || descriptor < 0 || descriptor_ < 0 || !memory_.can_read(peer)) return;
  const PeerMemory::Address& address = memory_.address(peer);
  const std::string path = c10::str("/proc/", address.pid, "/fd/", descriptor);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (file < 0) return;
  // An access to a file that has become smaller would end this process.
  struct stat status {};
  const int seals = fcntl(file, F_GET_SEALS);
  if (seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && fstat(file, &status) == 0 &&
      status.st_size == static_cast<off_t>(Inbox::bytes(size_))) {
    inbox = map(file);
  }
  close(file);
  if (inbox != nullptr && inbox->token != address.token) inbox = nullptr;
}

void Mailbox::send(int peer, int tag, const Bytes& bytes) {
  auto& [inbox, written, read, sends, receives] = peers_[static_cast<size_t>(peer)];
  Ring& ring = inbox->ring(rank_);
  const uint64_t unread = written - ring.read.load(std::memory_order_acquire);
  TORCH_CHECK_WITH(DistBackendError, unread < kEntries, "rank ", peer, " has not read the last ", unread,
                   " messages of rank ", rank_);
  Entry& entry = ring.entries[written % kEntries];
  TORCH_INTERNAL_ASSERT(bytes.size <= sizeof(entry.data));
  entry.header = {tag, static_cast<uint32_t>(bytes.size)};
  std::memcpy(entry.data, bytes.data, bytes.size);
  ring.written.store(++written, std::memory_order_seq_cst);
  inbox->notify();
}

c10::intrusive_ptr<c10d::Work> Mailbox::recv(int peer, int tag, const Bytes& bytes) {
  return c10::make_intrusive<Receive>(*this, peer, tag, bytes);
}

}  // namespace openreg::distributed
