// Operators that run as functions of the driver's kernel library, in the library without the host engine.
//
// Most are the out forms of structured operators: PyTorch's default has inferred shapes and dtypes and
// allocated the output. TensorIterator broadcasts, orders dimensions and checks overlaps. A call for which
// the driver has no function falls back to the CPU.
#include "operators/library_ops.h"

#include "device/on_device.h"
#include "device_code/kernel_library.h"
#include "memory/kernel_view.h"
#include "operators/cpu_fallback.h"

#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/library.h>

#include <string>
#include <unordered_map>

namespace openreg {
namespace {

using Stack = torch::jit::Stack;

struct Call {
  const c10::IValue* arguments;
  size_t count;

  const at::Tensor& tensor(size_t i) const { return arguments[i].toTensor(); }
  const at::Tensor& out() const { return tensor(count - 1); }
};

/// Launches the call and returns true, or returns false if the driver has no function for it.
using Launch = bool (*)(const Call& call, const char* name);

struct LibraryOp {
  const char* op;
  const char* function;  // "<group>.<operation>"
  Launch launch;
};

std::string typed(const char* function, at::ScalarType dtype) {
  const char* name = library_dtype(dtype);
  return name == nullptr ? std::string() : std::string(function) + "." + name;
}

// Whether the driver has the function for this dtype. Checked before anything is converted.
bool offered(const char* function, at::ScalarType dtype, c10::DeviceIndex device) {
  const std::string name = typed(function, dtype);
  return !name.empty() && has_library_function(device, name);
}

bool plain(const at::Tensor& tensor) {
  return tensor.layout() == at::kStrided && !tensor.is_conj() && !tensor.is_neg();
}

// The operand on the device, with the computation's dtype.
at::Tensor converted(const at::Tensor& operand, at::ScalarType dtype, const at::Tensor& out) {
  return operand.to(out.options().dtype(dtype));
}

// Types of the computation, from the dtypes of the operands: `promote` as PyTorch's TensorIterator does.
bool launch_two(const Call& call, const char* function,
                at::TensorIterator (*make)(at::TensorBase&, const at::TensorBase&, const at::TensorBase&),
                const at::Tensor& a, const at::Tensor& b, const at::Scalar& scalar) {
  at::Tensor out = call.out();
  if (!plain(a) || !plain(b) || !plain(out)) {
    return false;
  }
  const at::ScalarType dtype = make(out, a, b).common_dtype();
  const c10::DeviceIndex device = out.device().index();
  const bool to_bool = out.scalar_type() == at::kBool && std::string_view(function).starts_with("compare.");
  if ((out.scalar_type() != dtype && !to_bool) || !offered(function, dtype, device)) {
    return false;
  }
  const at::Tensor first = converted(a, dtype, out), second = converted(b, dtype, out);
  materialize_cow(out.storage().unsafeGetStorageImpl());
  return launch_elementwise(device, typed(function, dtype), make(out, first, second), scalar);
}

bool binary(const Call& call, const char* function) {
  return launch_two(call, function, &at::TensorIterator::binary_op, call.tensor(0), call.tensor(1), 1);
}

// add and sub: alpha multiplies the second operand.
bool binary_alpha(const Call& call, const char* function) {
  return launch_two(call, function, &at::TensorIterator::binary_op, call.tensor(0), call.tensor(1),
                    call.arguments[2].toScalar());
}

bool binary_float(const Call& call, const char* function) {
  return launch_two(call, function, &at::TensorIterator::binary_float_op, call.tensor(0), call.tensor(1), 1);
}

bool compare(const Call& call, const char* function) {
  return launch_two(call, function, &at::TensorIterator::comparison_op, call.tensor(0), call.tensor(1), 1);
}

bool compare_scalar(const Call& call, const char* function) {
  const at::Scalar number = call.arguments[1].toScalar();
  at::Tensor wrapped = at::scalar_tensor(number, at::dtype(number.type()));
  wrapped.unsafeGetTensorImpl()->set_wrapped_number(true);
  return launch_two(call, function, &at::TensorIterator::comparison_op, call.tensor(0), wrapped, 1);
}

// The gradient of relu; other thresholds have no function.
bool threshold_backward(const Call& call, const char* function) {
  return call.arguments[2].toScalar().toDouble() == 0 &&
         launch_two(call, function, &at::TensorIterator::binary_op, call.tensor(0), call.tensor(1), 1);
}

bool launch_one(const char* function, at::TensorIterator (*make)(at::TensorBase&, const at::TensorBase&),
                const at::Tensor& input, at::Tensor out) {
  if (!plain(input) || !plain(out)) {
    return false;
  }
  const at::ScalarType dtype = make(out, input).common_dtype();
  const c10::DeviceIndex device = out.device().index();
  if (out.scalar_type() != dtype || !offered(function, dtype, device)) {
    return false;
  }
  const at::Tensor operand = converted(input, dtype, out);
  materialize_cow(out.storage().unsafeGetStorageImpl());
  return launch_elementwise(device, typed(function, dtype), make(out, operand));
}

bool unary(const Call& call, const char* function) {
  return launch_one(function, &at::TensorIterator::unary_op, call.tensor(0), call.out());
}

bool unary_float(const Call& call, const char* function) {
  return launch_one(function, &at::TensorIterator::unary_float_op, call.tensor(0), call.out());
}

bool fill(const Call& call, const char* function) {
  at::Tensor self = call.tensor(0);
  const at::Scalar value = call.count > 1 ? call.arguments[1].toScalar() : at::Scalar(0);
  const c10::DeviceIndex device = self.device().index();
  if (!plain(self) || value.isComplex() || !offered(function, self.scalar_type(), device)) {
    return false;
  }
  materialize_cow(self.storage().unsafeGetStorageImpl());
  // A bool is 0 or 1.
  const at::Scalar number = self.scalar_type() == at::kBool ? at::Scalar(value.toBool() ? 1 : 0) : value;
  return launch_elementwise(device, typed(function, self.scalar_type()), at::TensorIterator::nullary_op(self),
                            number);
}

bool launch_reduction(const Call& call, const char* function, at::OptionalIntArrayRef dims, bool keepdim,
                      bool mean) {
  const at::Tensor& self = call.tensor(0);
  at::Tensor out = call.out();
  const at::ScalarType dtype = out.scalar_type();
  const c10::DeviceIndex device = out.device().index();
  if (!plain(self) || !plain(out) || self.numel() == 0 || !offered(function, dtype, device) ||
      (mean && !at::isFloatingType(dtype))) {
    return false;
  }
  const at::Tensor input = converted(self, dtype, out);
  auto iter = at::native::make_reduction("reduction", out, input, dims, keepdim, dtype);
  const double scale = mean ? static_cast<double>(out.numel()) / static_cast<double>(input.numel()) : 1;
  materialize_cow(out.storage().unsafeGetStorageImpl());
  return launch_elementwise(device, typed(function, dtype), iter, mean ? at::Scalar(scale) : at::Scalar(1));
}

// sum and mean: self, dim, keepdim, dtype, out
bool reduce(const Call& call, const char* function) {
  const auto dims = call.arguments[1].toOptional<std::vector<int64_t>>();
  return launch_reduction(call, function, dims ? at::OptionalIntArrayRef(*dims) : std::nullopt,
                          call.arguments[2].toBool(), false);
}

bool mean(const Call& call, const char* function) {
  const auto dims = call.arguments[1].toOptional<std::vector<int64_t>>();
  return launch_reduction(call, function, dims ? at::OptionalIntArrayRef(*dims) : std::nullopt,
                          call.arguments[2].toBool(), true);
}

// amax and amin: self, dim, keepdim, out
bool extremum(const Call& call, const char* function) {
  const std::vector<int64_t> dims = call.arguments[1].toIntVector();
  return launch_reduction(call, function, at::OptionalIntArrayRef(dims), call.arguments[2].toBool(), false);
}

// c = alpha * (a @ b) + beta * c; a and b have two dimensions, or three with a batch.
bool launch_matmul(const char* function, const at::Tensor& a, const at::Tensor& b, const at::Tensor& c,
                   double alpha, double beta) {
  const at::ScalarType dtype = c.scalar_type();
  const c10::DeviceIndex device = c.device().index();
  if (!plain(a) || !plain(b) || !plain(c) || a.scalar_type() != dtype || b.scalar_type() != dtype ||
      !offered(function, dtype, device)) {
    return false;
  }
  const int64_t rows = a.dim() - 2, columns = a.dim() - 1;
  orMatmulArgs args{};
  args.struct_size = sizeof(args);
  args.batch = a.dim() == 3 ? a.size(0) : 1;
  args.m = a.size(rows), args.k = a.size(columns), args.n = b.size(columns);
  args.a = a.const_data_ptr(), args.b = b.const_data_ptr(), args.c = c.mutable_data_ptr();
  args.alpha = alpha, args.beta = beta;
  const std::pair<int64_t*, const at::Tensor*> strides[] = {
      {args.a_strides, &a}, {args.b_strides, &b}, {args.c_strides, &c}};
  for (const auto& [into, tensor] : strides) {
    into[0] = tensor->dim() == 3 ? tensor->stride(0) : 0;
    into[1] = tensor->stride(rows);
    into[2] = tensor->stride(columns);
  }
  return c.numel() == 0 || launch_library_function(device, typed(function, dtype), &args, sizeof(args));
}

// mm and bmm: self, mat2, out
bool matmul(const Call& call, const char* function) {
  return launch_matmul(function, call.tensor(0), call.tensor(1), call.out(), 1, 0);
}

// addmm: self, mat1, mat2, beta, alpha, out
bool addmm(const Call& call, const char* function) {
  const at::Tensor& out = call.out();
  const double beta = call.arguments[3].toScalar().toDouble(),
               alpha = call.arguments[4].toScalar().toDouble();
  if (!offered(function, out.scalar_type(), out.device().index()) ||
      call.tensor(1).scalar_type() != out.scalar_type() ||
      call.tensor(2).scalar_type() != out.scalar_type()) {
    return false;
  }
  if (beta != 0 && !out.is_same(call.tensor(0))) {
    out.copy_(call.tensor(0));  // broadcasts
  }
  return launch_matmul(function, call.tensor(1), call.tensor(2), out, alpha, beta);
}

constexpr LibraryOp kOps[] = {
    {"add.out", "binary.add", &binary_alpha},
    {"sub.out", "binary.sub", &binary_alpha},
    {"mul.out", "binary.mul", &binary},
    {"div.out", "binary.div", &binary_float},
    {"maximum.out", "binary.maximum", &binary},
    {"minimum.out", "binary.minimum", &binary},
    {"pow.Tensor_Tensor_out", "binary.pow", &binary},
    {"threshold_backward.grad_input", "binary.relu_backward", &threshold_backward},
    {"sigmoid_backward.grad_input", "binary.sigmoid_backward", &binary},
    {"tanh_backward.grad_input", "binary.tanh_backward", &binary},
    {"eq.Tensor_out", "compare.eq", &compare},
    {"ne.Tensor_out", "compare.ne", &compare},
    {"lt.Tensor_out", "compare.lt", &compare},
    {"le.Tensor_out", "compare.le", &compare},
    {"gt.Tensor_out", "compare.gt", &compare},
    {"ge.Tensor_out", "compare.ge", &compare},
    {"eq.Scalar_out", "compare.eq", &compare_scalar},
    {"ne.Scalar_out", "compare.ne", &compare_scalar},
    {"lt.Scalar_out", "compare.lt", &compare_scalar},
    {"le.Scalar_out", "compare.le", &compare_scalar},
    {"gt.Scalar_out", "compare.gt", &compare_scalar},
    {"ge.Scalar_out", "compare.ge", &compare_scalar},
    {"neg.out", "unary.neg", &unary},
    {"ceil.out", "unary.ceil", &unary},
    {"floor.out", "unary.floor", &unary},
    {"cos.out", "unary.cos", &unary_float},
    {"exp.out", "unary.exp", &unary_float},
    {"log.out", "unary.log", &unary_float},
    {"reciprocal.out", "unary.reciprocal", &unary_float},
    {"rsqrt.out", "unary.rsqrt", &unary_float},
    {"sigmoid.out", "unary.sigmoid", &unary_float},
    {"sin.out", "unary.sin", &unary_float},
    {"sqrt.out", "unary.sqrt", &unary_float},
    {"tanh.out", "unary.tanh", &unary_float},
    {"sum.IntList_out", "reduce.sum", &reduce},
    {"mean.out", "reduce.sum", &mean},
    {"amax.out", "reduce.max", &extremum},
    {"amin.out", "reduce.min", &extremum},
    {"mm.out", "matmul.gemm", &matmul},
    {"bmm.out", "matmul.gemm", &matmul},
    {"addmm.out", "matmul.gemm", &addmm},
    {"fill_.Scalar", "fill.value", &fill},
    {"zero_", "fill.value", &fill},
};

// NULL: not in the table.
const LibraryOp* find_op(const c10::OperatorName& name) {
  static const auto* by_name = [] {
    auto* made = new std::unordered_map<std::string, const LibraryOp*>;
    for (const LibraryOp& library_op : kOps) {
      (*made)[std::string("aten::") + library_op.op] = &library_op;
    }
    return made;
  }();
  const auto found = by_name->find(c10::toString(name));
  return found == by_name->end() ? nullptr : found->second;
}

void run_library_op(const c10::OperatorHandle& op, Stack* stack) {
  const size_t count = op.schema().arguments().size();
  const Call call{stack->data() + (stack->size() - count), count};
  const LibraryOp& library_op = *find_op(op.operator_name());
  // The output of an out form is the last argument, that of an in-place form the first.
  const at::Tensor out = library_op.launch == &fill ? call.tensor(0) : call.out();
  bool launched = false;
  if (on_device(out)) {
    const DeviceScope scope(out.device().index());
    launched = library_op.launch(call, library_op.function);
  }
  if (!launched) {
    fall_back(op, stack);
    return;
  }
  torch::jit::drop(*stack, count);
  torch::jit::push(*stack, out);
}

constexpr const char* kRelu = "unary.relu";

// relu is not structured.
at::Tensor relu(const at::Tensor& self) {
  at::Tensor out = at::empty_like(self);
  const DeviceScope scope(self.device().index());
  if (launch_one(kRelu, &at::TensorIterator::unary_op, self, out)) {
    return out;
  }
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::relu", "");
  Stack stack{self};
  fall_back(op, &stack);
  return stack[0].toTensor();
}

at::Tensor& relu_(at::Tensor& self) {
  const DeviceScope scope(self.device().index());
  if (!launch_one(kRelu, &at::TensorIterator::unary_op, self, self)) {
    static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::relu_", "");
    Stack stack{self};
    fall_back(op, &stack);
  }
  return self;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const LibraryOp& op : kOps) {
    m.impl(op.op, torch::CppFunction::makeFromBoxedFunction<&run_library_op>());
  }
  m.impl("relu", relu);
  m.impl("relu_", relu_);
}

}  // namespace

const char* library_function(const c10::OperatorName& name) {
  if (const LibraryOp* op = find_op(name)) {
    return op->function;
  }
  return name.name == "aten::relu" || name.name == "aten::relu_" ? kRelu : nullptr;
}

}  // namespace openreg
