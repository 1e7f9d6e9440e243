// Matrix products with cuBLAS.
//
// cuBLAS has matrices whose columns are contiguous, with an optional transpose: any matrix with a stride of 1
// is one of both. A matrix c whose rows are contiguous is the transpose of what cuBLAS computes, so the
// operands change places. No operand is copied.
//
// Another chip: its library of matrix products. Matrices without a stride of 1 go to a simple kernel of our
// own.
#include "function.h"
#include "openreg/kernel_library.h"

#include <climits>
#include <cstdlib>

namespace nv {
namespace {

// As in kernels/matmul.cu.
struct MatmulArgs {
  int64_t m, n, k, batch;
  const void* a;
  const void* b;
  void* c;
  int64_t a_strides[3], b_strides[3], c_strides[3];
  double alpha, beta;
};

// A matrix for cuBLAS: `rows` x `columns`, stored in columns with a distance of `leading`.
struct Matrix {
  const void* data;
  int64_t batch_stride;
  int64_t leading;
  bool transposed;
};

// False: no stride is 1.
bool express(const void* data, int64_t batch_stride, int64_t rows, int64_t columns, int64_t row_stride,
             int64_t column_stride, Matrix& matrix) {
  matrix.data = data;
  matrix.batch_stride = batch_stride;
  const auto leading = [](int64_t stride, int64_t count, int64_t smallest) {  // unused with one column
    return count <= 1 ? std::max<int64_t>(stride, std::max<int64_t>(smallest, 1)) : stride;
  };
  if (row_stride == 1 || rows <= 1) {
    matrix.transposed = false;
    matrix.leading = leading(column_stride, columns, rows);
    if (matrix.leading >= std::max<int64_t>(rows, 1)) return matrix.leading <= INT_MAX;
  }
  if (column_stride == 1 || columns <= 1) {
    matrix.transposed = true;
    matrix.leading = leading(row_stride, rows, columns);
    return matrix.leading >= std::max<int64_t>(columns, 1) && matrix.leading <= INT_MAX;
  }
  return false;
}

struct BlasLaunch {
  Matrix first, second, result;
  int rows, columns, inner, batch;
  int type;
  bool is_double;
  double alpha, beta;

  orError_t operator()(Stream& stream) const {
    const Cublas* blas = nullptr;
    cublasHandle_t handle = nullptr;
    NV_RETURN_IF_ERROR(stream.workspace().blas(blas, handle));
    const float scales[] = {static_cast<float>(alpha), static_cast<float>(beta)};
    const void* alpha_at = is_double ? static_cast<const void*>(&alpha) : &scales[0];
    const void* beta_at = is_double ? static_cast<const void*>(&beta) : &scales[1];
    const int status = blas->gemm(
        handle, first.transposed ? kBlasTranspose : 0, second.transposed ? kBlasTranspose : 0, rows, columns,
        inner, alpha_at, first.data, type, static_cast<int>(first.leading), first.batch_stride, second.data,
        type, static_cast<int>(second.leading), second.batch_stride, beta_at, const_cast<void*>(result.data),
        type, static_cast<int>(result.leading), result.batch_stride, batch,
        is_double ? kBlasCompute64 : kBlasCompute32, kBlasDefaultAlgorithm);
    return status ? fail(orErrorSystem, "cuBLAS returned status %d for a product of %d x %d x %d", status,
                         rows, columns, inner)
                  : orSuccess;
  }
};

class Matmul final : public Function {
 public:
  Matmul(Device& device, const std::string& name, const Dtype& dtype, int type)
      : Function(name),
        device_(device),
        program_(device,
                 {kMatmulSource, {"IN=" + std::string(dtype.type), "SUM=" + std::string(dtype.compute)}}),
        type_(type) {}
  const Source* source() const override { return &program_.source(); }

  orError_t launch(Stream& stream, const orLaunchConfig&, const void* args, size_t,
                   const orObserver* observer) override {
    const auto& given = *static_cast<const orMatmulArgs*>(args);
    BlasLaunch launch;
    if (translate(given, launch)) return stream.submit(launch, info(), observer);
    if (!ready_.load(std::memory_order_acquire)) NV_RETURN_IF_ERROR(prepare());
    const auto copy = [](const int64_t(&from)[3], int64_t(&to)[3]) { std::copy(from, from + 3, to); };
    KernelLaunch<MatmulArgs> simple{
        run_, blocks_for(device_, static_cast<uint64_t>(given.batch * given.m * given.n)), kBlock, {}};
    simple.args = {given.m, given.n, given.k, given.batch, given.a,     given.b,
                   given.c, {},      {},      {},          given.alpha, given.beta};
    copy(given.a_strides, simple.args.a_strides);
    copy(given.b_strides, simple.args.b_strides);
    copy(given.c_strides, simple.args.c_strides);
    return stream.submit(simple, info(), observer);
  }

 private:
  // False: cuBLAS cannot express the operands.
  bool translate(const orMatmulArgs& args, BlasLaunch& launch) const {
    if (std::max({args.m, args.n, args.k, args.batch}) > INT_MAX) return false;
    const int64_t *a = args.a_strides, *b = args.b_strides, *c = args.c_strides;
    launch = {{},
              {},
              {},
              0,
              0,
              static_cast<int>(args.k),
              static_cast<int>(args.batch),
              type_,
              type_ == kBlasFloat64,
              args.alpha,
              args.beta};
    // c in columns: a @ b. c in rows: its transpose, b' @ a'.
    if (express(args.c, c[0], args.n, args.m, c[2], c[1], launch.result) && !launch.result.transposed) {
      launch.rows = static_cast<int>(args.n), launch.columns = static_cast<int>(args.m);
      return express(args.b, b[0], args.n, args.k, b[2], b[1], launch.first) &&
             express(args.a, a[0], args.k, args.m, a[2], a[1], launch.second);
    }
    launch.rows = static_cast<int>(args.m), launch.columns = static_cast<int>(args.n);
    return express(args.c, c[0], args.m, args.n, c[1], c[2], launch.result) && !launch.result.transposed &&
           express(args.a, a[0], args.m, args.k, a[1], a[2], launch.first) &&
           express(args.b, b[0], args.k, args.n, b[1], b[2], launch.second);
  }

  orError_t prepare() {
    const Current current(device_);
    const std::lock_guard lock(mutex_);
    NV_RETURN_IF_ERROR(program_.load());
    NV_RETURN_IF_ERROR(program_.find("run", run_));
    ready_.store(true, std::memory_order_release);
    return orSuccess;
  }

  Device& device_;
  Program program_;
  const int type_;
  std::atomic<bool> ready_{false};
  std::mutex mutex_;  // guards run_ until ready_
  CUfunction run_ = nullptr;
};

}  // namespace

std::unique_ptr<Function> make_matmul(Device& device, const std::string& name, const Dtype& dtype) {
  const std::string_view type = dtype.name;
  const int blas = type == "float32"   ? kBlasFloat32
                   : type == "float64" ? kBlasFloat64
                   : type == "float16" ? kBlasFloat16
                                       : kBlasBfloat16;
  return std::make_unique<Matmul>(device, name, dtype, blas);
}

}  // namespace nv
