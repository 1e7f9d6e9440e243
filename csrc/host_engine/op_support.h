// Support status of each operator, without calling it.
//
// Thread safety: may be called from any thread, also while operators are registered and deregistered.
#pragma once

#include "common/export.h"

#include <string>
#include <vector>

namespace openreg {

struct OpSupport {
  std::string name;  // "aten::add.Tensor"
  // "device": a device kernel. "cpu": a CPU kernel, launched. "cpu_sync": a CPU kernel, run synchronously.
  // "view": touches no data. "composite": calls other operators. "missing": none of these.
  std::string support;
  bool depends_on_data;  // synchronizes on any device; see diagnostics/sync_debug.h
};

/// The operators of a namespace ("aten") that have a schema, sorted by name.
OPENREG_EXPORT std::vector<OpSupport> op_support(const std::string& name_space);

}  // namespace openreg
