#include "distributed/operation.h"

#include "common/check.h"
#include "diagnostics/tensor_access.h"
#include "diagnostics/watched_launch.h"
#include "distributed/transport/waiters.h"
#include "kernel/kernel_guard.h"
#include "profiler/recorder.h"
#include "stream/checked_stream.h"
#include "stream/stream.h"

#include <chrono>
#include <cstdio>
#include <map>
#include <optional>

namespace openreg::distributed {
namespace {

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const c10::Error& e) {
    return e.what_without_backtrace();
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an unknown exception";
  }
}

}  // namespace

Operation::Operation(std::shared_ptr<GroupState> group, std::shared_ptr<Transport> transport, Call call,
                     Body body, std::vector<c10::Storage> storages)
    : group_(std::move(group)),
      transport_(std::move(transport)),
      call_(std::move(call)),
      record_(group_->begin(call_)),
      body_(std::move(body)),
      storages_(std::move(storages)) {}

// The kernel of an operation. Never destroyed: launches and traces refer to it.
const orKernel& Operation::kernel(const char* name) {
  struct Named {
    std::string name;
    orKernel kernel;
  };
  static std::mutex mutex;
  static auto* kernels = new std::map<std::string, Named>;
  std::lock_guard lock(mutex);
  Named& named = (*kernels)[name];
  if (named.name.empty()) {
    named.name = std::string("occl:") + name;
    named.kernel = {named.name.c_str(), &Operation::run, &Operation::release};
  }
  return named.kernel;
}

void Operation::launch(c10::Stream stream) {
  // The launch owns a reference, which release() drops.
  auto args = std::make_unique<std::shared_ptr<Operation>>(shared_from_this());
  std::shared_ptr<Operation>* owned = args.get();
  std::optional<CollectiveScope> scope;
  if (is_recording()) {
    const bool has_tensor = call_.dtype >= 0;
    scope.emplace(Collective{call_.name, group_->name(), transport_->size(), group_->rank(), call_.sequence,
                             has_tensor ? c10::toString(static_cast<c10::ScalarType>(call_.dtype)) : "",
                             call_.bytes});
  }
  if (C10_UNLIKELY(races::on())) {
    launch_collected(kernel(call_.name).name, stream);
    for (const c10::Storage& storage : storages_) {
      races::kept(storage.data(), storage.nbytes(), checked_stream(stream));
    }
  }
  std::optional<WatchedLaunch> watched;
  if (C10_UNLIKELY(launches_are_watched())) {
    watched.emplace(
        to_string(call_) + " in the process group '" + group_->name() + "', which waits for other ranks",
        call_.site);
  }
  const orError_t result = orLaunchKernel(stream_handle(stream), &kernel(call_.name), &owned, sizeof(owned));
  if (result == orSuccess) {
    static_cast<void>(args.release());
    return;
  }
  try {
    OR_CHECK_RESULT(result, orLaunchKernel);
  } catch (...) {
    finish(std::current_exception(), -1);
    throw;
  }
}

orError_t Operation::run(void* args, char* why, size_t why_size) {
  const std::shared_ptr<Operation> self = **static_cast<std::shared_ptr<Operation>**>(args);
  orDeferred_t deferred = nullptr;
  if (orKernelDefer(&deferred) == orSuccess) {
    run_on_waiter([self, deferred, rest = self->begin()] {
      const std::string failure = self->execute(rest);
      static_cast<void>(
          orKernelFinish(deferred, failure.empty() ? orSuccess : orErrorKernelFailed, failure.c_str()));
    });
    return orSuccess;
  }
  const std::string failure = self->execute(self->begin());
  if (failure.empty()) return orSuccess;
  std::snprintf(why, why_size, "%s", failure.c_str());
  return orErrorKernelFailed;
}

void Operation::release(void* args) {
  const std::unique_ptr<std::shared_ptr<Operation>> self(*static_cast<std::shared_ptr<Operation>**>(args));
  Operation& operation = **self;
  if (operation.done()) return;
  // The launch was dropped.
  operation.finish(std::make_exception_ptr(C10_BUILD_ERROR(
                       DistBackendError, to_string(operation.call_) +
                                             " did not run, because work before it has failed on this rank")),
                   -1);
}

Operation::Rest Operation::begin() {
  group_->started(record_);
  begin_ = std::chrono::steady_clock::now();
  try {
    const KernelGuard guard;
    group_->check();
    return body_(*transport_, call_);
  } catch (...) {
    return [error = std::current_exception()]() -> int { std::rethrow_exception(error); };
  }
}

std::string Operation::execute(const Rest& rest) {
  std::exception_ptr error;
  int source = -1;
  try {
    const KernelGuard guard;
    source = rest();
  } catch (...) {
    error = std::current_exception();
  }
  {
    std::lock_guard lock(mutex_);
    duration_ms_ =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin_).count();
  }
  if (!error) {
    finish(nullptr, source);
    return {};
  }
  // Gloo may still access the memory.
  transport_->keep(std::make_shared<std::pair<Rest, std::vector<c10::Storage>>>(rest, storages_));
  const std::string why = c10::str(to_string(call_), " in the process group '", group_->name(),
                                   "' failed on rank ", group_->rank(), ": ", message_of(error));
  finish(std::make_exception_ptr(C10_BUILD_ERROR(DistBackendError, why)), -1);
  return why;
}

void Operation::finish(std::exception_ptr error, int source) {
  const std::string why = error ? message_of(error) : std::string();
  if (error) group_->fail(why);
  std::vector<c10::Storage> storages;  // released without the lock
  Body body;
  {
    std::lock_guard lock(mutex_);
    done_ = true;
    error_ = std::move(error);
    source_ = source;
    storages.swap(storages_);
    body.swap(body_);
  }
  ended_.notify_all();
  group_->ended(record_, why);
}

bool Operation::done() const {
  std::lock_guard lock(mutex_);
  return done_;
}

std::exception_ptr Operation::error() const {
  std::lock_guard lock(mutex_);
  return error_;
}

int Operation::source_rank() const {
  std::lock_guard lock(mutex_);
  return source_;
}

double Operation::duration_ms() const {
  std::lock_guard lock(mutex_);
  return duration_ms_;
}

bool Operation::wait(Milliseconds timeout) const {
  std::unique_lock lock(mutex_);
  const auto ended = [&] { return done_; };
  if (timeout.count() > 0) return ended_.wait_for(lock, timeout, ended);
  ended_.wait(lock, ended);
  return true;
}

}  // namespace openreg::distributed
