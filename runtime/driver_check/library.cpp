// The functions of the kernel library that the driver offers, for float32; see kernel_library.h.
#include "check.h"
#include "openreg/kernel_library.h"

#include <cmath>

namespace openreg::check {
namespace {

constexpr orLaunchConfig kOne = {sizeof(orLaunchConfig), {1, 1, 1}, {1, 1, 1}, 0};
constexpr int64_t kFloat = sizeof(float);

orDriverModule* built_in(const orDriver& driver) {
  if (!driver.module_load) throw Skipped{"no device code"};
  orDriverModule* module = nullptr;
  OK(driver.module_load(0, nullptr, 0, &module));
  return module;
}

// NULL: the driver does not offer it.
orDriverFunction* find(const orDriver& driver, orDriverModule* module, const std::string& name) {
  orDriverFunction* function = nullptr;
  return driver.module_function(module, name.c_str(), &function) == orSuccess ? function : nullptr;
}

template <typename T>
void write(const Memory& memory, const std::vector<T>& values) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(values.data());
  memory.write({bytes, bytes + values.size() * sizeof(T)});
}

std::vector<float> read(const Memory& memory, size_t count) {
  const auto bytes = memory.read(count * sizeof(float));
  const auto* values = reinterpret_cast<const float*>(bytes.data());
  return {values, values + count};
}

template <typename Args>
void run(const orDriver& driver, orDriverFunction* function, const Args& args) {
  const Stream stream(driver);
  OK(driver.stream_launch_function(stream, function, &kOne, &args, sizeof(args), nullptr));
  stream.synchronize();
}

void require_close(const std::vector<float>& actual, const std::vector<float>& expected,
                   const std::string& name) {
  for (size_t i = 0; i < expected.size(); ++i) {
    const float allowed = 1e-5f * std::max(1.0f, std::abs(expected[i]));
    REQUIRE(std::abs(actual[i] - expected[i]) <= allowed, "'%s': element %zu is %g, not %g", name.c_str(), i,
            static_cast<double>(actual[i]), static_cast<double>(expected[i]));
  }
}

struct Elementwise {
  const char* name;
  float (*expected)(float a, float b, float c);  // with the scalar 0.5
};

constexpr Elementwise kElementwise[] = {
    {"unary.abs", [](float a, float, float) { return std::abs(a); }},
    {"unary.ceil", [](float a, float, float) { return std::ceil(a); }},
    {"unary.cos", [](float a, float, float) { return std::cos(a); }},
    {"unary.erf", [](float a, float, float) { return std::erf(a); }},
    {"unary.exp", [](float a, float, float) { return std::exp(a); }},
    {"unary.floor", [](float a, float, float) { return std::floor(a); }},
    {"unary.log", [](float a, float, float) { return std::log(a); }},
    {"unary.neg", [](float a, float, float) { return -a; }},
    {"unary.reciprocal", [](float a, float, float) { return 1 / a; }},
    {"unary.relu", [](float a, float, float) { return std::max(a, 0.0f); }},
    {"unary.rsqrt", [](float a, float, float) { return 1 / std::sqrt(a); }},
    {"unary.sigmoid", [](float a, float, float) { return 1 / (1 + std::exp(-a)); }},
    {"unary.sin", [](float a, float, float) { return std::sin(a); }},
    {"unary.sqrt", [](float a, float, float) { return std::sqrt(a); }},
    {"unary.tanh", [](float a, float, float) { return std::tanh(a); }},
    {"binary.add", [](float a, float b, float) { return a + 0.5f * b; }},
    {"binary.sub", [](float a, float b, float) { return a - 0.5f * b; }},
    {"binary.lerp", [](float a, float b, float) { return a + 0.5f * (b - a); }},
    {"binary.mul", [](float a, float b, float) { return a * b; }},
    {"binary.div", [](float a, float b, float) { return a / b; }},
    {"binary.maximum", [](float a, float b, float) { return std::max(a, b); }},
    {"binary.minimum", [](float a, float b, float) { return std::min(a, b); }},
    {"binary.pow", [](float a, float b, float) { return std::pow(a, b); }},
    {"binary.relu_backward", [](float a, float b, float) { return b > 0 ? a : 0.0f; }},
    {"binary.sigmoid_backward", [](float a, float b, float) { return a * (1 - b) * b; }},
    {"binary.tanh_backward", [](float a, float b, float) { return a * (1 - b * b); }},
    {"ternary.addcmul", [](float a, float b, float c) { return a + 0.5f * b * c; }},
    {"ternary.addcdiv", [](float a, float b, float c) { return a + 0.5f * b / c; }},
    {"fill.value", [](float, float, float) { return 0.5f; }},
};

// A transposed output, an operand that is broadcast, and one with gaps.
void elementwise(const orDriver& driver) {
  orDriverModule* module = built_in(driver);
  constexpr int64_t kRows = 37, kColumns = 5, kCount = kRows * kColumns;
  const Memory out(driver, kCount * kFloat), a(driver, kCount * kFloat), b(driver, kColumns * kFloat),
      c(driver, 2 * kCount * kFloat);
  std::vector<float> first(kCount), second(kColumns), third(2 * kCount);
  for (size_t i = 0; i < first.size(); ++i) first[i] = 0.01f * static_cast<float>(i + 1);
  for (size_t i = 0; i < second.size(); ++i) second[i] = 0.5f + static_cast<float>(i);
  for (size_t i = 0; i < third.size(); ++i) third[i] = 1.5f + 0.01f * static_cast<float>(i);
  write(a, first), write(b, second), write(c, third);
  orElementwiseArgs args{};
  args.struct_size = sizeof(args);
  args.dims = 2;
  args.sizes[0] = kColumns, args.sizes[1] = kRows;
  const int64_t strides[4][2] = {{kRows, 1}, {1, kColumns}, {1, 0}, {2, 2 * kColumns}};
  for (int i = 0; i < 4; ++i) {
    for (int dim = 0; dim < 2; ++dim) args.strides[i][dim] = strides[i][dim] * kFloat;
  }
  args.data[0] = out.get(), args.data[1] = a.get(), args.data[2] = b.get(), args.data[3] = c.get();
  args.scalar = 0.5;
  int found = 0;
  for (const Elementwise& function : kElementwise) {
    const std::string name = std::string(function.name) + ".float32";
    orDriverFunction* offered = find(driver, module, name);
    if (!offered) continue;
    ++found;
    run(driver, offered, args);
    std::vector<float> expected(kCount);
    for (size_t row = 0; row < kRows; ++row) {
      for (size_t column = 0; column < kColumns; ++column) {
        const size_t at = row * kColumns + column;
        expected[column * kRows + row] = function.expected(first[at], second[column], third[2 * at]);
      }
    }
    require_close(read(out, kCount), expected, name);
  }
  if (!found) throw Skipped{"no element-wise functions"};
}

// Over the rows of a matrix.
void reduction(const orDriver& driver) {
  orDriverModule* module = built_in(driver);
  constexpr int64_t kRows = 1000, kColumns = 3;
  const Memory out(driver, kColumns * kFloat), in(driver, kRows * kColumns * kFloat);
  std::vector<float> values(kRows * kColumns), sums(kColumns), most(kColumns, -1e9f), least(kColumns, 1e9f);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i * 7 % 101) - 50;
    sums[i % kColumns] += values[i];
    most[i % kColumns] = std::max(most[i % kColumns], values[i]);
    least[i % kColumns] = std::min(least[i % kColumns], values[i]);
  }
  for (float& sum : sums) sum *= 0.25f;
  write(in, values);
  orElementwiseArgs args{};
  args.struct_size = sizeof(args);
  args.dims = 2;
  args.sizes[0] = kRows, args.sizes[1] = kColumns;
  args.strides[0][1] = kFloat;
  args.strides[1][0] = kColumns * kFloat, args.strides[1][1] = kFloat;
  args.data[0] = out.get(), args.data[1] = in.get();
  const std::pair<const char*, const std::vector<float>*> functions[] = {
      {"reduce.sum.float32", &sums}, {"reduce.max.float32", &most}, {"reduce.min.float32", &least}};
  int found = 0;
  for (const auto& [name, expected] : functions) {
    args.scalar = expected == &sums ? 0.25 : 1;
    if (orDriverFunction* function = find(driver, module, name)) {
      ++found;
      run(driver, function, args);
      require_close(read(out, kColumns), *expected, name);
    }
  }
  if (!found) throw Skipped{"no reductions"};
}

// c = 2 * (a @ b^T) + 0.5 * c, in two batches
void matmul(const orDriver& driver) {
  orDriverModule* module = built_in(driver);
  constexpr int64_t kBatch = 2, kM = 17, kN = 19, kK = 23;
  orDriverFunction* gemm = find(driver, module, "matmul.gemm.float32");
  if (!gemm) throw Skipped{"no function 'matmul.gemm.float32'"};
  const Memory a(driver, kBatch * kM * kK * kFloat), b(driver, kBatch * kN * kK * kFloat),
      c(driver, kBatch * kM * kN * kFloat);
  std::vector<float> left(kBatch * kM * kK), right(kBatch * kN * kK), expected(kBatch * kM * kN, 4.0f);
  for (size_t i = 0; i < left.size(); ++i) left[i] = static_cast<float>(i % 7) - 3;
  for (size_t i = 0; i < right.size(); ++i) right[i] = static_cast<float>(i % 5) - 2;
  write(a, left), write(b, right), write(c, expected);
  orMatmulArgs args{};
  args.struct_size = sizeof(args);
  args.batch = kBatch, args.m = kM, args.n = kN, args.k = kK;
  args.a = a.get(), args.b = b.get(), args.c = c.get();
  args.a_strides[0] = kM * kK, args.a_strides[1] = kK, args.a_strides[2] = 1;
  args.b_strides[0] = kN * kK, args.b_strides[1] = 1, args.b_strides[2] = kK;
  args.c_strides[0] = kM * kN, args.c_strides[1] = kN, args.c_strides[2] = 1;
  args.alpha = 2, args.beta = 0.5;
  run(driver, gemm, args);
  for (size_t i = 0; i < expected.size(); ++i) {
    const size_t batch = i / (kM * kN), row = i / kN % kM, column = i % kN;
    float sum = 0;
    for (size_t k = 0; k < kK; ++k) {
      sum += left[(batch * kM + row) * kK + k] * right[(batch * kN + column) * kK + k];
    }
    expected[i] = 2 * sum + 2;
  }
  require_close(read(c, expected.size()), expected, "matmul.gemm.float32");
}

// Rows of a table, some of them several times.
struct Rows {
  static constexpr int64_t kRows = 4, kColumns = 6, kIndices = 50;

  explicit Rows(const orDriver& driver)
      : index(driver, kIndices * sizeof(int64_t)),
        dense(driver, kIndices * kColumns * kFloat),
        table(driver, kRows * kColumns * kFloat) {
    args.struct_size = sizeof(args);
    args.dims = 2;
    args.sizes[0] = kColumns, args.sizes[1] = kIndices;
    args.index_strides[1] = sizeof(int64_t);
    args.dense_strides[0] = kFloat, args.dense_strides[1] = kColumns * kFloat;
    args.indexed_strides[0] = kFloat;
    args.index = reinterpret_cast<const int64_t*>(index.get());
    args.dense = dense.get(), args.indexed = table.get();
    args.indexed_size = kRows, args.indexed_stride = kColumns * kFloat;
    for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<int64_t>(i * i % kRows);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    write(index, indices), write(table, values);
  }

  const Memory index, dense, table;
  std::vector<int64_t> indices = std::vector<int64_t>(kIndices);
  std::vector<float> values = std::vector<float>(kRows * kColumns);
  orIndexArgs args{};
};

void index(const orDriver& driver) {
  orDriverModule* module = built_in(driver);
  orDriverFunction* gather = find(driver, module, "index.gather.float32");
  orDriverFunction* scatter_add = find(driver, module, "index.scatter_add.float32");
  if (!gather && !scatter_add) throw Skipped{"no functions with an index"};
  const Rows rows(driver);
  std::vector<float> gathered, sums = rows.values;
  for (const int64_t row : rows.indices) {
    for (int64_t column = 0; column < Rows::kColumns; ++column) {
      const auto at = static_cast<size_t>(row * Rows::kColumns + column);
      gathered.push_back(rows.values[at]);
      sums[at] += rows.values[at];
    }
  }
  if (gather) {
    run(driver, gather, rows.args);
    require_close(read(rows.dense, gathered.size()), gathered, "index.gather.float32");
  }
  if (scatter_add) {
    write(rows.dense, gathered);
    run(driver, scatter_add, rows.args);
    require_close(read(rows.table, sums.size()), sums, "index.scatter_add.float32");
  }
}

void index_out_of_range(const orDriver& driver) {
  orDriverModule* module = built_in(driver);
  orDriverFunction* gather = find(driver, module, "index.gather.float32");
  if (!gather) throw Skipped{"no function 'index.gather.float32'"};
  Rows rows(driver);
  rows.indices[7] = Rows::kRows;
  write(rows.index, rows.indices);
  const Stream stream(driver);
  OK(driver.stream_launch_function(stream, gather, &kOne, &rows.args, sizeof(rows.args), nullptr));
  REQUIRE(driver.stream_synchronize(stream) != orSuccess,
          "stream_synchronize returned orSuccess after a function with an index that is out of range");
}

constexpr Check kChecks[] = {
    {"library-elementwise", "functions of the kernel library compute element-wise, for all strides",
     &elementwise},
    {"library-reduce", "reductions of the kernel library reduce dimensions with strides of 0, and scale sums",
     &reduction},
    {"library-matmul", "matmul.gemm multiplies batches of matrices with any strides", &matmul},
    {"library-index", "index.gather and index.scatter_add use the index, and add for repeated ones", &index},
    {"library-index-range", "an index that is out of range fails the function", &index_out_of_range},
};

}  // namespace

std::span<const Check> library_checks() {
  return kChecks;
}

}  // namespace openreg::check
