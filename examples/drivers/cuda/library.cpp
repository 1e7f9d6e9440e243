// The kernel library: which functions this driver has.
//
// Another chip: any subset. The integration runs all other operators on the CPU.
#include "function.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace nv {
namespace {

enum Domain : unsigned {
  kFloating = 1,
  kIntegers = 2,
  kBool = 4,
  kNumbers = kFloating | kIntegers,
  kAll = 7
};

struct Operation {
  std::string_view group;
  std::string_view name;
  unsigned domain;
};

constexpr Operation kOperations[] = {
    {"unary", "abs", kNumbers},
    {"unary", "ceil", kFloating},
    {"unary", "cos", kFloating},
    {"unary", "erf", kFloating},
    {"unary", "exp", kFloating},
    {"unary", "floor", kFloating},
    {"unary", "log", kFloating},
    {"unary", "neg", kNumbers},
    {"unary", "reciprocal", kFloating},
    {"unary", "relu", kNumbers},
    {"unary", "rsqrt", kFloating},
    {"unary", "sigmoid", kFloating},
    {"unary", "sin", kFloating},
    {"unary", "sqrt", kFloating},
    {"unary", "tanh", kFloating},
    {"binary", "add", kAll},
    {"binary", "sub", kNumbers},
    {"binary", "mul", kAll},
    {"binary", "div", kFloating},
    {"binary", "lerp", kFloating},
    {"binary", "maximum", kAll},
    {"binary", "minimum", kAll},
    {"binary", "pow", kFloating},
    {"binary", "relu_backward", kNumbers},
    {"binary", "sigmoid_backward", kFloating},
    {"binary", "tanh_backward", kFloating},
    {"ternary", "addcmul", kNumbers},
    {"ternary", "addcdiv", kFloating},
    {"compare", "eq", kAll},
    {"compare", "ne", kAll},
    {"compare", "lt", kAll},
    {"compare", "le", kAll},
    {"compare", "gt", kAll},
    {"compare", "ge", kAll},
    {"fill", "value", kAll},
    {"where", "select", kAll},
    {"reduce", "sum", kNumbers},
    {"reduce", "max", kAll},
    {"reduce", "min", kAll},
    {"matmul", "gemm", kFloating},
    {"index", "gather", kAll},
    {"index", "scatter_add", kNumbers},
};

constexpr unsigned kByteSizes[] = {1, 2, 4, 8, 16};

bool has_domain(const Operation& operation, const Dtype& dtype) {
  const unsigned kind = dtype.floating                           ? kFloating
                        : std::string_view(dtype.name) == "bool" ? kBool
                                                                 : kIntegers;
  return (operation.domain & kind) != 0;
}

const Operation* find_operation(std::string_view group, std::string_view name) {
  for (const Operation& operation : kOperations) {
    if (operation.group == group && operation.name == name) return &operation;
  }
  return nullptr;
}

// "copy.<from>.<to>" or "copy.bytes.<size>"
std::unique_ptr<Function> make_copy(Device& device, const std::string& name, std::string_view from,
                                    std::string_view to) {
  if (from == "bytes") {
    unsigned size = 0;
    const auto [end, error] = std::from_chars(to.data(), to.data() + to.size(), size);
    const bool number = error == std::errc() && end == to.data() + to.size();
    if (!number || std::ranges::find(kByteSizes, size) == std::end(kByteSizes)) return nullptr;
    return make_copy_bytes(device, name, size);
  }
  const Dtype* source = find_dtype(from);
  const Dtype* target = find_dtype(to);
  return source && target ? make_elementwise(device, name, "copy", "", *source, target) : nullptr;
}

}  // namespace

const std::vector<Dtype>& all_dtypes() {
  static const auto* all = new std::vector<Dtype>{
      {"float32", "float32", 4, true, "float"}, {"float64", "float64", 8, true, "double"},
      {"float16", "float16", 2, true, "float"}, {"bfloat16", "bfloat16", 2, true, "float"},
      {"int64", "int64", 8, false, "int64"},    {"int32", "int32", 4, false, "int32"},
      {"int16", "int16", 2, false, "int16"},    {"int8", "int8", 1, false, "int8"},
      {"uint8", "uint8", 1, false, "uint8"},    {"bool", "boolean", 1, false, "bool"},
  };
  return *all;
}

const Dtype* find_dtype(std::string_view name) {
  for (const Dtype& dtype : all_dtypes()) {
    if (name == dtype.name) return &dtype;
  }
  return nullptr;
}

std::unique_ptr<Function> make_library_function(Device& device, const std::string& name) {
  const std::string_view text = name;
  const size_t first = text.find('.'), last = text.rfind('.');
  if (first == std::string_view::npos || first == last) return nullptr;
  const std::string_view group = text.substr(0, first), operation = text.substr(first + 1, last - first - 1),
                         type = text.substr(last + 1);
  if (group == "copy") return make_copy(device, name, operation, type);
  const Operation* found = find_operation(group, operation);
  const Dtype* dtype = find_dtype(type);
  if (!found || !dtype || !has_domain(*found, *dtype)) return nullptr;
  if (group == "reduce") return make_reduction(device, name, operation, *dtype);
  if (group == "matmul") return make_matmul(device, name, *dtype);
  if (group == "index") return make_index(device, name, operation == "scatter_add", *dtype);
  return make_elementwise(device, name, group, operation, *dtype, nullptr);
}

std::vector<std::string> library_functions() {
  std::vector<std::string> names;
  for (const Dtype& dtype : all_dtypes()) {
    for (const Operation& operation : kOperations) {
      if (!has_domain(operation, dtype)) continue;
      names.push_back(std::string(operation.group) + "." + std::string(operation.name) + "." + dtype.name);
    }
    for (const Dtype& to : all_dtypes()) names.push_back(std::string("copy.") + dtype.name + "." + to.name);
  }
  for (const unsigned size : kByteSizes) names.push_back("copy.bytes." + std::to_string(size));
  return names;
}

}  // namespace nv
