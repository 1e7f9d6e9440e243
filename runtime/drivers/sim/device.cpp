#include "device.h"

#include "error.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace openreg::sim {

std::vector<Ref<Stream>> Device::streams() {
  std::lock_guard lock(mutex_);
  std::vector<Ref<Stream>> alive;
  alive.reserve(streams_.size());
  for (Stream* stream : streams_) {
    if (stream->try_retain()) alive.push_back(Ref<Stream>::adopt(stream));
  }
  return alive;
}

orError_t Device::wait() {
  std::vector<std::pair<Ref<Stream>, uint64_t>> targets;
  for (Ref<Stream>& stream : streams()) {
    const uint64_t ticket = stream->submitted();
    if (!stream->finished(ticket)) targets.emplace_back(std::move(stream), ticket);
  }
  for (auto& [stream, ticket] : targets) {
    if (const orError_t error = stream->wait(ticket)) return error;
  }
  return orSuccess;
}

orError_t Device::check_idle_but_caller(int index) {
  for (const Ref<Stream>& stream : streams()) {
    const bool idle =
        stream->running_here() ? stream->only_current_left() : stream->finished(stream->submitted());
    if (idle) continue;
    return fail(orErrorNotPermitted,
                "a kernel cannot wait for device %d while stream %llu has other unfinished work", index,
                static_cast<unsigned long long>(stream->id()));
  }
  return orSuccess;
}

orError_t Device::take_failure() {
  for (const Ref<Stream>& stream : streams()) {
    if (const orError_t error = stream->take_failure(nullptr)) return error;
  }
  std::unique_lock lock(mutex_);
  // The destructor of a stream passes its failure to the device; another thread may be about to run it.
  while (
      std::any_of(streams_.begin(), streams_.end(), [](const Stream* stream) { return stream->expired(); })) {
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  }
  while (!orphaned_failures_.empty()) {
    const Ref<Failure> failure = std::move(orphaned_failures_.front());
    orphaned_failures_.erase(orphaned_failures_.begin());
    lock.unlock();
    if (const orError_t error = report(*failure)) return error;
    lock.lock();
  }
  return orSuccess;
}

bool Device::running_here() {
  if (!Stream::inside_kernel()) return false;
  for (const Ref<Stream>& stream : streams()) {
    if (stream->running_here()) return true;
  }
  return false;
}

void Device::clear_failures() {
  std::lock_guard lock(mutex_);
  orphaned_failures_.clear();
}

void Device::add(Stream& stream) {
  std::lock_guard lock(mutex_);
  streams_.insert(&stream);
}

void Device::remove(Stream& stream, Ref<Failure> failure) {
  std::lock_guard lock(mutex_);
  streams_.erase(&stream);
  if (!failure) return;
  try {
    orphaned_failures_.push_back(std::move(failure));
  } catch (...) {
    // Out of memory for the message: the failure is lost, as after a reset of the device.
  }
}

}  // namespace openreg::sim
