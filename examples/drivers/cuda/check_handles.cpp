// Checks the handles that processes share, without a GPU. Not part of the driver. Exit code 0: as expected.
#include "handles.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using nv::SharedEntry;
using Bytes = unsigned char[nv::kHandleSize];

// In memory that the processes share.
Bytes* sent;

#define CHECK(condition)                                                  \
  do {                                                                    \
    if (condition) break;                                                 \
    std::fprintf(stderr, "line %d: %s is false\n", __LINE__, #condition); \
    std::_Exit(1);                                                        \
  } while (false)

// Another process that opens handles. It is forked before the parent creates one.
class Peer {
 public:
  explicit Peer(const std::function<void(Peer&)>& body) {
    CHECK(pipe(to_child_) == 0 && pipe(to_parent_) == 0);
    pid_ = fork();
    if (pid_ != 0) return;
    body(*this);
    std::_Exit(0);
  }
  void tell(int file) {
    const char byte = 1;
    CHECK(write(file, &byte, 1) == 1);
  }
  void hear(int file) {
    char byte;
    CHECK(read(file, &byte, 1) == 1);
  }
  // Of the parent: lets the child run to its next step, and waits for it.
  void step() {
    tell(to_child_[1]);
    hear(to_parent_[0]);
  }
  void kill_it() {
    kill(pid_, SIGKILL);
    CHECK(waitpid(pid_, nullptr, 0) == pid_);
  }
  void end() {
    int status = 0;
    tell(to_child_[1]);
    CHECK(waitpid(pid_, &status, 0) == pid_ && status == 0);
  }
  // Of the child.
  void begin() { hear(to_child_[0]); }
  void done() { tell(to_parent_[1]); }
  void next() {
    done();
    begin();
  }

 private:
  int to_child_[2], to_parent_[2];
  pid_t pid_;
};

void opens_twice(Peer& peer) {
  Bytes forged;
  SharedEntry entry;
  nv::OpenEntry first, second;
  peer.begin();
  Bytes& bytes = *sent;
  for (size_t i = 0; i < sizeof(bytes); ++i) {
    std::memcpy(forged, bytes, sizeof(bytes));
    forged[i] ^= 0x40;
    CHECK(nv::open_handle(forged, SharedEntry::kMemory, entry, first) == orErrorInvalidHandle);
  }
  CHECK(nv::open_handle(bytes, SharedEntry::kEvent, entry, first) == orErrorInvalidHandle);
  CHECK(nv::open_handle(bytes, SharedEntry::kMemory, entry, first) == orSuccess);
  CHECK(nv::open_handle(bytes, SharedEntry::kMemory, entry, second) == orSuccess);
  CHECK(entry.offset == 256 && entry.size == 512 && entry.base_size == 1024 && entry.native[63] == 7);
  nv::close_handle(first);
  peer.next();  // still open once
  nv::set_mark(second, true);
  peer.next();  // marked
  nv::set_mark(second, false);
  CHECK(nv::is_marked_elsewhere(second));  // by the owner
  nv::close_handle(second);
  peer.next();  // closed, and retired by the owner
  CHECK(nv::open_handle(bytes, SharedEntry::kMemory, entry, first) == orErrorInvalidHandle);
}

void keeps_open(Peer& peer) {
  SharedEntry entry;
  nv::OpenEntry open;
  peer.begin();
  CHECK(nv::open_handle(*sent, SharedEntry::kMemory, entry, open) == orSuccess);
  nv::set_mark(open, true);
  peer.next();
}

}  // namespace

int main() {
  sent = static_cast<Bytes*>(
      mmap(nullptr, sizeof(Bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  CHECK(sent != MAP_FAILED);
  Peer twice(&opens_twice), killed(&keeps_open);
  SharedEntry shared{SharedEntry::kMemory, 0, 256, 512, 1024, {}};
  shared.native[63] = 7;
  nv::OpenEntry own, other;
  CHECK(nv::create_handle(shared, *sent, own) == orSuccess && nv::own_handle(*sent) == own.index);
  CHECK(!nv::was_opened(own.index) && !nv::is_open(own.index));
  CHECK(nv::open_handle(*sent, SharedEntry::kMemory, shared, other) == orErrorNotPermitted);

  twice.step();
  CHECK(nv::was_opened(own.index) && nv::is_open(own.index) && !nv::remove_handle(own.index, false));
  CHECK(!nv::is_marked_elsewhere(own));
  nv::set_mark(own, true);
  twice.step();
  CHECK(nv::is_marked_elsewhere(own));
  twice.step();
  CHECK(!nv::is_marked_elsewhere(own) && !nv::is_open(own.index));

  killed.step();
  CHECK(nv::is_open(own.index) && nv::is_marked_elsewhere(own));
  killed.kill_it();
  CHECK(!nv::is_open(own.index) && !nv::is_marked_elsewhere(own));

  CHECK(nv::remove_handle(own.index, false) && nv::own_handle(*sent) == 0);
  twice.end();
  return 0;
}
