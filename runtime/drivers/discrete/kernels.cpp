#include "kernels.h"

#include "elementwise.h"
#include "index.h"
#include "matmul.h"
#include "reduce.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <unordered_map>

namespace openreg::discrete {
namespace {

using Table = std::unordered_map<std::string, orDiscreteFunction>;

// A NaN of either operand is the result.
template <typename C>
C greater(C a, C b) {
  return b < a || is_nan(a) ? a : b;
}

template <typename C>
C smaller(C a, C b) {
  return a < b || is_nan(a) ? a : b;
}

template <typename T, typename C = Compute<T>>
void add_arithmetic(Table& table, const std::string& type) {
  table["unary.neg." + type] = &unary<T, [](C a) -> C { return static_cast<C>(-a); }>;
  table["unary.abs." + type] = &unary<T, [](C a) -> C { return a < 0 ? static_cast<C>(-a) : a; }>;
  table["unary.relu." + type] = &unary<T, [](C a) -> C { return a <= 0 ? C{0} : a; }>;
  table["binary.add." + type] = &binary<T, T, [](C a, C b, C s) -> C { return static_cast<C>(a + s * b); }>;
  table["binary.sub." + type] = &binary<T, T, [](C a, C b, C s) -> C { return static_cast<C>(a - s * b); }>;
  table["binary.mul." + type] = &binary<T, T, [](C a, C b, C) -> C { return static_cast<C>(a * b); }>;
  table["binary.maximum." + type] = &binary<T, T, [](C a, C b, C) -> C { return greater(a, b); }>;
  table["binary.minimum." + type] = &binary<T, T, [](C a, C b, C) -> C { return smaller(a, b); }>;
  table["binary.relu_backward." + type] =
      &binary<T, T, [](C grad, C a, C) -> C { return a <= 0 ? C{0} : grad; }>;
  table["ternary.addcmul." + type] =
      &ternary<T, [](C a, C b, C c, C s) -> C { return static_cast<C>(a + s * b * c); }>;
  table["index.scatter_add." + type] = &scatter_add<T>;
}

template <typename T, typename C = Compute<T>>
void add_floating(Table& table, const std::string& type) {
  table["unary.ceil." + type] = &unary<T, [](C a) -> C { return std::ceil(a); }>;
  table["unary.cos." + type] = &unary<T, [](C a) -> C { return std::cos(a); }>;
  table["unary.erf." + type] = &unary<T, [](C a) -> C { return std::erf(a); }>;
  table["unary.exp." + type] = &unary<T, [](C a) -> C { return std::exp(a); }>;
  table["unary.floor." + type] = &unary<T, [](C a) -> C { return std::floor(a); }>;
  table["unary.log." + type] = &unary<T, [](C a) -> C { return std::log(a); }>;
  table["unary.reciprocal." + type] = &unary<T, [](C a) -> C { return 1 / a; }>;
  table["unary.rsqrt." + type] = &unary<T, [](C a) -> C { return 1 / std::sqrt(a); }>;
  table["unary.sigmoid." + type] = &unary<T, [](C a) -> C { return 1 / (1 + std::exp(-a)); }>;
  table["unary.sin." + type] = &unary<T, [](C a) -> C { return std::sin(a); }>;
  table["unary.sqrt." + type] = &unary<T, [](C a) -> C { return std::sqrt(a); }>;
  table["unary.tanh." + type] = &unary<T, [](C a) -> C { return std::tanh(a); }>;
  table["binary.div." + type] = &binary<T, T, [](C a, C b, C) -> C { return a / b; }>;
  table["binary.lerp." + type] = &binary<T, T, [](C a, C b, C s) -> C { return a + s * (b - a); }>;
  table["binary.pow." + type] = &binary<T, T, [](C a, C b, C) -> C { return std::pow(a, b); }>;
  table["binary.sigmoid_backward." + type] = &binary<T, T, [](C g, C y, C) -> C { return g * (1 - y) * y; }>;
  table["binary.tanh_backward." + type] = &binary<T, T, [](C g, C y, C) -> C { return g * (1 - y * y); }>;
  table["ternary.addcdiv." + type] = &ternary<T, [](C a, C b, C c, C s) -> C { return a + s * b / c; }>;
  table["matmul.gemm." + type] = &gemm<T>;
}

template <typename T, typename C = Compute<T>>
void add_comparisons(Table& table, const std::string& type) {
  table["compare.eq." + type] = &binary<bool, T, [](C a, C b, C) { return a == b; }>;
  table["compare.ne." + type] = &binary<bool, T, [](C a, C b, C) { return a != b; }>;
  table["compare.lt." + type] = &binary<bool, T, [](C a, C b, C) { return a < b; }>;
  table["compare.le." + type] = &binary<bool, T, [](C a, C b, C) { return a <= b; }>;
  table["compare.gt." + type] = &binary<bool, T, [](C a, C b, C) { return b < a; }>;
  table["compare.ge." + type] = &binary<bool, T, [](C a, C b, C) { return b <= a; }>;
}

template <typename T, typename Sum, typename C = Compute<T>>
void add_reductions(Table& table, const std::string& type) {
  constexpr bool kFloat = std::is_floating_point_v<C>;
  constexpr C kLeast = kFloat ? -std::numeric_limits<C>::infinity() : std::numeric_limits<C>::min();
  constexpr C kMost = kFloat ? std::numeric_limits<C>::infinity() : std::numeric_limits<C>::max();
  table["reduce.sum." + type] = &reduce<T, Sum, Sum{0}, [](Sum a, Sum b) { return a + b; }>;
  table["reduce.max." + type] = &reduce<T, C, kLeast, [](C a, C b) { return greater(a, b); }>;
  table["reduce.min." + type] = &reduce<T, C, kMost, [](C a, C b) { return smaller(a, b); }>;
}

template <typename T>
orError_t fill(const orDiscreteLaunch* launch, const void* given) {
  const auto& args = *static_cast<const orElementwiseArgs*>(given);
  for_each_element<1>(*launch, args, [value = scalar_of<T>(args)](char** at) { store<T>(at[0], value); });
  return orSuccess;
}

template <typename T>
orError_t select(const orDiscreteLaunch* launch, const void* given) {
  for_each_element<4>(*launch, *static_cast<const orElementwiseArgs*>(given),
                      [](char** at) { store<T>(at[0], load<T>(load<bool>(at[1]) ? at[2] : at[3])); });
  return orSuccess;
}

template <typename From, typename To>
orError_t convert(const orDiscreteLaunch* launch, const void* given) {
  for_each_element<2>(*launch, *static_cast<const orElementwiseArgs*>(given),
                      [](char** at) { store<To>(at[0], load<From>(at[1])); });
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
void add_type(Table& table, const char* type) {
  constexpr const char* kNames[] = {"float32", "float64", "float16", "bfloat16", "int64",
                                    "int32",   "int16",   "int8",    "uint8",    "bool"};
  add_conversions<T, float, double, Float16, BFloat16, int64_t, int32_t, int16_t, int8_t, uint8_t, bool>(
      table, type, kNames);
  add_comparisons<T>(table, type);
  table[std::string("fill.value.") + type] = &fill<T>;
  table[std::string("where.select.") + type] = &select<T>;
  table[std::string("index.gather.") + type] = &gather<T>;
}

template <typename T>
void add_float_type(Table& table, const char* type) {
  add_type<T>(table, type);
  add_arithmetic<T>(table, type);
  add_floating<T>(table, type);
  add_reductions<T, double>(table, type);
}

// Without arithmetic for the smaller integers: a driver may offer a subset.
const Table& table() {
  static const auto* made = [] {
    auto* all = new Table;
    add_float_type<float>(*all, "float32");
    add_float_type<double>(*all, "float64");
    add_float_type<Float16>(*all, "float16");
    add_float_type<BFloat16>(*all, "bfloat16");
    add_type<int64_t>(*all, "int64");
    add_type<int32_t>(*all, "int32");
    add_type<int16_t>(*all, "int16");
    add_type<int8_t>(*all, "int8");
    add_type<uint8_t>(*all, "uint8");
    add_type<bool>(*all, "bool");
    add_arithmetic<int64_t>(*all, "int64");
    add_arithmetic<int32_t>(*all, "int32");
    add_reductions<int64_t, int64_t>(*all, "int64");
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
