// Reports that a program can ask for, at the call: an operator synchronizes, or an operator runs on a CPU
// kernel.
//
// Note [Whose wait]
// Only waits that the program asks for are reported: a result that depends on data, a copy that has to be
// done when it returns. What the engine waits for by itself (a first call of its kind, a kernel that draws
// from the host's generator, the blocking schedule) would not happen on a chip. So a program hears the same
// under every schedule. Explicit synchronization is not reported, as on CUDA.
//
// Settings are process-wide, since backward runs on threads of its own. Thread safety: every function may be
// called from any thread.
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

// The operator that all copies arrive at.
inline constexpr const char* kCopyName = "aten::_copy_from";

/// What a wait does.
OPENREG_EXPORT void set_wait_response(SyncDebugMode response);
OPENREG_EXPORT SyncDebugMode wait_response();
/// How many waits were reported since the process began, and the operator of the latest.
OPENREG_EXPORT std::pair<uint64_t, std::string> reported_waits();

/// What a borrowed kernel does, except for the operators named: "aten::add.Tensor", or "aten::add" for all of
/// its overloads.
OPENREG_EXPORT void set_borrowed_response(SyncDebugMode response, std::vector<std::string> allowed);
OPENREG_EXPORT std::pair<SyncDebugMode, std::vector<std::string>> borrowed_response();

/// An operator arrives at the engine. Warns or throws if it should.
void report_call(const c10::OperatorHandle& op, const OpInfo& op_info, const torch::jit::Stack& stack);

/// The same for a copy.
void report_copy(const at::Tensor& dst, const at::Tensor& src, bool non_blocking);

/// For a kernel of ours that makes the host wait because the program asks for that. `why` is a clause: "the
/// number of its results depends on data".
void report_wait(const char* name, const std::string& why);

}  // namespace openreg
