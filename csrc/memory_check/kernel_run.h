// The kernels that run now, and what the check has found in them.
//
// A run belongs to the thread that calls the kernel. Runs nest: a kernel may run another one. Threads that a
// kernel starts have no run of their own; an access of such a thread belongs to the only kernel that runs, or
// to one of them.
//
// Thread safety: all functions may be called from any thread.
#pragma once

#include "memory_check/region.h"

#include <openreg/kernel_hooks.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace openreg::memory_check {

/// An access that is not allowed.
struct Finding {
  enum class Kind { kAccess, kRead, kWrite, kChanged };

  Kind kind = Kind::kAccess;
  uintptr_t address = 0;
  BlockState block;
  Region* region = nullptr;
  uint64_t use = 0;
};

/// RAII scope around a kernel.
class KernelRun {
 public:
  KernelRun(const char* name, CallSite site);
  ~KernelRun();
  KernelRun(const KernelRun&) = delete;
  KernelRun& operator=(const KernelRun&) = delete;

  /// The innermost run of this thread; NULL outside of kernels.
  static KernelRun* current();
  /// Adds an access to the run of this thread or, if it has none, to a kernel that runs. Returns false if no
  /// kernel runs. For the fault handler: allocates nothing.
  static bool add_access(const Finding& finding);

  /// Checks the pattern around the block that contains an address of the kernel view.
  void check_around(uintptr_t address);
  bool found_any();
  CallSite site() const { return site_; }
  /// Text after the report, such as " [arguments: ...]". It names the launch site.
  void set_context(std::string context) { context_ = std::move(context); }

  /// Ends the accesses that the fault handler has allowed. Returns the report, empty without findings.
  std::string finish();

 private:
  static constexpr size_t kMostFindings = 4;  // the pages of others stay accessible until their next use

  void add(const Finding& finding);

  const char* name_;
  CallSite site_;
  std::string context_;
  size_t count_ = 0;
  bool helper_ = false;  // a thread without a run has accessed the memory
  std::array<Finding, kMostFindings> findings_;
  KernelRun* outer_;
  KernelRun* before_ = nullptr;  // all runs
  KernelRun* after_ = nullptr;
};

/// "reads freed memory: at offset 16 of a block of 4096 bytes, allocated at ..., freed at ...".
std::string to_string(const Finding& finding);

/// Prints a report to stderr, once for each text.
void print(const std::string& report);

/// The hook of the runtime, around each kernel.
orError_t run_checked(const orKernelCall* call, char* why, size_t why_size);

}  // namespace openreg::memory_check
