// Element-wise functions: unary, binary, ternary, compare, fill, where and copy. The kernels are in
// kernels/elementwise.cu.
//
// Another chip: what costs time here is the host. The argument block of the runtime has 16 dimensions; almost
// all calls have one, for which a short block and a simple kernel are enough.
#include "function.h"
#include "openreg/kernel_library.h"

#include <bit>

namespace nv {
namespace {

struct Scalar {
  double number;
  int64_t integer;
};

// As in kernels/elementwise.cu.
struct FlatArgs {
  void* data[OR_KERNEL_OPERANDS];
  uint64_t count;
  Scalar scalar;
  uint32_t broadcast;
};

struct StridedArgs {
  void* data[OR_KERNEL_OPERANDS];
  uint64_t count;
  Scalar scalar;
  uint32_t dims;
  int64_t sizes[OR_KERNEL_DIMS];
  int64_t strides[OR_KERNEL_DIMS][OR_KERNEL_OPERANDS];
};

// The macros of the source, and the sizes of the elements.
struct Shape {
  std::vector<std::string> defines;
  int operands;
  unsigned sizes[OR_KERNEL_OPERANDS];
};

class Elementwise final : public Function {
 public:
  Elementwise(Device& device, const std::string& name, const Shape& shape)
      : Function(name),
        device_(device),
        program_(device, {kElementwiseSource, shape.defines}),
        shape_(shape) {
    vector_ = 16 / std::max(shape.sizes[0], shape.sizes[shape.operands - 1]);
  }
  const Source* source() const override { return &program_.source(); }
  orError_t launch(Stream& stream, const orLaunchConfig&, const void* args, size_t,
                   const orObserver* observer) override {
    const auto& given = *static_cast<const orElementwiseArgs*>(args);
    if (!ready_.load(std::memory_order_acquire)) [[unlikely]]
      NV_RETURN_IF_ERROR(prepare());
    FlatArgs flat;
    if (is_flat(given, flat)) return launch_flat(stream, given, flat, observer);
    return launch_strided(stream, given, observer);
  }

 private:
  orError_t prepare() {
    const Current current(device_);
    const std::lock_guard lock(mutex_);
    NV_RETURN_IF_ERROR(program_.load());
    NV_RETURN_IF_ERROR(program_.find("flat", flat_));
    NV_RETURN_IF_ERROR(program_.find("unaligned", unaligned_));
    NV_RETURN_IF_ERROR(program_.find("small", small_));
    NV_RETURN_IF_ERROR(program_.find("large", large_));
    ready_.store(true, std::memory_order_release);
    return orSuccess;
  }

  // Whether all operands are contiguous in the order of the dimensions, or have one element for all.
  bool is_flat(const orElementwiseArgs& args, FlatArgs& flat) const {
    flat.broadcast = 0;
    for (int i = 1; i < shape_.operands; ++i) {
      bool same = true;
      for (uint32_t dim = 0; dim < args.dims; ++dim)
        same = same && (args.strides[i][dim] == 0 || args.sizes[dim] == 1);
      if (same) flat.broadcast |= 1u << i;
    }
    int64_t count = 1;
    for (uint32_t dim = 0; dim < args.dims; ++dim) {
      for (int i = 0; i < shape_.operands && args.sizes[dim] != 1; ++i) {
        if (flat.broadcast >> i & 1) continue;
        if (args.strides[i][dim] != count * static_cast<int64_t>(shape_.sizes[i])) return false;
      }
      count *= args.sizes[dim];
    }
    flat.count = static_cast<uint64_t>(count);
    return true;
  }

  orError_t launch_flat(Stream& stream, const orElementwiseArgs& given, const FlatArgs& flat,
                        const orObserver* observer) {
    KernelLaunch<FlatArgs> launch{flat_, 1, kBlock, flat};
    launch.args.scalar = {given.scalar, given.int_scalar};
    uintptr_t misaligned = 0;
    for (int i = 0; i < shape_.operands; ++i) {
      launch.args.data[i] = given.data[i];
      if (!(flat.broadcast >> i & 1)) {
        misaligned |= std::bit_cast<uintptr_t>(given.data[i]) & (shape_.sizes[i] * vector_ - 1);
      }
    }
    if (misaligned) launch.function = unaligned_;
    launch.grid = blocks_for(device_, misaligned ? flat.count : flat.count / vector_ + 1);
    return stream.submit(launch, info(), observer);
  }

  orError_t launch_strided(Stream& stream, const orElementwiseArgs& given, const orObserver* observer) {
    KernelLaunch<StridedArgs> launch;
    StridedArgs& args = launch.args;
    args.scalar = {given.scalar, given.int_scalar};
    args.dims = 0;
    args.count = 1;
    for (uint32_t dim = 0; dim < given.dims; ++dim) add_dim(given, dim, args);
    for (int i = 0; i < shape_.operands; ++i) args.data[i] = given.data[i];
    launch.function = args.count <= uint64_t{1} << 31 ? small_ : large_;
    launch.grid = blocks_for(device_, args.count);
    launch.block = kBlock;
    return stream.submit(launch, info(), observer);
  }

  // Appends the dimension, or merges it with the previous one.
  void add_dim(const orElementwiseArgs& given, uint32_t dim, StridedArgs& args) const {
    const int64_t size = given.sizes[dim];
    if (size == 1 && (args.dims > 0 || dim + 1 < given.dims)) return;
    args.count *= static_cast<uint64_t>(size);
    bool merges = args.dims > 0;
    for (int i = 0; i < shape_.operands && merges; ++i) {
      merges = given.strides[i][dim] == args.strides[args.dims - 1][i] * args.sizes[args.dims - 1];
    }
    if (merges) {
      args.sizes[args.dims - 1] *= size;
      return;
    }
    args.sizes[args.dims] = size;
    for (int i = 0; i < shape_.operands; ++i) args.strides[args.dims][i] = given.strides[i][dim];
    ++args.dims;
  }

  Device& device_;
  Program program_;
  const Shape shape_;
  unsigned vector_;  // elements of a pack
  std::atomic<bool> ready_{false};
  std::mutex mutex_;  // guards the kernels until ready_
  CUfunction flat_ = nullptr, unaligned_ = nullptr, small_ = nullptr, large_ = nullptr;
};

}  // namespace

std::unique_ptr<Function> make_elementwise(Device& device, const std::string& name, std::string_view group,
                                           std::string_view operation, const Dtype& dtype, const Dtype* to) {
  const bool compares = group == "compare", selects = group == "where";
  const Dtype& out = compares ? *find_dtype("bool") : to ? *to : dtype;
  const int inputs = group == "fill"                       ? 0
                     : group == "unary" || group == "copy" ? 1
                     : group == "ternary" || selects       ? 3
                                                           : 2;
  Shape shape{{}, inputs + 1, {out.size, dtype.size, dtype.size, dtype.size}};
  if (inputs == 0) shape.sizes[0] = dtype.size;
  if (selects) shape.sizes[1] = 1;
  const std::string op = group == "copy" ? "Identity" : "op::" + std::string(operation) + "_";
  shape.defines = {"IN=" + std::string(dtype.type),
                   "OUT=" + std::string(out.type),
                   "INPUTS=" + std::to_string(inputs),
                   "OP=" + op,
                   std::string("WHERE=") + (selects ? "1" : "0"),
                   "RAW=0"};
  return std::make_unique<Elementwise>(device, name, shape);
}

std::unique_ptr<Function> make_copy_bytes(Device& device, const std::string& name, unsigned size) {
  const char* type = size == 1 ? "u8" : size == 2 ? "u16" : size == 4 ? "u32" : size == 8 ? "u64" : "bytes16";
  Shape shape{{}, 2, {size, size, size, size}};
  shape.defines = {
      std::string("IN=") + type, std::string("OUT=") + type, "INPUTS=1", "OP=Identity", "WHERE=0", "RAW=1"};
  return std::make_unique<Elementwise>(device, name, shape);
}

}  // namespace nv
