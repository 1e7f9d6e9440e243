#include "distributed/work.h"

#include "common/gil_release.h"
#include "distributed/transport/waiters.h"
#include "stream/stream.h"

#include <c10/core/StreamGuard.h>

namespace openreg::distributed {

WorkOCCL::WorkOCCL(int rank, c10d::OpType type, std::shared_ptr<Operation> operation, c10::Device device,
                   std::shared_ptr<c10::Event> end, c10::intrusive_ptr<c10::ivalue::Future> future,
                   const std::vector<at::Tensor>& inputs, std::vector<at::Tensor> outputs)
    : Work(rank, type, at::hasCallbacks() ? operation->kernel_name() : nullptr, inputs),
      operation_(std::move(operation)),
      device_(device),
      end_(std::move(end)),
      future_(std::move(future)),
      outputs_(std::move(outputs)) {}

void WorkOCCL::called() {
  if (recordFunctionEndCallback_) recordFunctionEndCallback_();
}

bool WorkOCCL::isCompleted() {
  return operation_->done();
}

bool WorkOCCL::isSuccess() const {
  return operation_->done() && !operation_->error();
}

std::exception_ptr WorkOCCL::exception() const {
  return operation_->error();
}

int WorkOCCL::sourceRank() const {
  // The rank is known only at the end of a receive from any rank.
  const GilRelease waiting;
  operation_->wait(Milliseconds(0));
  return operation_->source_rank();
}

std::vector<at::Tensor> WorkOCCL::result() {
  return outputs_;
}

void WorkOCCL::synchronize() {
  end_->block(current_stream(device_.index()));
}

void WorkOCCL::blockCurrentStream() {
  synchronize();
}

bool WorkOCCL::wait(std::chrono::milliseconds timeout) {
  const bool blocks = retrieveOpType() == c10d::OpType::BARRIER || timeout != kNoTimeout;
  if (blocks) {
    const GilRelease waiting;
    const bool ended = operation_->wait(timeout);
    TORCH_CHECK_WITH(DistBackendError, ended, to_string(operation_->call()), " has not ended after ",
                     timeout.count(), " ms; the program gave this timeout to wait()");
  }
  if (const std::exception_ptr error = operation_->error()) std::rethrow_exception(error);
  synchronize();
  return true;
}

c10::intrusive_ptr<c10::ivalue::Future> WorkOCCL::getFuture() {
  return future_;
}

c10::intrusive_ptr<c10::ivalue::Future> WorkOCCL::getFutureResult() {
  auto future = c10::make_intrusive<c10::ivalue::Future>(c10::IntType::get());
  run_on_waiter([operation = operation_, future] {
    operation->wait(Milliseconds(0));
    const auto result = operation->error() ? c10d::WorkResult::COMM_ERROR : c10d::WorkResult::SUCCESS;
    future->markCompleted(static_cast<int64_t>(result));
  });
  return future;
}

float WorkOCCL::getDuration() const {
  return static_cast<float>(operation_->duration_ms());
}

uint64_t WorkOCCL::getSequencenumber() const {
  return operation_->call().sequence;
}

bool WorkList::isCompleted() {
  for (const auto& work : works_) {
    if (!work->isCompleted()) return false;
  }
  return true;
}

bool WorkList::isSuccess() const {
  for (const auto& work : works_) {
    if (!work->isSuccess()) return false;
  }
  return true;
}

std::exception_ptr WorkList::exception() const {
  for (const auto& work : works_) {
    if (std::exception_ptr error = work->exception()) return error;
  }
  return nullptr;
}

void WorkList::synchronize() {
  for (const auto& work : works_) work->synchronize();
}

bool WorkList::wait(std::chrono::milliseconds timeout) {
  for (const auto& work : works_) work->wait(timeout);
  return true;
}

std::vector<at::Tensor> WorkList::result() {
  std::vector<at::Tensor> all;
  for (const auto& work : works_) {
    for (at::Tensor& tensor : work->result()) all.push_back(std::move(tensor));
  }
  return all;
}

// Complete on a stream that waits for all of them.
c10::intrusive_ptr<c10::ivalue::Future> WorkList::getFuture() {
  const c10::Device device = works_.back()->device();
  auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()),
                                                         std::vector<c10::Device>{device});
  const c10::Stream stream = stream_from_pool(device.index());
  for (const auto& work : works_) work->block(stream);
  const c10::StreamGuard guard(stream);
  future->markCompleted(c10::IValue(result()));
  return future;
}

}  // namespace openreg::distributed
