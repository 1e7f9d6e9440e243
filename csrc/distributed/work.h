// The c10d::Work of an operation: waiting orders streams and does not block the host, as NCCL's does.
#pragma once

#include "distributed/operation.h"

#include <ATen/core/ivalue.h>
#include <c10/core/Event.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <memory>
#include <vector>

namespace openreg::distributed {

class WorkOCCL : public c10d::Work {
 public:
  /// `end`: recorded behind the operation on its communication stream. `inputs`: for profilers, for which the
  /// call lasts until called().
  WorkOCCL(int rank, c10d::OpType type, std::shared_ptr<Operation> operation, c10::Device device,
           std::shared_ptr<c10::Event> end, c10::intrusive_ptr<c10::ivalue::Future> future,
           const std::vector<at::Tensor>& inputs, std::vector<at::Tensor> outputs);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override;
  /// The current stream waits for the end.
  void synchronize() override;
  void blockCurrentStream() override;
  /// As synchronize. Blocks the host for a barrier, and if a timeout is given. Throws if the operation has
  /// failed.
  bool wait(std::chrono::milliseconds timeout) override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  /// Completed with a c10d::WorkResult when the operation has ended.
  c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override;
  float getDuration() const override;
  uint64_t getSequencenumber() const override;

  /// Ends the event of the call.
  void called();

  c10::Device device() const { return device_; }
  /// The stream waits for the end.
  void block(c10::Stream stream) const { end_->block(stream); }

 private:
  const std::shared_ptr<Operation> operation_;
  const c10::Device device_;
  const std::shared_ptr<c10::Event> end_;
  const c10::intrusive_ptr<c10::ivalue::Future> future_;
  const std::vector<at::Tensor> outputs_;
};

/// Several works that are waited for together.
class WorkList : public c10d::Work {
 public:
  explicit WorkList(std::vector<c10::intrusive_ptr<WorkOCCL>> works) : works_(std::move(works)) {}

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  void synchronize() override;
  bool wait(std::chrono::milliseconds timeout) override;
  std::vector<at::Tensor> result() override;
  void blockCurrentStream() override { synchronize(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  std::vector<c10::intrusive_ptr<WorkOCCL>> works_;
};

}  // namespace openreg::distributed
