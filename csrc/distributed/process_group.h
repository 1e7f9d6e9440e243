// occl, the c10d backend of the device: collectives and point-to-point operations in stream order.
//
// Note [Communication streams]
// An operation runs on a communication stream: one for the collectives of a group on a device, so that all
// ranks run them in the order of the calls, and one for each peer, direction and tag of point-to-point
// operations, so that a send does not wait for a receive. The communication stream waits for the current
// stream at the call. Work::wait makes the current stream wait for the communication stream. The host is
// never blocked, except by a barrier.
//
// Thread safety: all functions may be called from any thread. The order of collectives that several threads
// call is the order in which they take the lock.
#pragma once

#include "common/export.h"
#include "distributed/collectives.h"
#include "distributed/group_state.h"
#include "distributed/operation.h"
#include "distributed/transport/transport.h"
#include "distributed/work.h"
#include "profiler/collective_event.h"

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

namespace openreg::distributed {

class OPENREG_EXPORT ProcessGroupOCCL : public c10d::Backend {
 public:
  struct OPENREG_EXPORT Options : c10d::Backend::Options {
    explicit Options(std::chrono::milliseconds timeout) : c10d::Backend::Options("occl", timeout) {}
  };
  /// Creates the Gloo group of some ranks.
  using MakeGloo = std::function<c10::intrusive_ptr<c10d::Backend>(
      const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, Milliseconds timeout)>;

  /// `peer_memory`: ranks on one machine may read the memory of each other.
  ProcessGroupOCCL(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                   c10::intrusive_ptr<Options> options, bool peer_memory, MakeGloo make_gloo);
  ~ProcessGroupOCCL() override;

  const std::string getBackendName() const override { return "occl"; }
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override { return options_; }
  const c10::intrusive_ptr<Options>& options() const { return options_; }
  bool supportsSplitting() const override { return true; }
  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override;
  c10::intrusive_ptr<c10d::Work> endCoalescing() override;
  void setTimeout(std::chrono::milliseconds timeout) override;
  void setGroupUid(const std::string& name) override;
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                          const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<c10d::Backend::Options>& options) override;

  c10::intrusive_ptr<c10d::Work> broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allreduce_coalesced(Tensors& tensors,
                                                     const c10d::AllreduceCoalescedOptions& options) override;
  c10::intrusive_ptr<c10d::Work> reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                           const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                                     const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather_into_tensor_coalesced(
      Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                        const c10d::GatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                         const c10d::ScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                const c10d::ReduceScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                      const c10d::ReduceScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> reduce_scatter_tensor_coalesced(
      Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> alltoall_base(at::Tensor& output, at::Tensor& input,
                                               std::vector<int64_t>& output_sizes,
                                               std::vector<int64_t>& input_sizes,
                                               const c10d::AllToAllOptions& options) override;
  c10::intrusive_ptr<c10d::Work> alltoall(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllToAllOptions& options) override;
  c10::intrusive_ptr<c10d::Work> send(Tensors& tensors, int peer, int tag) override;
  c10::intrusive_ptr<c10d::Work> recv(Tensors& tensors, int peer, int tag) override;
  c10::intrusive_ptr<c10d::Work> recvAnysource(Tensors& tensors, int tag) override;
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& options) override;

  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override;
  void enableCollectivesTiming() override {}
  /// Pending operations fail; later calls raise.
  void abort() override;
  /// Waits for pending operations. After a failure: aborts.
  void shutdown() override;

  const GroupState& state() const { return *state_; }
  /// Bytes that this rank has read from the memory of other ranks; other data came over Gloo.
  uint64_t bytes_read_from_peers() const { return transport_->peer_memory().bytes_read(); }
  /// Messages that came through shared memory; the others came over Gloo.
  uint64_t messages_from_mailbox() const { return transport_->mailbox().received(); }
  /// Aborts all groups; for the exit of the process, which must not wait for other ranks.
  static void abort_all();

 private:
  enum class Direction { kCollective, kSend, kReceive };
  struct CommStream;
  /// Operations with the same order key run in the order of the calls, whatever their devices.
  using OrderKey = std::tuple<Direction, int /*peer*/, int /*tag*/>;
  using StreamKey = std::pair<c10::DeviceIndex, OrderKey>;
  struct Order {
    uint64_t operations = 0;
    CommStream* last = nullptr;
  };

  /// What a call passes on.
  struct Request {
    const char* name;
    c10d::OpType type;
    Tensors inputs;
    Tensors outputs;
    Tensors factors{};  // of PREMUL_SUM
    Operation::Body body{};
    Milliseconds timeout{-1};
    int64_t reduce_op = -1;
    int64_t root = -1;
    int64_t count = -1;
    Direction direction = Direction::kCollective;
    int peer = -1;
    int tag = 0;
  };

  c10::intrusive_ptr<c10d::Work> submit(Request request);
  c10::intrusive_ptr<c10d::Work> receive(Tensors& tensors, c10d::OpType type, int peer, int tag);
  c10::Device check_tensors(const Request& request) const;
  CollectiveArgs event_args(const Request& request, const Call& call) const;
  CommStream& comm_stream(const StreamKey& key);
  Reduction prepare(const char* name, const c10d::ReduceOp& op, const at::Tensor& tensor,
                    Tensors& factors) const;

  const c10::intrusive_ptr<Options> options_;
  const bool peer_memory_;
  const MakeGloo make_gloo_;
  const std::shared_ptr<GroupState> state_;
  const std::shared_ptr<Transport> transport_;

  std::mutex mutex_;  // guards everything below; held during a submission
  std::map<OrderKey, Order> orders_;
  std::map<StreamKey, std::unique_ptr<CommStream>> streams_;
  bool coalescing_ = false;
  std::vector<c10::intrusive_ptr<WorkOCCL>> coalesced_;
};

}  // namespace openreg::distributed
