#include "kernels.h"

#include "elementwise.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <unordered_map>
#include <vector>

namespace openreg::discrete {
namespace {

template <typename T>
bool is_nan(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(value);
  } else {
    return false;
  }
}

using Table = std::unordered_map<std::string, orDiscreteFunction>;

template <typename T>
void add_arithmetic(Table& table, const std::string& type) {
  table["unary.neg." + type] = &unary<T, [](T a) -> T { return static_cast<T>(-a); }>;
  table["unary.abs." + type] = &unary<T, [](T a) -> T { return a < 0 ? static_cast<T>(-a) : a; }>;
  table["unary.relu." + type] = &unary<T, [](T a) -> T { return a <= 0 ? T{0} : a; }>;
  table["binary.add." + type] = &binary<T, T, [](T a, T b, T s) -> T { return static_cast<T>(a + s * b); }>;
  table["binary.sub." + type] = &binary<T, T, [](T a, T b, T s) -> T { return static_cast<T>(a - s * b); }>;
  table["binary.mul." + type] = &binary<T, T, [](T a, T b, T) -> T { return static_cast<T>(a * b); }>;
  // A NaN of either operand is the result.
  table["binary.maximum." + type] =
      &binary<T, T, [](T a, T b, T) -> T { return b < a || is_nan(a) ? a : b; }>;
  table["binary.minimum." + type] =
      &binary<T, T, [](T a, T b, T) -> T { return a < b || is_nan(a) ? a : b; }>;
  table["binary.relu_backward." + type] =
      &binary<T, T, [](T grad, T a, T) -> T { return a <= 0 ? T{0} : grad; }>;
}

template <typename T>
void add_floating(Table& table, const std::string& type) {
  table["unary.ceil." + type] = &unary<T, [](T a) -> T { return std::ceil(a); }>;
  table["unary.cos." + type] = &unary<T, [](T a) -> T { return std::cos(a); }>;
  table["unary.exp." + type] = &unary<T, [](T a) -> T { return std::exp(a); }>;
  table["unary.floor." + type] = &unary<T, [](T a) -> T { return std::floor(a); }>;
  table["unary.log." + type] = &unary<T, [](T a) -> T { return std::log(a); }>;
  table["unary.reciprocal." + type] = &unary<T, [](T a) -> T { return 1 / a; }>;
  table["unary.rsqrt." + type] = &unary<T, [](T a) -> T { return 1 / std::sqrt(a); }>;
  table["unary.sigmoid." + type] = &unary<T, [](T a) -> T { return 1 / (1 + std::exp(-a)); }>;
  table["unary.sin." + type] = &unary<T, [](T a) -> T { return std::sin(a); }>;
  table["unary.sqrt." + type] = &unary<T, [](T a) -> T { return std::sqrt(a); }>;
  table["unary.tanh." + type] = &unary<T, [](T a) -> T { return std::tanh(a); }>;
  table["binary.div." + type] = &binary<T, T, [](T a, T b, T) -> T { return a / b; }>;
  table["binary.pow." + type] = &binary<T, T, [](T a, T b, T) -> T { return std::pow(a, b); }>;
  table["binary.sigmoid_backward." + type] = &binary<T, T, [](T g, T y, T) -> T { return g * (1 - y) * y; }>;
  table["binary.tanh_backward." + type] = &binary<T, T, [](T g, T y, T) -> T { return g * (1 - y * y); }>;
}

template <typename T>
void add_comparisons(Table& table, const std::string& type) {
  table["compare.eq." + type] = &binary<bool, T, [](T a, T b, T) { return a == b; }>;
  table["compare.ne." + type] = &binary<bool, T, [](T a, T b, T) { return a != b; }>;
  table["compare.lt." + type] = &binary<bool, T, [](T a, T b, T) { return a < b; }>;
  table["compare.le." + type] = &binary<bool, T, [](T a, T b, T) { return a <= b; }>;
  table["compare.gt." + type] = &binary<bool, T, [](T a, T b, T) { return b < a; }>;
  table["compare.ge." + type] = &binary<bool, T, [](T a, T b, T) { return b <= a; }>;
}

template <typename T>
orError_t fill(const orDiscreteLaunch* launch, const void* given) {
  const auto& args = *static_cast<const orElementwiseArgs*>(given);
  for_each_element<1>(*launch, args,
                      [value = scalar_of<T>(args)](char** at) { *reinterpret_cast<T*>(at[0]) = value; });
  return orSuccess;
}

template <typename T>
orError_t select(const orDiscreteLaunch* launch, const void* given) {
  for_each_element<4>(*launch, *static_cast<const orElementwiseArgs*>(given), [](char** at) {
    *reinterpret_cast<T*>(at[0]) = load<T>(load<bool>(at[1]) ? at[2] : at[3]);
  });
  return orSuccess;
}

// The output is initialized, then accumulates all elements. Sums accumulate in `Sum`.
template <typename T, typename Sum, auto Start, auto Op>
orError_t reduce(const orDiscreteLaunch* launch, const void* given) {
  auto args = *static_cast<const orElementwiseArgs*>(given);
  orElementwiseArgs outputs = args;  // each output once
  size_t count = 1;
  int64_t steps[OR_KERNEL_DIMS];  // of the accumulators, in bytes
  for (uint32_t dim = 0; dim < args.dims; ++dim) {
    const bool reduced = args.strides[0][dim] == 0;
    if (reduced) outputs.sizes[dim] = 1;
    steps[dim] = reduced ? 0 : static_cast<int64_t>(count * sizeof(Sum));
    if (!reduced) count *= static_cast<size_t>(args.sizes[dim]);
  }
  std::vector<Sum> sums(count, static_cast<Sum>(Start));
  std::copy_n(steps, args.dims, args.strides[0]);
  args.data[0] = reinterpret_cast<char*>(sums.data()) - launch->memory;
  for_each_element<2>(*launch, args, [](char** at) {
    auto& sum = *reinterpret_cast<Sum*>(at[0]);
    sum = Op(sum, static_cast<Sum>(load<T>(at[1])));
  });
  std::copy_n(steps, args.dims, outputs.strides[1]);
  outputs.data[1] = args.data[0];
  const Sum scale =
      std::is_floating_point_v<T> ? static_cast<Sum>(args.scalar) : static_cast<Sum>(args.int_scalar);
  for_each_element<2>(*launch, outputs, [=](char** at) {
    *reinterpret_cast<T*>(at[0]) = static_cast<T>(*reinterpret_cast<const Sum*>(at[1]) * scale);
  });
  return orSuccess;
}

template <typename T, typename Sum>
void add_reductions(Table& table, const std::string& type) {
  constexpr bool kFloat = std::is_floating_point_v<T>;
  constexpr T kLeast = kFloat ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::min();
  constexpr T kMost = kFloat ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
  table["reduce.sum." + type] = &reduce<T, Sum, Sum{0}, [](Sum a, Sum b) { return a + b; }>;
  table["reduce.max." + type] = &reduce<T, T, kLeast, [](T a, T b) { return b < a || is_nan(a) ? a : b; }>;
  table["reduce.min." + type] = &reduce<T, T, kMost, [](T a, T b) { return a < b || is_nan(a) ? a : b; }>;
}

template <typename From, typename To>
orError_t convert(const orDiscreteLaunch* launch, const void* given) {
  for_each_element<2>(*launch, *static_cast<const orElementwiseArgs*>(given),
                      [](char** at) { *reinterpret_cast<To*>(at[0]) = static_cast<To>(load<From>(at[1])); });
  return orSuccess;
}

template <typename From, typename... To>
void add_conversions(Table& table, const char* from, const char* const (&names)[sizeof...(To)]) {
  size_t i = 0;
  ((table[std::string("copy.") + from + "." + names[i++]] = &convert<From, To>), ...);
}

template <size_t Size>
orError_t copy_bytes(const orDiscreteLaunch* launch, const void* given) {
  for_each_element<2>(*launch, *static_cast<const orElementwiseArgs*>(given),
                      [](char** at) { std::memcpy(at[0], at[1], Size); });
  return orSuccess;
}

template <typename T>
orError_t gemm(const orDiscreteLaunch* launch, const void* given) {
  const auto& args = *static_cast<const orMatmulArgs*>(given);
  const auto at = [&](const void* data, const int64_t* strides, int64_t batch, int64_t row, int64_t column) {
    return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(data) + static_cast<uintptr_t>(launch->memory)) +
           batch * strides[0] + row * strides[1] + column * strides[2];
  };
  std::vector<double> row(static_cast<size_t>(args.n));
  for (int64_t batch = 0; batch < args.batch; ++batch) {
    for (int64_t i = 0; i < args.m; ++i) {
      std::ranges::fill(row, 0.0);
      for (int64_t l = 0; l < args.k; ++l) {
        const double factor = *at(args.a, args.a_strides, batch, i, l);
        const T* b = at(args.b, args.b_strides, batch, l, 0);
        for (int64_t j = 0; j < args.n; ++j) row[static_cast<size_t>(j)] += factor * b[j * args.b_strides[2]];
      }
      for (int64_t j = 0; j < args.n; ++j) {
        T* c = at(args.c, args.c_strides, batch, i, j);
        const double before = args.beta == 0 ? 0 : args.beta * *c;
        *c = static_cast<T>(args.alpha * row[static_cast<size_t>(j)] + before);
      }
    }
  }
  return orSuccess;
}

template <typename T>
void add_type(Table& table, const char* type) {
  constexpr const char* kNames[] = {"float32", "float64", "int64", "int32", "int16", "int8", "uint8", "bool"};
  add_conversions<T, float, double, int64_t, int32_t, int16_t, int8_t, uint8_t, bool>(table, type, kNames);
  add_comparisons<T>(table, type);
  table[std::string("fill.value.") + type] = &fill<T>;
  table[std::string("where.select.") + type] = &select<T>;
}

const Table& table() {
  static const auto* made = [] {
    auto* all = new Table;
    add_type<float>(*all, "float32");
    add_type<double>(*all, "float64");
    add_type<int64_t>(*all, "int64");
    add_type<int32_t>(*all, "int32");
    add_type<int16_t>(*all, "int16");
    add_type<int8_t>(*all, "int8");
    add_type<uint8_t>(*all, "uint8");
    add_type<bool>(*all, "bool");
    add_arithmetic<float>(*all, "float32");
    add_arithmetic<double>(*all, "float64");
    add_arithmetic<int64_t>(*all, "int64");
    add_arithmetic<int32_t>(*all, "int32");
    add_floating<float>(*all, "float32");
    add_floating<double>(*all, "float64");
    add_reductions<float, double>(*all, "float32");
    add_reductions<double, double>(*all, "float64");
    add_reductions<int64_t, int64_t>(*all, "int64");
    (*all)["matmul.gemm.float32"] = &gemm<float>;
    (*all)["matmul.gemm.float64"] = &gemm<double>;
    (*all)["copy.bytes.1"] = &copy_bytes<1>;
    (*all)["copy.bytes.2"] = &copy_bytes<2>;
    (*all)["copy.bytes.4"] = &copy_bytes<4>;
    (*all)["copy.bytes.8"] = &copy_bytes<8>;
    (*all)["copy.bytes.16"] = &copy_bytes<16>;
    return all;
  }();
  return *made;
}

}  // namespace

orDiscreteFunction find_kernel(const char* name) {
  const auto found = table().find(name);
  return found == table().end() ? nullptr : found->second;
}

}  // namespace openreg::discrete
