// Optional reports at the call of an operator: the operator synchronizes, or falls back to a CPU kernel.
//
// Note [Reported synchronizations]
// Only synchronizations that the program causes are reported: data-dependent results and synchronous copies.
// Synchronizations of the host engine itself (the first call with new arguments, a kernel that draws from the
// CPU generator, the blocking schedule) are not reported, since a chip would not have them. So a program gets
// the same reports under every schedule. Explicit synchronization is not reported, as in CUDA.
//
// Settings are process-wide, because backward runs on autograd's threads. Thread safety: every function may
// be called from any thread.
#pragma once

#include "common/export.h"
#include "diagnostics/op_info.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace openreg {

enum class SyncDebugMode : int { Ignore = 0, Warn = 1, Raise = 2 };

// The operator to which all copies dispatch.
inline constexpr const char* kCopyName = "aten::_copy_from";

/// The response to a synchronization.
OPENREG_EXPORT void set_sync_debug_mode(SyncDebugMode response);
OPENREG_EXPORT SyncDebugMode sync_debug_mode();
/// The number of synchronizations reported since process start, and the operator of the latest one.
OPENREG_EXPORT std::pair<uint64_t, std::string> reported_syncs();

/// The response to a CPU fallback, except for the `allowed` operators: "aten::add.Tensor", or "aten::add" for
/// all of its overloads.
OPENREG_EXPORT void set_fallback_mode(SyncDebugMode response, std::vector<std::string> allowed);
OPENREG_EXPORT std::pair<SyncDebugMode, std::vector<std::string>> fallback_mode();

/// Whether the result of this call depends on data, so that it synchronizes on any device.
bool depends_on_data(const c10::OperatorHandle& op, const OpDescription& op_info,
                     const torch::jit::Stack& stack);

/// Reports a call on the host engine; warns or throws according to the settings.
void report_call(const c10::OperatorHandle& op, const OpDescription& op_info, const torch::jit::Stack& stack);

/// The same for a copy.
void report_copy(const at::Tensor& dst, const at::Tensor& src, bool non_blocking);

/// For native kernels that synchronize because of the program. `why` is a clause: "the number of its results
/// depends on data".
void report_sync(const char* name, const std::string& why);

}  // namespace openreg
