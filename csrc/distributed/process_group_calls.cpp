// The calls of c10d::Backend: each checks its arguments, and submits an operation with aliases of its
// tensors.
#include "device/on_device.h"
#include "distributed/process_group.h"
#include "kernel/arg_alias.h"

#include <numeric>

namespace openreg::distributed {
namespace {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

int checked_rank(const char* name, int64_t rank, int size) {
  TORCH_CHECK_VALUE(rank >= 0 && rank < size, name, ": there is no rank ", rank, " in a group of ", size);
  return static_cast<int>(rank);
}

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

}  // namespace

Reduction ProcessGroupOCCL::prepare(const char* name, const c10d::ReduceOp& op, const at::Tensor& tensor,
                                    Tensors& factors) const {
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
      if (on_device(factor->tensor_factor)) factors.push_back(factor->tensor_factor);
    }
  }
  return reduction;
}

WorkPtr ProcessGroupOCCL::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const at::Tensor& tensor = single("broadcast", tensors);
  const int root = checked_rank("broadcast", options.rootRank, size_);
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
  const int root = checked_rank("reduce", options.rootRank, size_);
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
  const size_t given = one ? outputs[0].size() : outputs.size();
  TORCH_CHECK_VALUE(given == static_cast<size_t>(size_), request.name, ": there are ", given, " outputs for ",
                    size_, " ranks");
  // c10d passes a list for each rank to the coalesced form, and a list of all ranks to the single form.
  std::vector<Tensors> per_input(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (int peer = 0; peer < size_; ++peer) {
      const size_t list = one ? 0 : static_cast<size_t>(peer), at = one ? static_cast<size_t>(peer) : i;
      TORCH_CHECK_VALUE(at < outputs[list].size(), request.name, ": there must be an output for each of ",
                        size_, " ranks");
      per_input[i].push_back(outputs[list][at]);
    }
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
  const int root = checked_rank("gather", options.rootRank, size_);
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
  const int root = checked_rank("scatter", options.rootRank, size_);
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
  checked_rank("send", peer, size_);
  Request request{"send", c10d::OpType::SEND, tensors, {}};
  check_tag(tag);
  request.direction = Direction::kSend;
  request.peer = peer;
  request.tag = tag;
  request.body = [tensor = alias(tensor, false), peer, tag](Transport& transport, const Call& call) {
    return [=, &transport, &call] {
      distributed::send(transport, call, tensor, peer, tag);
      return -1;
    };
  };
  return submit(std::move(request));
}

WorkPtr ProcessGroupOCCL::recv(Tensors& tensors, int peer, int tag) {
  checked_rank("recv", peer, size_);
  return receive(tensors, c10d::OpType::RECV, peer, tag);
}

WorkPtr ProcessGroupOCCL::recvAnysource(Tensors& tensors, int tag) {
  return receive(tensors, c10d::OpType::RECVANYSOURCE, Transport::kAnyRank, tag);
}

WorkPtr ProcessGroupOCCL::receive(Tensors& tensors, c10d::OpType type, int peer, int tag) {
  const at::Tensor& tensor = single("recv", tensors);
  Request request{"recv", type, {}, tensors};
  check_tag(tag);
  request.direction = Direction::kReceive;
  request.peer = peer;
  request.tag = tag;
  request.body = [tensor = alias(tensor, true), peer, tag](Transport& transport, const Call& call) {
    return [=, &transport, &call] { return distributed::recv(transport, call, tensor, peer, tag); };
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
