#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "platform.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace openreg::sim::platform {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

bool reserve(size_t size, void** base) {
  *base = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return *base != MAP_FAILED;
}

int create_memory(const char* name, size_t size) {
  const int memory = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memory < 0) return -1;
  if (ftruncate(memory, static_cast<off_t>(size)) == 0 && fcntl(memory, F_ADD_SEALS, kSeals) == 0)
    return memory;
  const int reason = errno;
  close(memory);
  errno = reason;
  return -1;
}

void close_memory(int memory) {
  close(memory);
}

bool map_memory(int memory, size_t offset, void* address, size_t size) {
  if (mmap(address, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, memory,
           static_cast<off_t>(offset)) == MAP_FAILED) {
    return false;
  }
  // The mapping is shared: a forked child that inherited it could write to the device of its parent.
  if (madvise(address, size, MADV_DONTFORK) != 0) return false;
  static_cast<void>(madvise(address, size, MADV_HUGEPAGE));
  return true;
}

bool unmap_memory(void* address, size_t size) {
  return mmap(address, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) !=
         MAP_FAILED;
}

void discard(int memory, size_t offset, size_t size) {
  static_cast<void>(fallocate(memory, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                              static_cast<off_t>(size)));
}

size_t page_size() {
  return static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

void* allocate_pages(size_t size) {
  void* pages = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return pages == MAP_FAILED ? nullptr : pages;
}

void free_pages(void* pages, size_t size) {
  munmap(pages, size);
}

void block_signals() {
  sigset_t signals;
  sigfillset(&signals);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&signals, fault);
  pthread_sigmask(SIG_SETMASK, &signals, nullptr);
}

void sleep_precisely() {
  static_cast<void>(prctl(PR_SET_TIMERSLACK, 1UL));
}

int hardware_threads() {
  return static_cast<int>(std::thread::hardware_concurrency());
}

int process_id() {
  return static_cast<int>(getpid());
}

bool random_bytes(void* bytes, size_t size) {
  return getrandom(bytes, size, 0) == static_cast<ssize_t>(size);
}

bool identify(int memory, uint64_t* inode, uint64_t* size) {
  struct stat status {};
  if (fstat(memory, &status) != 0) return false;
  *inode = status.st_ino;
  *size = static_cast<uint64_t>(status.st_size);
  return true;
}

Opened open_memory_of(int process, int memory, const char* name, int* opened) {
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/%d", process);
  if (access(path, F_OK) != 0) return Opened::kNoProcess;
  std::snprintf(path, sizeof(path), "/proc/%d/fd/%d", process, memory);
  // The descriptor may refer to another file by now, and opening a pipe or a terminal has side effects. Check
  // the target first.
  char target[128];
  const ssize_t length = readlink(path, target, sizeof(target) - 1);
  if (length < 0) {
    return errno == EACCES || errno == EPERM ? Opened::kNotAllowed : Opened::kNotOurs;
  }
  target[length] = '\0';
  char expected[128];
  const int wanted = std::snprintf(expected, sizeof(expected), "/memfd:%s", name);
  if (std::strncmp(target, expected, static_cast<size_t>(wanted)) != 0) return Opened::kNotOurs;
  const int file = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    return errno == EACCES || errno == EPERM ? Opened::kNotAllowed
           : errno == ENOENT                 ? Opened::kNotOurs
                                             : Opened::kFailed;
  }
  const int seals = fcntl(file, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) {
    close(file);
    return Opened::kNotOurs;
  }
  *opened = file;
  return Opened::kYes;
}

void* map_anywhere(int memory, size_t size) {
  void* address = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory, 0);
  if (address == MAP_FAILED) return nullptr;
  if (madvise(address, size, MADV_DONTFORK) == 0) return address;
  munmap(address, size);
  return nullptr;
}

void unmap_anywhere(void* address, size_t size) {
  munmap(address, size);
}

namespace {

struct flock one_byte(short type, uint64_t byte) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(byte);
  lock.l_len = 1;
  return lock;
}

}  // namespace

bool lock_byte(int memory, uint64_t byte, bool shared) {
  struct flock lock = one_byte(shared ? F_RDLCK : F_WRLCK, byte);
  return fcntl(memory, F_OFD_SETLK, &lock) == 0;
}

void unlock_byte(int memory, uint64_t byte) {
  struct flock lock = one_byte(F_UNLCK, byte);
  static_cast<void>(fcntl(memory, F_OFD_SETLK, &lock));
}

bool is_locked(int memory, uint64_t byte) {
  struct flock lock = one_byte(F_WRLCK, byte);
  return fcntl(memory, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

void sleep_on(const WatchedWord* words, int count, int64_t nanoseconds) {
  struct {  // struct futex_waitv of newer headers
    uint64_t value, address;
    uint32_t flags, reserved;
  } waiters[kMaxWatched] = {};
  count = std::min(count, kMaxWatched);
  for (int index = 0; index < count; ++index) {
    constexpr uint32_t kFutex2SizeU32 = 2;
    waiters[index].value = words[index].was;
    waiters[index].address = reinterpret_cast<uint64_t>(words[index].word);
    waiters[index].flags = kFutex2SizeU32;
  }
  timespec until{};
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += nanoseconds / 1'000'000'000;
  until.tv_nsec += nanoseconds % 1'000'000'000;
  if (until.tv_nsec >= 1'000'000'000) {
    until.tv_nsec -= 1'000'000'000;
    ++until.tv_sec;
  }
  constexpr long kFutexWaitv = 449;
  if (syscall(kFutexWaitv, waiters, count, 0, &until, CLOCK_MONOTONIC) >= 0) return;
  if (errno == EAGAIN || errno == EINTR || errno == ETIMEDOUT) return;
  // The Linux kernel has no futex_waitv: poll.
  const timespec moment{0, std::min<long>(static_cast<long>(nanoseconds), 200'000)};
  nanosleep(&moment, nullptr);
}

void wake_all(const std::atomic<uint32_t>* word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

void at_fork(void (*before)(), void (*in_parent)(), void (*in_child)()) {
  pthread_atfork(before, in_parent, in_child);
}

}  // namespace openreg::sim::platform
