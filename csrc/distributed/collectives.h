// The collective algorithms, on CPU aliases of device tensors.
//
// Every collective is an exchange: each rank sends some bytes to each other rank. So one function of the
// transport checks and moves the data of all of them, directly between device memory and the network. Only
// large sums use an algorithm of Gloo, which sends less. Non-contiguous tensors are packed.
//
// A function begins the collective without blocking, on the thread that runs the kernel, and returns the
// rest, which blocks. Tensors are aliases of device tensors, or CPU tensors.
#pragma once

#include "distributed/reduction.h"
#include "distributed/transport/transport.h"

#include <functional>
#include <vector>

namespace openreg::distributed {

using Tensors = std::vector<at::Tensor>;
using Rest = std::function<void()>;

Rest all_reduce(Transport& transport, const Call& call, const at::Tensor& tensor, const Reduction& reduction);
Rest broadcast(Transport& transport, const Call& call, const at::Tensor& tensor, int root);
Rest reduce(Transport& transport, const Call& call, const at::Tensor& tensor, const Reduction& reduction,
            int root);
/// outputs[i]: from rank i. The sizes may differ.
Rest all_gather(Transport& transport, const Call& call, const Tensors& outputs, const at::Tensor& input);
/// `outputs` is empty except at the root.
Rest gather(Transport& transport, const Call& call, const Tensors& outputs, const at::Tensor& input,
            int root);
/// `inputs` is empty except at the root.
Rest scatter(Transport& transport, const Call& call, const at::Tensor& output, const Tensors& inputs,
             int root);
/// inputs[i]: for rank i.
Rest reduce_scatter(Transport& transport, const Call& call, const at::Tensor& output, const Tensors& inputs,
                    const Reduction& reduction);
Rest all_to_all(Transport& transport, const Call& call, const Tensors& outputs, const Tensors& inputs);
Rest barrier(Transport& transport, const Call& call);

void send(Transport& transport, const Call& call, const at::Tensor& tensor, int peer, int tag);
/// Returns the rank of the sender.
int recv(Transport& transport, const Call& call, const at::Tensor& tensor, int peer, int tag);

/// Equal parts of a contiguous tensor along its first dimension, one for each rank, or parts of the given
/// sizes.
Tensors chunks(const at::Tensor& tensor, int count);
Tensors chunks(const at::Tensor& tensor, const std::vector<int64_t>& sizes);

}  // namespace openreg::distributed
