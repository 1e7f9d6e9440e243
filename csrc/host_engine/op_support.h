// Support status of each operator, without calling it.
//
// Thread safety: may be called from any thread. Operators may be registered and removed meanwhile.
#pragma once

#include "common/export.h"

#include <string>
#include <vector>

namespace openreg {

struct OpSupport {
  std::string name;  // "aten::add.Tensor"
  // "own": a kernel of ours. "borrowed": a CPU kernel, launched. "waits": a CPU kernel, for which the host
  // waits. "view": touches no data. "composite": PyTorch makes it of other operators. "missing": none of
  // these.
  std::string support;
  bool depends_on_data;  // the host would wait on any device; see diagnostics/sync_debug.h
};

/// The operators of a namespace ("aten") that have a schema, sorted by name.
OPENREG_EXPORT std::vector<OpSupport> op_support(const std::string& name_space);

}  // namespace openreg
