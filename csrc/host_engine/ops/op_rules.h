// The one table of properties that depend on an operator's name. Each entry has a reason and the torch
// version that it was checked with. All other properties are derived from schemas, tags and alias information
// (op_traits.h).
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

/// Bit sets of dtypes.
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
  kIndexing,              // indices may be host tensors; output shapes depend on data only for masks
  kTakesHostTensors,      // accepts host tensors together with device tensors
  kShapesFromKernel,      // the first call with a launch key runs synchronously; its results become the plan
  kMayRejectData,         // a launched kernel may fail on data, so the launch site is recorded
  kRarelyRejectsData,     // the same, but a dry run on zeros or ones succeeds
  kRejectsOverlap,        // the kernel rejects an output that is an input
  kChecksStatus,          // synchronizes, and throws at the call
  kSynchronizes,          // synchronizes for another reason
  kDynamicShape,          // the output shape depends on data, despite its tags
  kNotRandom,             // draws no random numbers, despite its tag
  kResizes,               // an in-place operator that changes sizes
  kFillsAnyShape,         // an output with the right number of elements keeps its sizes and strides
  kNoDryRunWithIntegers,  // no dry run with integer arguments
  kNoDryRunWithZeros,     // dry runs use ones only
  kWarnsIfWide,           // the kernel warns about bounds that a floating dtype cannot represent
  kWarnsOnResize,         // the kernel warns when it resizes an output
  kWarns,                 // the kernel warns at every call
  kWarnsIfNotContiguous,  // the kernel warns about non-contiguous arguments
  kSparseMetadata,        // for sparse tensors: the CPU kernel accepts device tensors
  kNestedMetadata,        // for nested tensors: the same
  kQuantizedMetadata,     // for quantized tensors: the same
  kChannelsLast,          // results are channels last if a deciding argument is
  kChecked,               // arguments are checked by `check`
  kHasShapeFunction,      // results are inferred by `shapes`
  kUpcast,                // tensors with one of `dtypes` are upcast
  kChoosesByDevice,       // the engine is registered for it by name
};

/// Forms of `pattern`:
///   "aten::add.out"  one overload
///   "aten::add."     all overloads
///   "aten::add%"     all overloads, also of the in-place form
///   "aten::add*"     names with this prefix
///   "*add*"          names that contain this string
///   "~add"           aten operators with a name token that starts with this string (name_match.h)
struct OpRule {
  std::string_view pattern;
  OpFlag flag;
  const char* reason;
  const char* torch;
  uint64_t dtypes = 0;
  size_t first_argument = 0;  // with kChannelsLast: the arguments that decide
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

/// The rules of an operator ("aten::add.Tensor"). Scans the whole table: call it once per operator.
OpRules rules_for(std::string_view name);

struct OpRuleMatches {
  std::string pattern;
  std::string reason;
  std::string torch;
  size_t matches;  // number of operators of the installed torch
};

/// For tests/test_op_rules.py.
OPENREG_EXPORT std::vector<OpRuleMatches> op_rule_matches();

}  // namespace openreg
