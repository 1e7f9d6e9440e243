#include "distributed/process_group.h"

#include "common/check.h"
#include "common/gil_release.h"
#include "device/on_device.h"
#include "kernel/arg_alias.h"
#include "kernel/launch_site.h"
#include "stream/capture.h"
#include "stream/stream.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace openreg::distributed {
namespace {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

Tensors aliases(const Tensors& tensors, bool writes) {
  Tensors result;
  for (const at::Tensor& tensor : tensors) result.push_back(alias(tensor, writes));
  return result;
}

Tensors flatten(const std::vector<Tensors>& lists) {
  Tensors result;
  for (const Tensors& list : lists) result.insert(result.end(), list.begin(), list.end());
  return result;
}

const at::Tensor& single(const char* name, const Tensors& tensors) {
  TORCH_CHECK_VALUE(tensors.size() == 1, name, " takes one tensor for each rank, got ", tensors.size());
  return tensors[0];
}

const Tensors& single(const char* name, const std::vector<Tensors>& lists) {
  TORCH_CHECK_VALUE(lists.size() == 1, name, " takes one list of tensors for each rank, got ", lists.size());
  return lists[0];
}

void check_same_size(const char* name, const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK_VALUE(a.numel() == b.numel() && a.scalar_type() == b.scalar_type(), name,
                    ": the tensors of this rank must have ", "the same number of elements and dtype, got ",
                    a.numel(), " of ", a.scalar_type(), " and ", b.numel(), " of ", b.scalar_type());
}

/// The sizes along the first dimension; equal parts if the program gave none.
std::vector<int64_t> split_sizes(const char* name, const at::Tensor& tensor,
                                 const std::vector<int64_t>& given, int ranks) {
  if (given.empty()) {
    TORCH_CHECK_VALUE(tensor.dim() > 0 && tensor.size(0) % ranks == 0, name,
                      ": the first dimension of a tensor of size ", tensor.sizes(),
                      " cannot be divided between ", ranks, " ranks");
    return std::vector<int64_t>(static_cast<size_t>(ranks), tensor.size(0) / ranks);
  }
  const int64_t sum = std::accumulate(given.begin(), given.end(), int64_t{0});
  TORCH_CHECK_VALUE(
      given.size() == static_cast<size_t>(ranks) && tensor.dim() > 0 && sum == tensor.size(0), name,
      ": the split sizes must be one for each rank and sum up to the first dimension of the tensor, got ",
      given.size(), " sizes with the sum ", sum, " for a tensor of size ", tensor.sizes());
  return given;
}

std::string describe(const Tensors& tensors) {
  if (tensors.empty()) return {};
  std::string text = c10::str(c10::toString(tensors[0].scalar_type()), tensors[0].sizes());
  if (tensors.size() > 1) text += c10::str(" and ", tensors.size() - 1, " more");
  return text;
}

std::vector<c10::Storage> storages_of(std::initializer_list<const Tensors*> lists) {
  std::vector<c10::Storage> result;
  for (const Tensors* tensors : lists) {
    for (const at::Tensor& tensor : *tensors) result.push_back(tensor.storage());
  }
  return result;
}

Operation::Rest without_source(Rest rest) {
  return [rest = std::move(rest)] {
    rest();
    return -1;
  };
}

/// Several collectives; only the first begins before the rest.
template <typename Begin>
Operation::Rest in_order(size_t count, Begin begin) {
  return [=, first = begin(0)] {
    first();
    for (size_t i = 1; i < count; ++i) begin(i)();
    return -1;
  };
}

struct LiveGroups {
  static LiveGroups& get() {
    static auto* live = new LiveGroups;  // leaked: groups may end after static objects
    return *live;
  }
  std::mutex mutex;  // guards `groups`; taken before the locks of a group
  std::set<ProcessGroupOCCL*> groups;
};

}  // namespace

/// A stream of the runtime that belongs to the group, and the end of its last operation.
struct ProcessGroupOCCL::CommStream {
  explicit CommStream(c10::DeviceIndex device)
      : stream(make(device)), end(std::make_shared<c10::Event>(kDevice)) {}
  ~CommStream() { static_cast<void>(orStreamDestroy(stream_handle(stream))); }
  CommStream(const CommStream&) = delete;
  CommStream& operator=(const CommStream&) = delete;

  static c10::Stream make(c10::DeviceIndex device) {
    const DeviceScope scope(device);
    orStream_t handle = nullptr;
    OR_CHECK(orStreamCreateWithPriority(&handle, -kPools));
    return external_stream(handle);
  }

  c10::Stream stream;
  std::shared_ptr<c10::Event> end;
};

ProcessGroupOCCL::ProcessGroupOCCL(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                   c10::intrusive_ptr<Options> options, MakeGloo make_gloo)
    : Backend(rank, size),
      options_(std::move(options)),
      make_gloo_(std::move(make_gloo)),
      state_(std::make_shared<GroupState>(rank)),
      transport_(std::make_shared<Transport>(make_gloo_(store, rank, size, options_->timeout), rank, size)) {
  LiveGroups& live = LiveGroups::get();
  std::lock_guard lock(live.mutex);
  live.groups.insert(this);
}

ProcessGroupOCCL::~ProcessGroupOCCL() {
  LiveGroups& live = LiveGroups::get();
  std::lock_guard lock(live.mutex);
  live.groups.erase(this);
}

void ProcessGroupOCCL::abort_all() {
  LiveGroups& live = LiveGroups::get();
  std::lock_guard lock(live.mutex);
  for (ProcessGroupOCCL* group : live.groups) group->abort();
}

void ProcessGroupOCCL::setTimeout(std::chrono::milliseconds timeout) {
  options_->timeout = timeout;
}

void ProcessGroupOCCL::setGroupUid(const std::string& name) {
  Backend::setGroupUid(name);
  state_->set_name(name);
}

c10::intrusive_ptr<c10d::Backend> ProcessGroupOCCL::split(
    const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
    const c10::intrusive_ptr<c10d::Backend::Options>& options) {
  const auto found = std::find(ranks.begin(), ranks.end(), rank_);
  if (found == ranks.end()) return nullptr;
  return c10::make_intrusive<ProcessGroupOCCL>(store->clone(), static_cast<int>(found - ranks.begin()),
                                               static_cast<int>(ranks.size()),
                                               c10::make_intrusive<Options>(options->timeout), make_gloo_);
}

void ProcessGroupOCCL::startCoalescing() {
  std::lock_guard lock(mutex_);
  coalescing_ = true;
  coalesced_.clear();
}

WorkPtr ProcessGroupOCCL::endCoalescing() {
  std::lock_guard lock(mutex_);
  coalescing_ = false;
  if (coalesced_.empty()) return nullptr;
  return c10::make_intrusive<WorkList>(std::exchange(coalesced_, {}));
}

uint64_t ProcessGroupOCCL::getSequenceNumberForGroup() {
  std::lock_guard lock(mutex_);
  return orders_[OrderKey{Direction::kCollective, -1, 0}].operations;
}

void ProcessGroupOCCL::abort() {
  state_->fail("the program aborted the group");
  transport_->abort();
}

void ProcessGroupOCCL::shutdown() {
  if (state_->failed()) transport_->abort();
  const GilRelease waiting;
  state_->wait_for_all();
}

ProcessGroupOCCL::CommStream& ProcessGroupOCCL::comm_stream(const StreamKey& key) {
  std::unique_ptr<CommStream>& found = streams_[key];
  if (!found) found = std::make_unique<CommStream>(key.first);
  return *found;
}

c10::Device ProcessGroupOCCL::check_tensors(const Request& request) const {
  std::optional<c10::Device> device;
  for (const Tensors* tensors : {&request.inputs, &request.outputs}) {
    for (const at::Tensor& tensor : *tensors) {
      TORCH_CHECK_VALUE(on_device(tensor), request.name,
                        ": the backend occl takes tensors of the device type ", OR_DEVICE_NAME,
                        ", got one on ", tensor.defined() ? tensor.device().str() : "no device");
      TORCH_CHECK_VALUE(tensor.layout() == c10::kStrided, request.name,
                        ": the backend occl takes dense tensors, got one of layout ", tensor.layout());
      if (!device) device = tensor.device();
      TORCH_CHECK_VALUE(*device == tensor.device(), request.name,
                        ": the tensors of this rank are on two devices, ", *device, " and ", tensor.device());
    }
  }
  for (const at::Tensor& tensor : request.outputs) {
    TORCH_CHECK_VALUE(at::has_internal_overlap(tensor) != at::MemOverlap::Yes, request.name,
                      ": several elements of an output of size ", tensor.sizes(), " and strides ",
                      tensor.strides(), " have the same memory; pass a clone");
  }
  return device.value_or(c10::Device(kDevice, current_device()));
}

WorkPtr ProcessGroupOCCL::submit(Request request) {
  state_->check();
  const c10::Device device = check_tensors(request);
  check_uncaptured(device.index(), std::string("the collective ") + request.name);
  const c10::Stream current = current_stream(device.index());
  auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()),
                                                         std::vector<c10::Device>{device});
  Call call;
  call.name = request.name;
  const Tensors& described = request.inputs.empty() ? request.outputs : request.inputs;
  call.dtype = described.empty() ? -1 : static_cast<int64_t>(described[0].scalar_type());
  call.tensors = describe(described);
  // Only the root of a scatter has inputs, and only the root of a gather has outputs.
  call.tensor_count = request.root >= 0 ? 1 : static_cast<int64_t>(described.size());
  call.reduce_op = request.reduce_op;
  call.root = request.root;
  call.count = request.count;
  call.site = launch_site();
  call.timeout = request.timeout.count() > 0 ? request.timeout : options_->timeout;

  const GilRelease waiting;  // under the blocking schedule, a launch waits
  std::lock_guard lock(mutex_);
  const OrderKey key{request.direction, request.peer, request.tag};
  CommStream& comm = comm_stream({device.index(), key});
  Order& order = orders_[key];
  call.sequence = ++order.operations;
  auto operation =
      std::make_shared<Operation>(state_, transport_, std::move(call), std::move(request.body),
                                  storages_of({&request.inputs, &request.outputs, &request.factors}));
  c10::Event ready(kDevice);
  ready.record(current);
  ready.block(comm.stream);
  // Another device of this process had the previous operation; the order of the calls counts.
  if (order.last && order.last != &comm) order.last->end->block(comm.stream);
  order.last = &comm;
  operation->launch(comm.stream);
  comm.end = std::make_shared<c10::Event>(kDevice);
  comm.end->record(comm.stream);
  {
    // The future is complete for the host, and its value is ready behind the communication stream.
    const c10::StreamGuard guard(comm.stream);
    future->markCompleted(c10::IValue(request.outputs));
  }
  auto work = c10::make_intrusive<WorkOCCL>(rank_, request.type, std::move(operation), device, comm.end,
                                            std::move(future), std::move(request.outputs));
  if (coalescing_) coalesced_.push_back(work);
  return work;
}

Reduction ProcessGroupOCCL::prepare(const char* name, const c10d::ReduceOp& op, const at::Tensor& tensor,
                                    Tensors& inputs) const {
  check_reduction(name, op.op_, tensor.scalar_type());
  Reduction reduction;
  reduction.op = op.op_;
  if (reduction.scales()) {
    const auto* factor = static_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
    TORCH_CHECK_VALUE(factor != nullptr, name, ": PREMUL_SUM has no factor");
    reduction.factor = factor->double_factor;
    if (factor->tensor_factor.defined()) {
      reduction.tensor_factor = on_device(factor->tensor_factor) ? alias(factor->tensor_factor, false)
                                                                 : factor->tensor_factor.clone();
      if (on_device(factor->tensor_factor)) inputs.push_back(factor->tensor_factor);
    }
  }
  return reduction;
}

WorkPtr ProcessGroupOCCL::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const at::Tensor& tensor = single("broadcast", tensors);
  const auto root = static_cast<int>(options.rootRank);
  TORCH_CHECK_VALUE(root >= 0 && root < size_, "broadcast: there is no rank ", root, " in a group of ",
                    size_);
  Request request{"broadcast", c10d::OpType::BROADCAST, {}, tensors};
  request.timeout = options.timeout;
  request.root = root;
  request.body = [tensor = alias(tensor, true), root](Transport& transport, const Call& call) {
    return without_source(distributed::broadcast(transport, call, tensor, root));
  };
  return submit(std::move(request));
}

WorkPtr ProcessGroupOCCL::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  c10d::AllreduceCoalescedOptions all;
  static_cast<c10d::AllreduceOptions&>(all) = options;
  single("all_reduce", tensors);
  return allreduce_coalesced(tensors, all);
}

WorkPtr ProcessGroupOCCL::allreduce_coalesced(Tensors& tensors,
                                              const c10d::AllreduceCoalescedOptions& options) {
  const bool one = tensors.size() == 1;
  Request request{one ? "all_reduce" : "all_reduce_coalesced",
                  one ? c10d::OpType::ALLREDUCE : c10d::OpType::ALLREDUCE_COALESCED,
                  {},
                  tensors};
  request.timeout = options.timeout;
  request.reduce_op = options.reduceOp.op_;
  request.count = tensors.empty() ? 0 : tensors[0].numel();
  std::vector<Reduction> reductions;
  for (const at::Tensor& tensor : tensors) {
    reductions.push_back(prepare(request.name, options.reduceOp, tensor, request.factors));
  }
  request.body = [tensors = aliases(tensors, true), reductions](Transport& transport, const Call& call) {
    return in_order(tensors.size(), [=, &transport, &call](size_t i) {
      return distributed::all_reduce(transport, call, tensors[i], reductions[i]);
    });
  };
  return submit(std::move(request));
}

WorkPtr ProcessGroupOCCL::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const at::Tensor& tensor = single("reduce", tensors);
  const auto root = static_cast<int>(options.rootRank);
  TORCH_CHECK_VALUE(root >= 0 && root < size_, "reduce: there is no rank ", root, " in a group of ", size_);
  Request request{"reduce", c10d::OpType::REDUCE, {}, tensors};
  request.timeout = options.timeout;
  request.reduce_op = options.reduceOp.op_;
  request.root = root;
  request.body = [tensor = alias(tensor, true), root,
                  reduction = prepare("reduce", options.reduceOp, tensor, request.factors)](
                     Transport& transport, const Call& call) {
    return without_source(distributed::reduce(transport, call, tensor, reduction, root));
  };
  return submit(std::move(request));
}

WorkPtr ProcessGroupOCCL::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                    const c10d::AllgatherOptions& options) {
  single("all_gather", inputs);
  single("all_gather", outputs);
  return allgather_coalesced(outputs, inputs, options);
}

// Several inputs: outputs[i] are the tensors for input i.
WorkPtr ProcessGroupOCCL::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) {
  const bool one = inputs.size() == 1 && outputs.size() == 1;
  Request request{one ? "all_gather" : "all_gather_coalesced",
                  one ? c10d::OpType::ALLGATHER : c10d::OpType::ALLGATHER_COALESCED, inputs,
                  flatten(outputs)};
  request.timeout = options.timeout;
  TORCH_CHECK_VALUE(!inputs.empty() && !outputs.empty(), request.name, " takes at least one tensor");
  // c10d passes a list for each rank to the coalesced form, and a list of all ranks to the single form.
  std::vector<Tensors> per_input(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (int peer = 0; peer < size_; ++peer) {
      const size_t list = one ? 0 : static_cast<size_t>(peer), at = one ? static_cast<size_t>(peer) : i;
      TORCH_CHECK_VALUE(list < outputs.size() && at < outputs[list].size(), request.name,
                        ": there must be an output for each of ", size_, " ranks");
      per_input[i].push_back(outputs[list][at]);
    }
    const size_t given = one ? outputs[0].size() : outputs.size();
    TORCH_CHECK_VALUE(given == static_cast<size_t>(size_), request.name, ": there are ", given,
                      " outputs for ", size_, " ranks");
    check_same_size(request.name, per_input[i][static_cast<size_t>(rank_)], inputs[i]);
  }
  std::vector<Tensors> targets;
  targets.reserve(per_input.size());
  for (const Tensors& list : per_input) targets.push_back(aliases(list, true));
  request.body = [targets, inputs = aliases(inputs, false)](Transport& transport, const Call& call) {
    return in_order(inputs.size(), [=, &transport, &call](size_t i) {
      return distributed::all_gather(transport, call, targets[i], inputs[i]);
    });
  };
  return submit(std::move(request));
}

WorkPtr ProcessGroupOCCL::_allgather_base(at::Tensor& output, at::Tensor& input,
                                          const c10d::AllgatherOptions& options) {
  Tensors outputs{output}, inputs{input};
  return allgather_into_tensor_coalesced(outputs, inputs, options);
}

WorkPtr ProcessGroupOCCL::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                          const c10d::AllgatherOptions& options) {
  const bool one = inputs.size() == 1;
  Request request{one ? "all_gather_into_tensor" : "all_gather_into_tensor_coalesced",
                  one ? c10d::OpType::_ALLGATHER_BASE : c10d::OpType::ALLGATHER_COALESCED, inputs, outputs};
  request.timeout = options.timeout;
  TORCH_CHECK_VALUE(inputs.size() == outputs.size(), request.name, ": there are ", inputs.size(),
                    " inputs and ", outputs.size(), " outputs");
  std::vector<Tensors> targets;
  for (size_t i = 0; i < inputs.size(); ++i) {
    TORCH_CHECK_VALUE(outputs[i].is_contiguous() && outputs[i].numel() == inputs[i].numel() * size_ &&
                          outputs[i].scalar_type() == inputs[i].scalar_type(),
                      request.name,
                      ": output tensor size must be equal to world_size times input tensor size, ",
                      "contiguous and of the same dtype; got an output of size ", outputs[i].sizes(), " and ",
                      outputs[i].scalar_type(), ", an input of size ", inputs[i].sizes(), " and ",
                      inputs[i].scalar_type(), ", and ", size_, " ranks");
    targets.push_back(chunks(alias(outputs[i], true), size_));
  }
  request.body = [targets, inputs = aliases(inputs, false)](Transport& transport, const Call& call) {
    return in_order(inputs.size(), [=, &transport, &call](size_t i) {
      return distributed::all_gather(transport, call, targets[i], inputs[i]);
    });
  };
  return submit(std::move(request));
}

WorkPtr ProcessGroupOCCL::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                 const c10d::GatherOptions& options) {
  const at::Tensor& input = single("gather", inputs);
  const auto root = static_cast<int>(options.rootRank);
  TORCH_CHECK_VALUE(root >= 0 && root < size_, "gather: there is no rank ", root, " in a group of ", size_);
  Tensors targets;
  if (rank_ == root) {
    targets = single("gather", outputs);
    TORCH_CHECK_VALUE(targets.size() == static_cast<size_t>(size_), "gather: the root has ", targets.size(),
                      " outputs for ", size_, " ranks");
    check_same_size("gather", targets[static_cast<size_t>(root)], input);
  } else {
    TORCH_CHECK_VALUE(outputs.empty() || outputs[0].empty(), "gather: only the root has outputs");
  }
  Request request{"gather", c10d::OpType::GATHER, inputs, targets};
  request.timeout = options.timeout;
  request.root = root;
  request.body = [targets = aliases(targets, true), input = alias(input, false), root](Transport& transport,
                                                                                       const Call& call) {
    return without_source(distributed::gather(transport, call, targets, input, root));
  };
  return submit(std::move(request));
}

WorkPtr ProcessGroupOCCL::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                  const c10d::ScatterOptions& options) {
  const at::Tensor& output = single("scatter", outputs);
  const auto root = static_cast<int>(options.rootRank);
  TORCH_CHECK_VALUE(root >= 0 && root < size_, "scatter: there is no rank ", root, " in a group of ", size_);
  Tensors sources;
  if (rank_ == root) {
    sources = single("scatter", inputs);
    TORCH_CHECK_VALUE(sources.size() == static_cast<size_t>(size_), "scatter: the root has ", sources.size(),
                      " inputs for ", size_, " ranks");
    check_same_size("scatter", sources[static_cast<size_t>(root)], output);
  } else {
    TORCH_CHECK_VALUE(inputs.empty() || inputs[0].empty(), "scatter: only the root has inputs");
  }
  Request request{"scatter", c10d::OpType::SCATTER, sources, outputs};
  request.timeout = options.timeout;
  request.root = root;
  request.body = [output = alias(output, true), sources = aliases(sources, false), root](Transport& transport,
                                                                                         const Call& call) {
    return without_source(distributed::scatter(transport, call, output, sources, root));
  };
  return submit(std::move(request));
}

WorkPtr ProcessGroupOCCL::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                         const c10d::ReduceScatterOptions& options) {
  const at::Tensor& output = single("reduce_scatter", outputs);
  const Tensors& sources = single("reduce_scatter", inputs);
  TORCH_CHECK_VALUE(sources.size() == static_cast<size_t>(size_), "reduce_scatter: there are ",
                    sources.size(), " inputs for ", size_, " ranks");
  check_same_size("reduce_scatter", sources[static_cast<size_t>(rank_)], output);
  Request request{"reduce_scatter", c10d::OpType::REDUCE_SCATTER, sources, outputs};
  request.timeout = options.timeout;
  request.reduce_op = options.reduceOp.op_;
  request.body = [output = alias(output, true), sources = aliases(sources, false),
                  reduction = prepare("reduce_scatter", options.reduceOp, output, request.factors)](
                     Transport& transport, const Call& call) {
    return without_source(distributed::reduce_scatter(transport, call, output, sources, reduction));
  };
  return submit(std::move(request));
}

WorkPtr ProcessGroupOCCL::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                               const c10d::ReduceScatterOptions& options) {
  Tensors outputs{output}, inputs{input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

WorkPtr ProcessGroupOCCL::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                          const c10d::ReduceScatterOptions& options) {
  const bool one = inputs.size() == 1;
  Request request{one ? "reduce_scatter_tensor" : "reduce_scatter_tensor_coalesced",
                  one ? c10d::OpType::_REDUCE_SCATTER_BASE : c10d::OpType::COALESCED, inputs, outputs};
  request.timeout = options.timeout;
  request.reduce_op = options.reduceOp.op_;
  TORCH_CHECK_VALUE(inputs.size() == outputs.size(), request.name, ": there are ", inputs.size(),
                    " inputs and ", outputs.size(), " outputs");
  std::vector<Tensors> sources;
  std::vector<Reduction> reductions;
  for (size_t i = 0; i < inputs.size(); ++i) {
    TORCH_CHECK_VALUE(inputs[i].is_contiguous() && inputs[i].numel() == outputs[i].numel() * size_ &&
                          outputs[i].scalar_type() == inputs[i].scalar_type(),
                      request.name,
                      ": input tensor size must be equal to world_size times output tensor size, ",
                      "contiguous and of the same dtype; got an input of size ", inputs[i].sizes(), " and ",
                      inputs[i].scalar_type(), ", an output of size ", outputs[i].sizes(), " and ",
                      outputs[i].scalar_type(), ", and ", size_, " ranks");
    sources.push_back(chunks(alias(inputs[i], false), size_));
    reductions.push_back(prepare(request.name, options.reduceOp, inputs[i], request.factors));
  }
  request.body = [outputs = aliases(outputs, true), sources, reductions](Transport& transport,
                                                                         const Call& call) {
    return in_order(outputs.size(), [=, &transport, &call](size_t i) {
      return distributed::reduce_scatter(transport, call, outputs[i], sources[i], reductions[i]);
    });
  };
  return submit(std::move(request));
}

WorkPtr ProcessGroupOCCL::alltoall_base(at::Tensor& output, at::Tensor& input,
                                        std::vector<int64_t>& output_sizes, std::vector<int64_t>& input_sizes,
                                        const c10d::AllToAllOptions& options) {
  constexpr const char* kName = "all_to_all_single";
  const auto out_sizes = split_sizes(kName, output, output_sizes, size_);
  const auto in_sizes = split_sizes(kName, input, input_sizes, size_);
  const auto me = static_cast<size_t>(rank_);
  const Tensors targets = chunks(alias(output, true), out_sizes);
  const Tensors sources = chunks(alias(input, false), in_sizes);
  check_same_size(kName, targets[me], sources[me]);
  Request request{kName, c10d::OpType::ALLTOALL_BASE, {input}, {output}};
  request.timeout = options.timeout;
  request.body = [targets, sources](Transport& transport, const Call& call) {
    return without_source(distributed::all_to_all(transport, call, targets, sources));
  };
  return submit(std::move(request));
}

WorkPtr ProcessGroupOCCL::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  TORCH_CHECK_VALUE(
      outputs.size() == static_cast<size_t>(size_) && inputs.size() == static_cast<size_t>(size_),
      "all_to_all: there are ", outputs.size(), " outputs and ", inputs.size(), " inputs for ", size_,
      " ranks");
  const auto me = static_cast<size_t>(rank_);
  check_same_size("all_to_all", outputs[me], inputs[me]);
  Request request{"all_to_all", c10d::OpType::ALLTOALL, inputs, outputs};
  request.timeout = options.timeout;
  request.body = [targets = aliases(outputs, true), sources = aliases(inputs, false)](Transport& transport,
                                                                                      const Call& call) {
    return without_source(distributed::all_to_all(transport, call, targets, sources));
  };
  return submit(std::move(request));
}

WorkPtr ProcessGroupOCCL::send(Tensors& tensors, int peer, int tag) {
  const at::Tensor& tensor = single("send", tensors);
  TORCH_CHECK_VALUE(peer >= 0 && peer < size_ && peer != rank_, "send: there is no other rank ", peer,
                    " in a group of ", size_);
  Request request{"send", c10d::OpType::SEND, tensors, {}};
  check_tag(tag);
  request.direction = Direction::kSend;
  request.peer = peer;
  request.tag = tag;
  request.body = [tensor = alias(tensor, false), peer, tag](Transport& transport, const Call& call) {
    return [=, &transport, &call] {
      transport.send(call, peer, tag, bytes_of(tensor.is_contiguous() ? tensor : tensor.contiguous()));
      return -1;
    };
  };
  return submit(std::move(request));
}

WorkPtr ProcessGroupOCCL::recv(Tensors& tensors, int peer, int tag) {
  TORCH_CHECK_VALUE(peer >= 0 && peer < size_ && peer != rank_, "recv: there is no other rank ", peer,
                    " in a group of ", size_);
  const at::Tensor& tensor = single("recv", tensors);
  Request request{"recv", c10d::OpType::RECV, {}, tensors};
  check_tag(tag);
  request.direction = Direction::kReceive;
  request.peer = peer;
  request.tag = tag;
  request.body = [tensor = alias(tensor, true), peer, tag](Transport& transport, const Call& call) {
    return [=, &transport, &call] {
      const at::Tensor target =
          tensor.is_contiguous() ? tensor : at::empty_like(tensor, at::MemoryFormat::Contiguous);
      const int source = transport.recv(call, peer, tag, bytes_of(target));
      if (!target.is_same(tensor)) tensor.copy_(target);
      return source;
    };
  };
  return submit(std::move(request));
}

WorkPtr ProcessGroupOCCL::recvAnysource(Tensors& tensors, int tag) {
  const at::Tensor& tensor = single("recv", tensors);
  Request request{"recv", c10d::OpType::RECVANYSOURCE, {}, tensors};
  check_tag(tag);
  request.direction = Direction::kReceive;
  request.tag = tag;
  request.body = [tensor = alias(tensor, true), tag](Transport& transport, const Call& call) {
    return [=, &transport, &call] {
      const at::Tensor target =
          tensor.is_contiguous() ? tensor : at::empty_like(tensor, at::MemoryFormat::Contiguous);
      const int source = transport.recv(call, Transport::kAnyRank, tag, bytes_of(target));
      if (!target.is_same(tensor)) tensor.copy_(target);
      return source;
    };
  };
  return submit(std::move(request));
}

WorkPtr ProcessGroupOCCL::barrier(const c10d::BarrierOptions& options) {
  Request request{"barrier", c10d::OpType::BARRIER, {}, {}};
  request.timeout = options.timeout;
  request.body = [](Transport& transport, const Call& call) {
    return without_source(distributed::barrier(transport, call));
  };
  return submit(std::move(request));
}

}  // namespace openreg::distributed
