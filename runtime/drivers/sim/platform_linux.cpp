#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "platform.h"

#include <cerrno>
#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

namespace openreg::sim::platform {

bool reserve(size_t size, void** base) {
  *base = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return *base != MAP_FAILED;
}

int create_memory(const char* name, size_t size) {
  const int memory = memfd_create(name, MFD_CLOEXEC);
  if (memory < 0) return -1;
  if (ftruncate(memory, static_cast<off_t>(size)) == 0) return memory;
  const int reason = errno;
  close(memory);
  errno = reason;
  return -1;
}

void close_memory(int memory) {
  close(memory);
}

bool map_memory(int memory, void* address, size_t size) {
  if (mmap(address, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, memory, 0) ==
      MAP_FAILED) {
    return false;
  }
  // The mapping is shared: a child that inherited it would write into its parent's device.
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

int hardware_threads() {
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace openreg::sim::platform
