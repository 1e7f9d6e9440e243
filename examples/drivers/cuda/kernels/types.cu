R"cuda(
// The dtypes of the kernel library: how an element is stored, and in which type it is computed.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

typedef float float32;
typedef double float64;
typedef long long int64;
typedef int int32;
typedef short int16;
typedef signed char int8;
typedef unsigned char uint8;
struct float16 { u16 bits; };
struct bfloat16 { u16 bits; };
struct boolean { u8 byte; };
struct alignas(16) bytes16 { u64 low, high; };

template <typename T> struct Dtype {
  typedef T Compute;
  static __device__ Compute load(T value) { return value; }
  static __device__ T store(Compute value) { return value; }
};

template <> struct Dtype<float16> {
  typedef float Compute;
  static __device__ float load(float16 value) {
    float result;
    asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
    return result;
  }
  static __device__ float16 store(float value) {
    float16 result;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
    return result;
  }
};

template <> struct Dtype<bfloat16> {
  typedef float Compute;
  static __device__ float load(bfloat16 value) { return __uint_as_float((u32)value.bits << 16); }
  static __device__ bfloat16 store(float value) {  // rounds to the nearest, ties to even
    const u32 bits = __float_as_uint(value);
    bfloat16 result;
    result.bits = value != value ? 0x7fc0 : (u16)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
    return result;
  }
};

// A byte other than 0 is true.
template <> struct Dtype<boolean> {
  typedef bool Compute;
  static __device__ bool load(boolean value) { return value.byte != 0; }
  static __device__ boolean store(bool value) {
    boolean result;
    result.byte = value ? 1 : 0;
    return result;
  }
};

template <typename T> __device__ bool is_nan(T value) { return value != value; }
template <typename T> __device__ T infinity();
template <> __device__ float infinity<float>() { return __int_as_float(0x7f800000); }
template <> __device__ double infinity<double>() { return __longlong_as_double(0x7ff0000000000000ll); }

// A loop of all threads of the grid over `count` elements.
#define FOR_EACH(index, count)                                                            \
  for (u64 index = blockIdx.x * (u64)blockDim.x + threadIdx.x; index < (count);           \
       index += (u64)gridDim.x * blockDim.x)
)cuda"
