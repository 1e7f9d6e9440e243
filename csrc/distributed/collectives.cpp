#include "distributed/collectives.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>

namespace openreg::distributed {
namespace {

// Below this sum of bytes, every rank gets the data of all ranks and reduces it itself: one round instead of
// two.
constexpr size_t kDirectBytes = size_t{32} << 10;

// Large parts are received and reduced in pieces of this size, which stay in the cache. A multiple of every
// dtype's size.
constexpr size_t kPieceBytes = size_t{1} << 20;

bool is_plain(const at::Tensor& tensor) {
  return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

at::Tensor packed(const at::Tensor& input) {
  return is_plain(input) ? input : input.resolve_conj().resolve_neg().contiguous();
}

Tensors packed(const Tensors& inputs) {
  Tensors result;
  for (const at::Tensor& input : inputs) result.push_back(packed(input));
  return result;
}

/// A contiguous tensor that becomes the value of `target`: itself, or a buffer that store() copies.
class Output {
 public:
  explicit Output(const at::Tensor& target, bool in_place = true)
      : target_(target),
        buffer_(in_place && is_plain(target) ? target : at::empty(target.sizes(), target.options())) {}
  const at::Tensor& buffer() const { return buffer_; }
  Bytes bytes() const { return bytes_of(buffer_); }
  void store() const {
    if (!buffer_.is_same(target_)) target_.copy_(buffer_);
  }

 private:
  at::Tensor target_;
  at::Tensor buffer_;
};

bool shares_memory(const at::Tensor& output, const Tensors& inputs) {
  return std::any_of(inputs.begin(), inputs.end(),
                     [&](const at::Tensor& input) { return input.is_alias_of(output); });
}

std::vector<Output> as_outputs(const Tensors& tensors) {
  return {tensors.begin(), tensors.end()};
}

std::vector<Bytes> all_bytes(const Tensors& tensors) {
  std::vector<Bytes> result;
  result.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) result.push_back(bytes_of(tensor));
  return result;
}

std::vector<Bytes> all_bytes(const std::vector<Output>& outputs) {
  std::vector<Bytes> result;
  result.reserve(outputs.size());
  for (const Output& output : outputs) result.push_back(output.bytes());
  return result;
}

void store_all(const std::vector<Output>& outputs) {
  for (const Output& output : outputs) output.store();
}

std::vector<Bytes> nothing(const Transport& transport) {
  return std::vector<Bytes>(static_cast<size_t>(transport.size()));
}

// Host memory for the values of each rank; that of this rank is `own`.
Tensors buffers_like(const Transport& transport, const at::Tensor& own) {
  Tensors result;
  for (int rank = 0; rank < transport.size(); ++rank) {
    result.push_back(rank == transport.rank() ? own : at::empty(own.sizes(), own.options()));
  }
  return result;
}

// The reduction of the values of all ranks in the order of the ranks, so that all ranks get the same bits.
// `result` is none of the values.
void reduce_all(const at::Tensor& result, const Tensors& values, const Reduction& reduction) {
  combine(result, values[0], values.size() > 1 ? values[1] : at::Tensor(), reduction.combine_op());
  for (size_t rank = 2; rank < values.size(); ++rank)
    reduce_into(result, values[rank], reduction.combine_op());
  finish_reduction(reduction, result, static_cast<int>(values.size()));
}

// The same into the values of this rank. Overwrites the values of other ranks.
void reduce_in_place(const Tensors& values, size_t rank, const Reduction& reduction) {
  const auto op = reduction.combine_op();
  for (size_t before = 1; before < rank; ++before) reduce_into(values[0], values[before], op);
  if (rank > 0) reduce_into(values[rank], values[0], op);
  for (size_t after = rank + 1; after < values.size(); ++after) reduce_into(values[rank], values[after], op);
  finish_reduction(reduction, values[rank], static_cast<int>(values.size()));
}

// The values of this rank as the reduction takes them.
at::Tensor scaled(const at::Tensor& input, const Reduction& reduction) {
  if (!reduction.scales()) return packed(input);
  at::Tensor copy = packed(input).clone();
  scale(reduction, copy);
  return copy;
}

// The tensor becomes the reduction of the values of all ranks. It may be one of them.
void store_reduced(const at::Tensor& tensor, const Tensors& values, const Reduction& reduction) {
  const at::Tensor result = at::empty(values[0].sizes(), values[0].options());
  reduce_all(result, values, reduction);
  tensor.copy_(result);
}

// A part for each rank; their sizes differ by one element at most.
Tensors parts_of(const Transport& transport, const at::Tensor& flat) {
  std::vector<int64_t> sizes;
  sizes.reserve(static_cast<size_t>(transport.size()));
  for (int rank = 0; rank < transport.size(); ++rank) {
    sizes.push_back(flat.numel() * (rank + 1) / transport.size() - flat.numel() * rank / transport.size());
  }
  return chunks(flat, sizes);
}

}  // namespace

Tensors chunks(const at::Tensor& tensor, int count) {
  TORCH_CHECK_VALUE(tensor.numel() % count == 0, "a tensor of ", tensor.numel(),
                    " elements cannot be divided between ", count, " ranks");
  return chunks(tensor.view(-1), std::vector<int64_t>(static_cast<size_t>(count), tensor.numel() / count));
}

Tensors chunks(const at::Tensor& tensor, const std::vector<int64_t>& sizes) {
  Tensors result;
  int64_t begin = 0;
  for (const int64_t size : sizes) {
    result.push_back(tensor.narrow(0, begin, size));
    begin += size;
  }
  return result;
}

namespace {

// An exchange, and then `after`.
template <typename After>
Rest exchange(Transport& transport, const Call& call, std::vector<Bytes> to, std::vector<Bytes> from,
              After after) {
  return [&transport, exchange = transport.begin(call, std::move(to), std::move(from)),
          after = std::move(after)] {
    transport.finish(exchange);
    after();
  };
}

size_t at_rank(const Transport& transport) {
  return static_cast<size_t>(transport.rank());
}

// Every rank gets the values of all ranks.
Rest all_reduce_directly(Transport& transport, const Call& call, const at::Tensor& tensor,
                         const Reduction& reduction) {
  const at::Tensor mine = scaled(tensor, reduction);
  const Tensors all = buffers_like(transport, mine);
  return exchange(transport, call, std::vector<Bytes>(all.size(), bytes_of(mine)), all_bytes(all),
                  [=] { store_reduced(tensor, all, reduction); });
}

// Pieces of all ranks as tensors with the options of `like`.
Tensors as_tensors(const std::vector<Bytes>& pieces, const at::Tensor& like) {
  Tensors result;
  result.reserve(pieces.size());
  for (const Bytes& piece : pieces) {
    result.push_back(
        at::from_blob(piece.data, {static_cast<int64_t>(piece.size / like.element_size())}, like.options()));
  }
  return result;
}

}  // namespace

// A large tensor: every rank reduces a part of it in place, and sends each reduced piece to all ranks.
Rest all_reduce(Transport& transport, const Call& call, const at::Tensor& tensor,
                const Reduction& reduction) {
  if (tensor.nbytes() * static_cast<size_t>(transport.size()) <= kDirectBytes || transport.size() == 1) {
    return all_reduce_directly(transport, call, tensor, reduction);
  }
  const at::Tensor values = packed(tensor);
  scale(reduction, values);
  const Tensors parts = parts_of(transport, values.view(-1));
  const std::vector<Bytes> sizes(parts.size(), bytes_of(parts[at_rank(transport)]));
  return [=, &transport, exchange = transport.begin(call, all_bytes(parts), sizes)] {
    const Transport::Consume reduce_piece = [&](size_t, const std::vector<Bytes>& pieces) {
      reduce_in_place(as_tensors(pieces, values), at_rank(transport), reduction);
    };
    transport.finish_in_pieces(exchange, kPieceBytes, reduce_piece, /*share=*/true);
    if (!values.is_same(tensor)) tensor.copy_(values);
  };
}

Rest broadcast(Transport& transport, const Call& call, const at::Tensor& tensor, int root) {
  std::vector<Bytes> to = nothing(transport), from = nothing(transport);
  if (transport.rank() == root) {
    to.assign(to.size(), bytes_of(packed(tensor)));
    to[static_cast<size_t>(root)] = {};
    return exchange(transport, call, std::move(to), std::move(from), [] {});
  }
  const Output output(tensor);
  from[static_cast<size_t>(root)] = output.bytes();
  return exchange(transport, call, std::move(to), std::move(from), [output] { output.store(); });
}

Rest reduce(Transport& transport, const Call& call, const at::Tensor& tensor, const Reduction& reduction,
            int root) {
  const at::Tensor mine = scaled(tensor, reduction);
  std::vector<Bytes> to = nothing(transport);
  if (transport.rank() != root) {
    to[static_cast<size_t>(root)] = bytes_of(mine);
    return exchange(transport, call, std::move(to), nothing(transport), [] {});
  }
  const Tensors all = buffers_like(transport, mine);
  std::vector<Bytes> from = all_bytes(all);
  from[static_cast<size_t>(root)] = {};
  return exchange(transport, call, std::move(to), std::move(from),
                  [=] { store_reduced(tensor, all, reduction); });
}

Rest all_gather(Transport& transport, const Call& call, const Tensors& outputs, const at::Tensor& input) {
  const std::vector<Output> results = as_outputs(outputs);
  return exchange(transport, call, std::vector<Bytes>(outputs.size(), bytes_of(packed(input))),
                  all_bytes(results), [results] { store_all(results); });
}

Rest gather(Transport& transport, const Call& call, const Tensors& outputs, const at::Tensor& input,
            int root) {
  const std::vector<Output> results = as_outputs(outputs);
  std::vector<Bytes> to = nothing(transport);
  to[static_cast<size_t>(root)] = bytes_of(packed(input));
  return exchange(transport, call, std::move(to), results.empty() ? nothing(transport) : all_bytes(results),
                  [results] { store_all(results); });
}

Rest scatter(Transport& transport, const Call& call, const at::Tensor& output, const Tensors& inputs,
             int root) {
  const Output result(output);
  std::vector<Bytes> from = nothing(transport);
  from[static_cast<size_t>(root)] = result.bytes();
  return exchange(transport, call, inputs.empty() ? nothing(transport) : all_bytes(packed(inputs)),
                  std::move(from), [result] { result.store(); });
}

Rest reduce_scatter(Transport& transport, const Call& call, const at::Tensor& output, const Tensors& inputs,
                    const Reduction& reduction) {
  Tensors values;
  for (const at::Tensor& input : inputs) values.push_back(scaled(input, reduction));
  const at::Tensor mine = values[at_rank(transport)];
  const bool large = std::all_of(values.begin(), values.end(), [&](const at::Tensor& value) {
    return value.nbytes() == mine.nbytes() && value.nbytes() > kPieceBytes;
  });
  // An output inside of an input would be written while the input is sent or reduced.
  const Output result(output, !shares_memory(output, values));
  const at::Tensor reduced = result.buffer().view(-1);
  if (!large) {
    const Tensors all = buffers_like(transport, mine.view(-1));
    return exchange(transport, call, all_bytes(values), all_bytes(all), [=] {
      reduce_all(reduced, all, reduction);
      result.store();
    });
  }
  const std::vector<Bytes> sizes(values.size(), bytes_of(mine));
  return [=, &transport, exchange = transport.begin(call, all_bytes(values), sizes)] {
    const Transport::Consume reduce_piece = [&](size_t begin, const std::vector<Bytes>& pieces) {
      const Tensors all = as_tensors(pieces, reduced);
      const auto first = static_cast<int64_t>(begin / reduced.element_size());
      reduce_all(reduced.narrow(0, first, all[0].numel()), all, reduction);
    };
    transport.finish_in_pieces(exchange, kPieceBytes, reduce_piece);
    result.store();
  };
}

Rest all_to_all(Transport& transport, const Call& call, const Tensors& outputs, const Tensors& inputs) {
  std::vector<Output> results;
  for (const at::Tensor& output : outputs) results.emplace_back(output, !shares_memory(output, inputs));
  return exchange(transport, call, all_bytes(packed(inputs)), all_bytes(results),
                  [results] { store_all(results); });
}

Rest barrier(Transport& transport, const Call& call) {
  return exchange(transport, call, nothing(transport), nothing(transport), [] {});
}

void send(Transport& transport, const Call& call, const at::Tensor& tensor, int peer, int tag) {
  transport.send(call, peer, tag, bytes_of(packed(tensor)));
}

int recv(Transport& transport, const Call& call, const at::Tensor& tensor, int peer, int tag) {
  const Output output(tensor);
  const int source = transport.recv(call, peer, tag, output.bytes());
  output.store();
  return source;
}

}  // namespace openreg::distributed
