R"cuda(
// Element-wise functions. The compiler defines OP, IN, OUT and INPUTS; see Elementwise in elementwise.cpp.
typedef Dtype<IN>::Compute C;
struct Scalar { double number; i64 integer; };

template <typename T> __device__ T scalar_as(Scalar s) { return (T)s.integer; }
template <> __device__ float scalar_as<float>(Scalar s) { return (float)s.number; }
template <> __device__ double scalar_as<double>(Scalar s) { return s.number; }

#define UNARY(name, expression) \
  struct name { template <typename T> static __device__ T of(T a, T, T, T) { return (T)(expression); } };
#define BINARY(name, expression) \
  struct name { template <typename T> static __device__ T of(T a, T b, T, T s) { return (T)(expression); } };
#define TERNARY(name, expression) \
  struct name { template <typename T> static __device__ T of(T a, T b, T c, T s) { return (T)(expression); } };
#define COMPARE(name, expression) \
  struct name { template <typename T> static __device__ bool of(T a, T b, T, T) { return expression; } };

namespace op {
UNARY(abs_, a < (T)0 ? -a : a + (T)0)
UNARY(ceil_, ceil(a))
UNARY(cos_, cos(a))
UNARY(erf_, erf(a))
UNARY(exp_, exp(a))
UNARY(floor_, floor(a))
UNARY(log_, log(a))
UNARY(neg_, -a)
UNARY(reciprocal_, (T)1 / a)
UNARY(relu_, a <= (T)0 ? (T)0 : a)
UNARY(rsqrt_, rsqrt(a))
UNARY(sigmoid_, (T)1 / ((T)1 + exp(-a)))
UNARY(sin_, sin(a))
UNARY(sqrt_, sqrt(a))
UNARY(tanh_, tanh(a))
BINARY(add_, a + s * b)
BINARY(sub_, a - s * b)
BINARY(mul_, a * b)
BINARY(div_, a / b)
BINARY(lerp_, a + s * (b - a))
BINARY(maximum_, b < a || is_nan(a) ? a : b)
BINARY(minimum_, a < b || is_nan(a) ? a : b)
BINARY(pow_, pow(a, b))
BINARY(relu_backward_, b <= (T)0 ? (T)0 : a)
BINARY(sigmoid_backward_, a * ((T)1 - b) * b)
BINARY(tanh_backward_, a * ((T)1 - b * b))
TERNARY(addcmul_, a + s * b * c)
TERNARY(addcdiv_, a + s * b / c)
COMPARE(eq_, a == b)
COMPARE(ne_, a != b)
COMPARE(lt_, a < b)
COMPARE(le_, a <= b)
COMPARE(gt_, b < a)
COMPARE(ge_, b <= a)
}

struct Identity { template <typename T> static __device__ T of(T a, T, T, T) { return a; } };

// The operands of one element in memory, and its result. WHERE is 1 for where.select, whose first input is bool.
#if INPUTS == 0
typedef IN First; typedef IN Second; typedef IN Third;
__device__ OUT compute(IN, IN, IN, Scalar s) { return Dtype<OUT>::store(scalar_as<Dtype<OUT>::Compute>(s)); }
#elif WHERE
typedef boolean First; typedef IN Second; typedef IN Third;
__device__ OUT compute(boolean a, IN b, IN c, Scalar) { return Dtype<boolean>::load(a) ? b : c; }
#elif RAW
typedef IN First; typedef IN Second; typedef IN Third;
__device__ OUT compute(IN a, IN, IN, Scalar) { return a; }
#else
typedef IN First; typedef IN Second; typedef IN Third;
__device__ OUT compute(IN a, IN b, IN c, Scalar s) {
  typedef Dtype<IN> D;
  return Dtype<OUT>::store((Dtype<OUT>::Compute)OP::of(D::load(a), D::load(b), D::load(c), scalar_as<C>(s)));
}
#endif

// ---- All operands are contiguous, or one element for all (a bit in `broadcast` for each input).

struct FlatArgs {
  char* data[4];
  u64 count;
  Scalar scalar;
  u32 broadcast;
};

#define LARGER(a, b) ((a) > (b) ? (a) : (b))
#define VECTOR (16 / LARGER(sizeof(IN), sizeof(OUT)))
template <typename T> struct alignas(sizeof(T) * VECTOR) Pack { T at[VECTOR]; };

template <typename T> __device__ Pack<T> load_pack(const FlatArgs& args, int operand, u64 pack) {
  if (args.broadcast >> operand & 1) {
    Pack<T> result;
    const T value = *(const T*)args.data[operand];
    for (int i = 0; i < VECTOR; ++i) result.at[i] = value;
    return result;
  }
  return ((const Pack<T>*)args.data[operand])[pack];
}

template <typename T> __device__ T load_one(const FlatArgs& args, int operand, u64 index) {
  return ((const T*)args.data[operand])[args.broadcast >> operand & 1 ? 0 : index];
}

__device__ void flat_one(const FlatArgs& args, u64 index) {
  First a = {}; Second b = {}; Third c = {};
  if (INPUTS > 0) a = load_one<First>(args, 1, index);
  if (INPUTS > 1) b = load_one<Second>(args, 2, index);
  if (INPUTS > 2) c = load_one<Third>(args, 3, index);
  ((OUT*)args.data[0])[index] = compute(a, b, c, args.scalar);
}

// Each access is 16 bytes wide for the largest element; the operands are aligned to their packs.
extern "C" __global__ void __launch_bounds__(256) flat(const FlatArgs args) {
  const u64 packs = args.count / VECTOR;
  FOR_EACH(pack, packs) {
    Pack<First> a = {}; Pack<Second> b = {}; Pack<Third> c = {};
    if (INPUTS > 0) a = load_pack<First>(args, 1, pack);
    if (INPUTS > 1) b = load_pack<Second>(args, 2, pack);
    if (INPUTS > 2) c = load_pack<Third>(args, 3, pack);
    Pack<OUT> out;
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) out.at[i] = compute(a.at[i], b.at[i], c.at[i], args.scalar);
    ((Pack<OUT>*)args.data[0])[pack] = out;
  }
  FOR_EACH(rest, args.count - packs * VECTOR) { flat_one(args, packs * VECTOR + rest); }
}

// The same for operands that are not aligned.
extern "C" __global__ void __launch_bounds__(256) unaligned(const FlatArgs args) {
  FOR_EACH(index, args.count) { flat_one(args, index); }
}

// ---- Any strides. Dimension 0 has the smallest.

#define OPERANDS (INPUTS + 1)
struct StridedArgs {
  char* data[4];
  u64 count;
  Scalar scalar;
  u32 dims;
  i64 sizes[16];
  i64 strides[16][4];
};

// Index is u32 if all of count fits: a division of 64 bits takes many instructions.
template <typename Index> __device__ void strided(const StridedArgs& args) {
  for (Index index = blockIdx.x * blockDim.x + threadIdx.x; index < (Index)args.count;
       index += gridDim.x * blockDim.x) {
    i64 offset[OPERANDS] = {};
    Index rest = index;
    for (u32 dim = 0; dim + 1 < args.dims; ++dim) {
      const Index size = (Index)args.sizes[dim], next = rest / size, at = rest - next * size;
      for (int i = 0; i < OPERANDS; ++i) offset[i] += (i64)at * args.strides[dim][i];
      rest = next;
    }
    const u32 last = args.dims - 1;
    for (int i = 0; i < OPERANDS; ++i) offset[i] += (i64)rest * args.strides[last][i];
    First a = {}; Second b = {}; Third c = {};
#if INPUTS > 0
    a = *(const First*)(args.data[1] + offset[1]);
#endif
#if INPUTS > 1
    b = *(const Second*)(args.data[2] + offset[2]);
#endif
#if INPUTS > 2
    c = *(const Third*)(args.data[3] + offset[3]);
#endif
    *(OUT*)(args.data[0] + offset[0]) = compute(a, b, c, args.scalar);
  }
}

// The host launches `small` only if index + the size of the grid does not overflow.
extern "C" __global__ void __launch_bounds__(256) small(const StridedArgs args) { strided<u32>(args); }
extern "C" __global__ void __launch_bounds__(256) large(const StridedArgs args) { strided<u64>(args); }
)cuda"
