// Support status of each operator, without calling it. host_engine/op_support.cpp implements it for the
// library with the host engine, operators/library/op_support.cpp for the one without.
//
// Thread safety: may be called from any thread, also while operators are registered and deregistered.
#pragma once

#include "common/export.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <string>
#include <vector>

namespace openreg {

struct OpSupport {
  std::string name;  // "aten::add.Tensor"
  // "device": a device kernel. "view": touches no data. "composite": calls other operators. "missing": none
  // of these. With the host engine: "cpu": a CPU kernel, launched; "cpu_sync": a CPU kernel, run
  // synchronously. Without: "driver": a function of the driver, for the dtypes that it has, else as
  // "fallback": on the CPU, between copies.
  std::string support;
  bool depends_on_data;  // synchronizes on any device; see diagnostics/sync_debug.h
};

/// The operators of a namespace ("aten") that have a schema, sorted by name.
OPENREG_EXPORT std::vector<OpSupport> op_support(const std::string& name_space);

/// The same, with `describe(op)` for each operator: for the two implementations.
template <typename Describe>
std::vector<OpSupport> describe_ops(const std::string& name_space, Describe&& describe) {
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  std::vector<OpSupport> all;
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findOp(name);
    if (name.getNamespace() == name_space && op.has_value() && op->hasSchema()) {
      all.push_back(describe(*op));
    }
  }
  std::ranges::sort(all, {}, &OpSupport::name);
  return all;
}

}  // namespace openreg
