// Another chip: see handles.h. The order of the checks matters: the bytes of a handle and the file can come
// from any program of the user, so everything is copied once, and the copy is checked.
#include "handles.h"

#include "error.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace nv {
namespace {

using Secret = std::array<unsigned char, 16>;

// In the file. Entry 0 is empty; its byte is locked as long as the process lives.
struct Slot {
  Secret secret;  // zeros: no handle
  uint32_t opened;
  uint32_t reserved;
  SharedEntry entry;
};

// In the bytes of a handle; the rest is zero.
struct Handle {
  uint32_t magic;
  int32_t pid;
  uint64_t file;
  Secret secret;
  uint32_t index;
  uint32_t reserved;
};
static_assert(sizeof(Handle) <= kHandleSize);

constexpr uint32_t kMagic = 0x6e763031;         // "nv01"
constexpr uint64_t kMarks = uint64_t{1} << 32;  // the bytes behind all entries, which are locked as marks

struct Peer {
  int file = -1;
  std::map<uint32_t, int> open;  // entries, and how often each is open
};

struct Handles {
  std::mutex mutex;  // guards everything below
  int file = -1;     // of this process, from the first handle on
  int32_t pid = 0;
  uint64_t number = 0;
  uint32_t next = 1;
  std::set<uint32_t> free;
  std::map<std::pair<int32_t, uint64_t>, Peer> peers;

  ~Handles();
};

std::string file_name(int32_t pid, uint64_t number) {
  char name[64];
  std::snprintf(name, sizeof(name), "/torch_nv.%d.%016llx", pid, static_cast<unsigned long long>(number));
  return name;
}

// A forked child has a copy of the parent's state, and leaves the file alone.
Handles::~Handles() {
  if (file >= 0 && pid == getpid()) shm_unlink(file_name(pid, number).c_str());
}

Handles& handles() {
  static Handles made;
  return made;
}

// Locks of processes, not of descriptors: a forked child has none. Closing any descriptor of the file
// releases all locks of the process, so there is one for each file.
bool lock_byte(int file, uint64_t index, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(index);
  lock.l_len = 1;
  return fcntl(file, F_SETLK, &lock) == 0;
}

// Whether another process has locked the byte.
bool is_locked(int file, uint64_t index) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(index);
  lock.l_len = 1;
  return fcntl(file, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

off_t place(uint32_t index) {
  return static_cast<off_t>(index) * static_cast<off_t>(sizeof(Slot));
}

bool read_slot(int file, uint32_t index, Slot& slot) {
  return pread(file, &slot, sizeof(slot), place(index)) == static_cast<ssize_t>(sizeof(slot));
}

bool write_slot(int file, uint32_t index, const Slot& slot) {
  return pwrite(file, &slot, sizeof(slot), place(index)) == static_cast<ssize_t>(sizeof(slot));
}

bool mark_opened(int file, uint32_t index) {
  const uint32_t yes = 1;
  const off_t at = place(index) + static_cast<off_t>(offsetof(Slot, opened));
  return pwrite(file, &yes, sizeof(yes), at) == static_cast<ssize_t>(sizeof(yes));
}

template <typename Value>
bool fill_random(Value& value) {
  return getrandom(&value, sizeof(value), 0) == static_cast<ssize_t>(sizeof(value));
}

orError_t fail_system(const char* what) {
  const int error = errno;
  return fail(orErrorSystem, "cannot share memory between processes: %s: %s", what, std::strerror(error));
}

// With the lock. The first handle creates the file.
orError_t ensure_file(Handles& own) {
  if (own.file >= 0) return orSuccess;
  own.pid = getpid();
  if (!fill_random(own.number)) return fail_system("getrandom");
  const std::string name = file_name(own.pid, own.number);
  const int file = shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) return fail_system("shm_open");
  if (!write_slot(file, 0, {}) || !lock_byte(file, 0, F_WRLCK)) {
    const orError_t error = fail_system("write");
    close(file);
    shm_unlink(name.c_str());
    return error;
  }
  own.file = file;
  return orSuccess;
}

// All zeros if the bytes are not those of a handle.
Handle decode(const unsigned char (&bytes)[kHandleSize]) {
  Handle handle;
  std::memcpy(&handle, bytes, sizeof(handle));
  const bool valid =
      handle.magic == kMagic && handle.reserved == 0 && handle.index > 0 && handle.secret != Secret{} &&
      std::all_of(bytes + sizeof(handle), bytes + kHandleSize, [](unsigned char byte) { return byte == 0; });
  return valid ? handle : Handle{};
}

// With the lock.
uint32_t find_own(Handles& own, const Handle& handle) {
  Slot slot;
  const bool mine = own.file >= 0 && handle.index > 0 && handle.pid == own.pid && handle.file == own.number;
  if (!mine || !read_slot(own.file, handle.index, slot) || slot.secret != handle.secret) return 0;
  return handle.index;
}

// A file of another user, or of a process that has ended, is not opened; the latter is removed.
int open_file(const Handle& handle) {
  const std::string name = file_name(handle.pid, handle.file);
  const int file = shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0);
  if (file < 0) return -1;
  struct stat status {};
  if (fstat(file, &status) == 0 && status.st_uid == geteuid()) {
    if (is_locked(file, 0)) return file;
    shm_unlink(name.c_str());
  }
  close(file);
  return -1;
}

// With the lock. The entry is checked behind the lock on its byte, and is read once.
bool open_slot(Handles& own, const Handle& handle, uint32_t kind, SharedEntry& entry) {
  const std::pair key{handle.pid, handle.file};
  auto found = own.peers.find(key);
  if (found == own.peers.end()) {
    const int file = open_file(handle);
    if (file < 0) return false;
    found = own.peers.emplace(key, Peer{file, {}}).first;
  }
  Peer& peer = found->second;
  const bool alive = is_locked(peer.file, 0);
  const bool first = !peer.open.contains(handle.index);
  Slot slot;
  const bool valid =
      alive && lock_byte(peer.file, handle.index, F_RDLCK) && read_slot(peer.file, handle.index, slot) &&
      slot.secret == handle.secret && slot.entry.kind == kind && slot.entry.offset <= slot.entry.base_size &&
      slot.entry.size <= slot.entry.base_size - slot.entry.offset && mark_opened(peer.file, handle.index);
  if (valid) {
    entry = slot.entry;
    ++peer.open[handle.index];
  } else if (first) {
    lock_byte(peer.file, handle.index, F_UNLCK);
  }
  if (peer.open.empty()) {
    close(peer.file);
    own.peers.erase(found);
  }
  return valid;
}

// With the lock; -1 if the entry is not open.
int file_of(Handles& own, const OpenEntry& entry) {
  if (entry.pid == own.pid && entry.file == own.number) return own.file;
  const auto found = own.peers.find({entry.pid, entry.file});
  return found == own.peers.end() ? -1 : found->second.file;
}

}  // namespace

orError_t create_handle(const SharedEntry& entry, unsigned char (&bytes)[kHandleSize], OpenEntry& created) {
  Handles& own = handles();
  const std::lock_guard lock(own.mutex);
  NV_RETURN_IF_ERROR(ensure_file(own));
  Slot slot{{}, 0, 0, entry};
  if (!fill_random(slot.secret)) return fail_system("getrandom");
  const uint32_t index = own.free.empty() ? own.next : *own.free.begin();
  if (!write_slot(own.file, index, slot)) return fail_system("write");
  if (own.free.erase(index) == 0) ++own.next;
  const Handle handle{kMagic, own.pid, own.number, slot.secret, index, 0};
  std::memset(bytes, 0, sizeof(bytes));
  std::memcpy(bytes, &handle, sizeof(handle));
  created = {own.pid, index, own.number};
  return orSuccess;
}

uint32_t own_handle(const unsigned char (&bytes)[kHandleSize]) {
  Handles& own = handles();
  const std::lock_guard lock(own.mutex);
  return find_own(own, decode(bytes));
}

bool was_opened(uint32_t index) {
  Handles& own = handles();
  const std::lock_guard lock(own.mutex);
  Slot slot;
  return read_slot(own.file, index, slot) && slot.opened != 0;
}

bool is_open(uint32_t index) {
  Handles& own = handles();
  const std::lock_guard lock(own.mutex);
  return is_locked(own.file, index);
}

// With the lock on the byte no process can open the entry; one that comes later finds no secret.
bool remove_handle(uint32_t index, bool force) {
  Handles& own = handles();
  const std::lock_guard lock(own.mutex);
  const bool locked = lock_byte(own.file, index, F_WRLCK);
  if (!locked && !force) return false;
  const bool removed = write_slot(own.file, index, {});
  if (locked) {
    lock_byte(own.file, index, F_UNLCK);
    if (removed) own.free.insert(index);  // an entry that is still open keeps its byte
  }
  return removed;
}

orError_t open_handle(const unsigned char (&bytes)[kHandleSize], uint32_t kind, SharedEntry& entry,
                      OpenEntry& open) {
  const Handle handle = decode(bytes);
  Handles& own = handles();
  const std::lock_guard lock(own.mutex);
  const char* what = kind == SharedEntry::kEvent ? "event" : "memory";
  if (handle.index == 0) return fail(orErrorInvalidHandle, "the bytes are not an %s handle", what);
  if (const uint32_t index = find_own(own, handle)) {
    if (!mark_opened(own.file, index)) return fail_system("write");
    return fail(orErrorNotPermitted, "the %s belongs to this process; use the original", what);
  }
  const bool own_file = own.file >= 0 && handle.pid == own.pid && handle.file == own.number;
  if (own_file || !open_slot(own, handle, kind, entry)) {
    return fail(
        orErrorInvalidHandle,
        "the handle does not refer to %s that process %d shares: it is stale or forged, or the process "
        "has ended",
        what, handle.pid);
  }
  open = {handle.pid, handle.index, handle.file};
  return orSuccess;
}

void close_handle(const OpenEntry& open) {
  Handles& own = handles();
  const std::lock_guard lock(own.mutex);
  const auto found = own.peers.find({open.pid, open.file});
  if (found == own.peers.end()) return;
  Peer& peer = found->second;
  const auto entry = peer.open.find(open.index);
  if (entry == peer.open.end() || --entry->second > 0) return;
  lock_byte(peer.file, open.index, F_UNLCK);
  peer.open.erase(entry);
  if (!peer.open.empty()) return;
  close(peer.file);
  own.peers.erase(found);
}

void set_mark(const OpenEntry& entry, bool marked) {
  Handles& own = handles();
  const std::lock_guard lock(own.mutex);
  lock_byte(file_of(own, entry), kMarks + entry.index, marked ? F_RDLCK : F_UNLCK);
}

bool is_marked_elsewhere(const OpenEntry& entry) {
  Handles& own = handles();
  const std::lock_guard lock(own.mutex);
  return is_locked(file_of(own, entry), kMarks + entry.index);
}

}  // namespace nv
