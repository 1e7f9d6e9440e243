R"cuda(
// Reductions. The compiler defines OP, IN and SUM, the type of the accumulator; see Reduction in reduce.cpp.
typedef Dtype<IN>::Compute C;

namespace op {
struct sum_ {
  static __device__ SUM start() { return (SUM)0; }
  static __device__ SUM of(SUM a, SUM b) { return a + b; }
};
struct max_ {
  static __device__ SUM start() { return LEAST; }
  static __device__ SUM of(SUM a, SUM b) { return b < a || is_nan(a) ? a : b; }
};
struct min_ {
  static __device__ SUM start() { return MOST; }
  static __device__ SUM of(SUM a, SUM b) { return a < b || is_nan(a) ? a : b; }
};
}

struct Dims {
  u32 count;
  i64 sizes[16];
  i64 strides[16];  // of the input
};

struct ReduceArgs {
  const char* input;
  char* output;
  SUM* partial;        // one accumulator for each split and output, or null
  u64 outputs, reduced;
  u64 chunk;           // reduced elements of one split
  u32 lanes;           // threads of a block that share an output; a power of two
  u32 inner;           // 1: consecutive threads share an output; 0: they have consecutive outputs
  double scale;
  i64 int_scale;
  Dims kept, folded;
  i64 output_strides[16];
};

__device__ i64 offset_of(const Dims& dims, const i64* strides, u64 index) {
  i64 offset = 0;
  for (u32 dim = 0; dim + 1 < dims.count; ++dim) {
    const u64 size = (u64)dims.sizes[dim];
    const u64 next = (index | size) >> 32 ? index / size : (u64)((u32)index / (u32)size);
    offset += (i64)(index - next * size) * strides[dim];
    index = next;
  }
  return dims.count ? offset + (i64)index * strides[dims.count - 1] : offset;
}

__device__ void write_result(const ReduceArgs& args, u64 output, SUM value) {
  if (SCALED) value = value * (FLOATING ? (SUM)args.scale : (SUM)args.int_scale);
  *(IN*)(args.output + offset_of(args.kept, args.output_strides, output)) = Dtype<IN>::store((C)value);
}

__device__ SUM load_sum(const char* at) { return (SUM)Dtype<IN>::load(*(const IN*)at); }

// Each block has blockDim.x / lanes outputs and one split, blockIdx.y, of their elements.
extern "C" __global__ void __launch_bounds__(256) reduce(const ReduceArgs args) {
  __shared__ SUM shared[256];
  const u32 groups = blockDim.x / args.lanes;
  const u32 group = args.inner ? threadIdx.x / args.lanes : threadIdx.x % groups;
  const u32 lane = args.inner ? threadIdx.x % args.lanes : threadIdx.x / groups;
  const u64 output = blockIdx.x * (u64)groups + group;
  SUM sums[4] = {OP::start(), OP::start(), OP::start(), OP::start()};
  if (output < args.outputs) {
    const char* base = args.input + offset_of(args.kept, args.kept.strides, output);
    const u64 begin = blockIdx.y * args.chunk;
    const u64 end = begin + args.chunk < args.reduced ? begin + args.chunk : args.reduced;
    u64 at = begin + lane;
    if (args.folded.count == 1) {
      const i64 stride = args.folded.strides[0];
      const i64 step = stride * args.lanes;
      const char* next = base + (i64)at * stride;
      for (; at + 3 * (u64)args.lanes < end; at += 4 * (u64)args.lanes, next += 4 * step) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[i] = OP::of(sums[i], load_sum(next + i * step));
      }
      for (; at < end; at += args.lanes, next += step) sums[0] = OP::of(sums[0], load_sum(next));
    } else {
      for (; at < end; at += args.lanes) {
        sums[0] = OP::of(sums[0], load_sum(base + offset_of(args.folded, args.folded.strides, at)));
      }
    }
  }
  shared[threadIdx.x] = OP::of(OP::of(sums[0], sums[1]), OP::of(sums[2], sums[3]));
  const u32 step = args.inner ? 1 : groups;  // between neighbors of one output
  for (u32 half = args.lanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (lane < half) shared[threadIdx.x] = OP::of(shared[threadIdx.x], shared[threadIdx.x + half * step]);
  }
  if (lane != 0 || output >= args.outputs) return;
  if (args.partial) {
    args.partial[blockIdx.y * args.outputs + output] = shared[threadIdx.x];
  } else {
    write_result(args, output, shared[threadIdx.x]);
  }
}

// Adds the splits of each output, in their order.
extern "C" __global__ void __launch_bounds__(256) combine(const ReduceArgs args, const u32 splits) {
  FOR_EACH(output, args.outputs) {
    SUM sum = OP::start();
    for (u32 split = 0; split < splits; ++split) sum = OP::of(sum, args.partial[split * args.outputs + output]);
    write_result(args, output, sum);
  }
}
)cuda"
