// What depends on an operator's name: one table, each entry with its reason and the torch that it was checked
// with. Everything else is derived from schemas, tags and alias information (op_traits.h).
//
// tests/test_op_rules.py fails for an entry that matches no operator of the installed torch.
#pragma once

#include "common/export.h"
#include "host_engine/ops/argument_checks.h"
#include "host_engine/ops/shape_functions.h"

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace openreg {

/// Sets of dtypes as bits.
namespace dtypes {

constexpr uint64_t bits(std::initializer_list<at::ScalarType> dtypes) {
  uint64_t all = 0;
  for (const at::ScalarType dtype : dtypes) {
    all |= uint64_t{1} << static_cast<int>(dtype);
  }
  return all;
}

inline constexpr uint64_t kHalf = bits({at::kHalf});
inline constexpr uint64_t kLowFloats = bits({at::kHalf, at::kBFloat16});
inline constexpr uint64_t kComplexHalf = bits({at::kComplexHalf});
inline constexpr uint64_t kIntegers = bits({at::kByte, at::kChar, at::kShort, at::kInt, at::kLong});
inline constexpr uint64_t kBool = bits({at::kBool});

}  // namespace dtypes

enum class OpFlag : uint8_t {
  kIndexing,              // host tensors may be indices; shapes depend on data only for a mask
  kTakesHostTensors,      // host tensors may be arguments beside device tensors
  kShapesFromKernel,      // the first call with a launch key runs synchronously, and its results are the plan
  kMayRejectData,         // an error may come from a launched kernel, so the launch site is recorded
  kSeldomRejectsData,     // the same, but a dry run on zeros or ones is accepted
  kRejectsOverlap,        // the kernel rejects an output that is an input
  kChecksStatus,          // synchronizes, and throws at the call
  kSynchronizes,          // for another reason
  kDrawsNothing,          // in spite of its tag
  kResizes,               // an in-place operator that changes sizes
  kFillsAnyShape,         // an output with the right number of elements keeps its sizes and strides
  kTrustsIntegers,        // no dry run with integer arguments
  kWarnsIfWide,           // the kernel warns about numbers beyond those that a floating dtype represents
  kWarnsOfResize,         // the kernel warns of an output that it resizes
  kWarns,                 // the kernel warns at every call
  kWarnsIfNotContiguous,  // the kernel warns about an argument that is not contiguous
  kSparseMetadata,        // for sparse tensors: the CPU kernel serves device tensors as they are
  kNestedComposite,       // for nested tensors: the same
  kQuantizedMetadata,     // for quantized tensors: the same
  kChannelsLast,          // results are channels last if one of the arguments is
  kChecked,               // arguments are checked by `check`
  kShaped,                // results are inferred by `shapes`
  kUpcast,                // runs in a wider dtype for `dtypes`
  kChoosesByDevice,       // the engine registers for it by name
};

/// `pattern` is a qualified name with its overload ("aten::add.out"), or ends with "." for all overloads,
/// with
/// "%" for all overloads and the in-place form, or with "*" for a prefix; "*x*" is found anywhere; "~x" is
/// the beginning of a token of the name.
struct OpRule {
  std::string_view pattern;
  OpFlag flag;
  const char* reason;
  const char* torch;
  uint64_t dtypes = 0;
  size_t first_argument = 0;
  size_t arguments = 0;
  ArgumentCheck check = nullptr;
  ShapeFunction shapes = nullptr;

  bool matches(std::string_view name) const;
};

/// All rules that match one operator.
struct OpRules {
  uint32_t flags = 0;
  uint64_t dtypes = 0;
  ArgumentCheck check = nullptr;
  ShapeFunction shapes = nullptr;
  const OpRule* format = nullptr;  // with kChannelsLast

  bool has(OpFlag flag) const { return ((flags >> static_cast<int>(flag)) & 1) != 0; }
};

std::span<const OpRule> op_rules();

/// The rules of an operator ("aten::add.Tensor"). Reads the whole table: ask once for each operator.
OpRules rules_for(std::string_view name);

struct OpRuleMatches {
  std::string pattern;
  std::string reason;
  std::string torch;
  size_t matches;  // operators of the installed torch
};

/// For the test of the table.
OPENREG_EXPORT std::vector<OpRuleMatches> op_rule_matches();

}  // namespace openreg
