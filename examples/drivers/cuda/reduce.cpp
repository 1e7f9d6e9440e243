// Reductions: sum, max and min. The kernels are in kernels/reduce.cu.
//
// Threads of a block share outputs. If the outputs are too few to fill the GPU, several blocks have a part of
// the elements of each, and a second kernel combines the parts in a fixed order: results do not change
// between runs.
//
// Another chip: the same two questions. Which elements are neighbors in memory, and how many outputs are
// there?
#include "function.h"
#include "openreg/kernel_library.h"

#include <algorithm>
#include <bit>

namespace nv {
namespace {

// As in kernels/reduce.cu.
struct Dims {
  uint32_t count;
  int64_t sizes[OR_KERNEL_DIMS];
  int64_t strides[OR_KERNEL_DIMS];
};

struct ReduceArgs {
  const void* input;
  void* output;
  void* partial;
  uint64_t outputs, reduced, chunk;
  uint32_t lanes, inner;
  double scale;
  int64_t int_scale;
  Dims kept, folded;
  int64_t output_strides[OR_KERNEL_DIMS];
};

// Both kernels; the second only if there are several splits.
struct ReduceLaunch {
  CUfunction reduce, combine;
  unsigned grid, splits, combine_grid;
  ReduceArgs args;

  orError_t operator()(Stream& stream) const {
    ReduceArgs used = args;
    if (splits > 1) NV_RETURN_IF_ERROR(stream.workspace().scratch(used.partial));
    unsigned count = splits;
    void* parameters[] = {&used, &count};
    NV_RETURN_IF_ERROR(
        NV_CALL(launch, reduce, grid, splits, 1u, kBlock, 1u, 1u, 0u, stream.native(), parameters, nullptr));
    if (splits == 1) return orSuccess;
    return NV_CALL(launch, combine, combine_grid, 1u, 1u, kBlock, 1u, 1u, 0u, stream.native(), parameters,
                   nullptr);
  }
};

// Appends a dimension, or merges it with the previous one.
void add_dim(Dims& dims, int64_t size, int64_t stride, int64_t* output_strides, int64_t output_stride) {
  if (dims.count > 0) {
    const uint32_t last = dims.count - 1;
    const bool merges = stride == dims.strides[last] * dims.sizes[last] &&
                        (!output_strides || output_stride == output_strides[last] * dims.sizes[last]);
    if (merges) {
      dims.sizes[last] *= size;
      return;
    }
  }
  dims.sizes[dims.count] = size;
  dims.strides[dims.count] = stride;
  if (output_strides) output_strides[dims.count] = output_stride;
  ++dims.count;
}

class Reduction final : public Function {
 public:
  Reduction(Device& device, const std::string& name, unsigned sum_size, std::vector<std::string> defines)
      : Function(name),
        device_(device),
        program_(device, {kReduceSource, std::move(defines)}),
        sum_size_(sum_size) {}
  const Source* source() const override { return &program_.source(); }

  orError_t launch(Stream& stream, const orLaunchConfig&, const void* given, size_t,
                   const orObserver* observer) override {
    if (!ready_.load(std::memory_order_acquire)) [[unlikely]]
      NV_RETURN_IF_ERROR(prepare());
    ReduceLaunch launch{reduce_, combine_, 1, 1, 1, {}};
    translate(*static_cast<const orElementwiseArgs*>(given), launch.args);
    split(launch);
    return stream.submit(launch, info(), observer);
  }

 private:
  orError_t prepare() {
    const Current current(device_);
    const std::lock_guard lock(mutex_);
    NV_RETURN_IF_ERROR(program_.load());
    NV_RETURN_IF_ERROR(program_.find("reduce", reduce_));
    NV_RETURN_IF_ERROR(program_.find("combine", combine_));
    ready_.store(true, std::memory_order_release);
    return orSuccess;
  }

  // A reduced dimension is one in which the output has the stride 0.
  static void translate(const orElementwiseArgs& given, ReduceArgs& args) {
    args.input = given.data[1];
    args.output = given.data[0];
    args.outputs = args.reduced = 1;
    args.scale = given.scalar;
    args.int_scale = given.int_scalar;
    for (uint32_t dim = 0; dim < given.dims; ++dim) {
      const int64_t size = given.sizes[dim];
      if (size == 1) continue;
      if (given.strides[0][dim] == 0) {
        add_dim(args.folded, size, given.strides[1][dim], nullptr, 0);
        args.reduced *= static_cast<uint64_t>(size);
      } else {
        add_dim(args.kept, size, given.strides[1][dim], args.output_strides, given.strides[0][dim]);
        args.outputs *= static_cast<uint64_t>(size);
      }
    }
    if (args.folded.count == 0) add_dim(args.folded, 1, 0, nullptr, 0);
  }

  // Chooses the shape of blocks, and how many share an output.
  void split(ReduceLaunch& launch) const {
    ReduceArgs& args = launch.args;
    const auto distance = [](const Dims& dims) { return dims.count ? std::abs(dims.strides[0]) : INT64_MAX; };
    args.inner = distance(args.folded) <= distance(args.kept);
    // Threads along the neighbors in memory: up to a whole block, or at least 32 outputs.
    const uint64_t most = args.inner ? kBlock : kBlock / 32;
    args.lanes = static_cast<uint32_t>(std::min<uint64_t>(std::bit_ceil(args.reduced), most));
    if (!args.inner && args.outputs < kBlock / args.lanes) {
      const auto outputs = std::bit_ceil(args.outputs);
      args.lanes = static_cast<uint32_t>(std::min<uint64_t>(std::bit_ceil(args.reduced), kBlock / outputs));
    }
    const uint64_t groups = kBlock / args.lanes;
    const uint64_t blocks = (args.outputs + groups - 1) / groups;
    launch.grid = static_cast<unsigned>(blocks);
    launch.splits = 1;
    const uint64_t wanted = static_cast<uint64_t>(device_.processors) * 4;
    if (blocks < wanted) {
      const uint64_t per_block = args.lanes * uint64_t{8};  // elements that make a block worth its start
      const uint64_t useful = std::max<uint64_t>(args.reduced / per_block, 1);
      const uint64_t fits = std::max<uint64_t>(Workspace::kScratch / (args.outputs * sum_size_), 1);
      launch.splits =
          static_cast<unsigned>(std::min({(wanted + blocks - 1) / blocks, useful, fits, uint64_t{1024}}));
    }
    args.chunk = (args.reduced + launch.splits - 1) / launch.splits;
    launch.combine_grid = blocks_for(device_, args.outputs);
  }

  Device& device_;
  Program program_;
  const unsigned sum_size_;
  std::atomic<bool> ready_{false};
  std::mutex mutex_;  // guards the kernels until ready_
  CUfunction reduce_ = nullptr, combine_ = nullptr;
};

}  // namespace

std::unique_ptr<Function> make_reduction(Device& device, const std::string& name, std::string_view operation,
                                         const Dtype& dtype) {
  const bool sum = operation == "sum";
  const std::string compute = dtype.compute;
  const std::string type = sum && !dtype.floating ? "int64" : compute;
  std::string least = "-infinity<SUM>()", most = "infinity<SUM>()";
  if (compute == "bool") least = "false", most = "true";
  if (compute == "uint8") least = "0", most = "255";
  if (compute == "int8" || compute == "int16" || compute == "int32" || compute == "int64") {
    most = "(SUM)(~0ull >> " + std::to_string(65 - 8 * dtype.size) + ")";
    least = "(SUM)(1ull << " + std::to_string(8 * dtype.size - 1) + ")";
  }
  const unsigned sum_size = type == "int64" || type == "double" ? 8 : 4;
  std::vector<std::string> defines = {"IN=" + std::string(dtype.type), "SUM=" + type,
                                      "OP=op::" + std::string(operation) + "_", "LEAST=" + least,
                                      "MOST=" + most};
  defines.push_back(dtype.floating ? "FLOATING=1" : "FLOATING=0");
  defines.push_back(sum ? "SCALED=1" : "SCALED=0");
  return std::make_unique<Reduction>(device, name, sum_size, std::move(defines));
}

}  // namespace nv
