// One collective or point-to-point operation, from the call to its end.
//
// Its life: the call creates it and launches its kernel on a communication stream; the kernel runs when the
// tensors are ready, defers itself (Note [Deferred kernels] in openreg.h) and passes the operation to a
// waiting thread; that thread runs the body and finishes the kernel.
//
// Thread safety: all functions may be called from any thread.
#pragma once

#include "distributed/group_state.h"
#include "distributed/transport/message.h"
#include "distributed/transport/transport.h"

#include <c10/core/Storage.h>
#include <c10/core/Stream.h>
#include <openreg/openreg.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

namespace openreg::distributed {

class Operation : public std::enable_shared_from_this<Operation> {
 public:
  /// Moves the data; returns the source rank of a receive, else -1. Blocks.
  using Rest = std::function<int()>;
  /// Begins the operation on the thread that runs the kernel, without blocking, and returns the rest.
  using Body = std::function<Rest(Transport&, const Call&)>;

  /// `storages`: the device memory that the body uses; kept until the end.
  Operation(std::shared_ptr<GroupState> group, std::shared_ptr<Transport> transport, Call call, Body body,
            std::vector<c10::Storage> storages);

  /// Launches its kernel.
  void launch(c10::Stream stream);

  const Call& call() const { return call_; }
  /// "occl:all_reduce".
  const char* kernel_name() const { return kernel(call_.name).name; }
  bool done() const;
  std::exception_ptr error() const;
  int source_rank() const;
  double duration_ms() const;
  /// Waits for the end. Returns false after the timeout; 0: no timeout.
  bool wait(Milliseconds timeout) const;

 private:
  static const orKernel& kernel(const char* name);
  static orError_t run(void* args, char* why, size_t why_size);
  static void release(void* args);
  Rest begin();
  /// Runs the rest. Returns the message of the failure, or an empty string.
  std::string execute(const Rest& rest);
  void finish(std::exception_ptr error, int source);

  const std::shared_ptr<GroupState> group_;
  const std::shared_ptr<Transport> transport_;
  const Call call_;
  const size_t record_;  // in the flight recorder of the group
  Body body_;
  std::vector<c10::Storage> storages_;
  std::chrono::steady_clock::time_point begin_;

  mutable std::mutex mutex_;  // guards everything below
  mutable std::condition_variable ended_;
  bool done_ = false;
  std::exception_ptr error_;
  int source_ = -1;
  double duration_ms_ = 0;
};

}  // namespace openreg::distributed
