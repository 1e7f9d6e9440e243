R"cuda(
// Gather and scatter_add. The compiler defines IN and SCATTER; see Index in index.cpp.
struct IndexArgs {
  const i64* index;
  char* dense;
  char* indexed;
  i64 indexed_size, indexed_stride;
  u64 count;
  u64* failure;  // of the stream: the name of the function, and the first index that was out of range
  u64 name;
  u32 dims;
  i64 sizes[16];
  i64 strides[16][3];  // of index, dense and indexed
};

// Reports a bad index to the host, which finds it at the next synchronization.
__device__ void fail(const IndexArgs& args, i64 index) {
  volatile u64* failure = args.failure;
  failure[1] = (u64)index;
  __threadfence_system();
  failure[0] = args.name;
}

#if SCATTER
__device__ void atomic_add(float* at, float value) { atomicAdd(at, value); }
__device__ void atomic_add(double* at, double value) { atomicAdd(at, value); }
__device__ void atomic_add(int* at, int value) { atomicAdd(at, value); }
__device__ void atomic_add(i64* at, i64 value) { atomicAdd((u64*)at, (u64)value); }

// Elements of one or two bytes change inside their aligned word.
template <typename T> __device__ void atomic_add(T* at, T value) {
  u32* word = (u32*)((u64)at & ~3ull);
  const u32 shift = ((u64)at & 3) * 8;
  const u32 mask = (sizeof(T) == 1 ? 0xffu : 0xffffu) << shift;
  u32 seen = *word, expected;
  do {
    expected = seen;
    union { T element; u16 bits; } old, sum;
    old.bits = (u16)(expected >> shift);
    sum.bits = 0;
    sum.element = Dtype<T>::store((Dtype<T>::Compute)(Dtype<T>::load(old.element) + Dtype<T>::load(value)));
    seen = atomicCAS(word, expected, (expected & ~mask) | ((u32)sum.bits << shift & mask));
  } while (seen != expected);
}
#endif

extern "C" __global__ void __launch_bounds__(256) run(const IndexArgs args) {
  FOR_EACH(element, args.count) {
    i64 offset[3] = {};
    u64 rest = element;
    for (u32 dim = 0; dim < args.dims; ++dim) {
      const u64 size = (u64)args.sizes[dim];
      const u64 next = (rest | size) >> 32 ? rest / size : (u64)((u32)rest / (u32)size);
      const i64 at = (i64)(rest - next * size);
      for (int i = 0; i < 3; ++i) offset[i] += at * args.strides[dim][i];
      rest = next;
    }
    const i64 index = *(const i64*)((const char*)args.index + offset[0]);
    if (index < 0 || index >= args.indexed_size) {
      fail(args, index);
      continue;
    }
    IN* indexed = (IN*)(args.indexed + offset[2] + index * args.indexed_stride);
    IN* dense = (IN*)(args.dense + offset[1]);
#if SCATTER
    atomic_add(indexed, *dense);
#else
    *dense = *indexed;
#endif
  }
}
)cuda"
