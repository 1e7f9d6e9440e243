#include "memory_check/kernel_run.h"

#include "memory_check/fault_handler.h"
#include "memory_check/regions.h"
#include "utf8.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>

namespace openreg::memory_check {
namespace {

std::mutex runs_mutex;  // guards the list and its members; the fault handler takes it
KernelRun* all_runs = nullptr;
thread_local KernelRun* innermost = nullptr;

const char* verb(Finding::Kind kind) {
  switch (kind) {
    case Finding::Kind::kRead:
      return "reads";
    case Finding::Kind::kWrite:
      return "writes";
    case Finding::Kind::kChanged:
      return "wrote";
    case Finding::Kind::kAccess:
      break;
  }
  return "accesses";
}

std::string at_site(const char* what, CallSite site) {
  return site == 0 ? std::string() : std::string(", ") + what + " at " + call_site_text(site);
}

}  // namespace

std::string to_string(const Finding& finding) {
  const BlockState& block = finding.block;
  const auto offset = static_cast<ptrdiff_t>(finding.address - block.data);
  const bool inside = offset >= 0 && static_cast<size_t>(offset) < block.bytes;
  // A pattern that changed was written before the free.
  const bool freed = block.freed && (inside || finding.kind != Finding::Kind::kChanged);
  return std::string(verb(finding.kind)) + (freed ? " freed memory" : " out of bounds") + ": at offset " +
         std::to_string(offset) + " of a block of " + std::to_string(block.bytes) +
         (block.bytes == 1 ? " byte" : " bytes") + at_site("allocated", block.allocated_at) +
         at_site("freed", block.freed_at);
}

void print(const std::string& report) {
  static auto* mutex = new std::mutex;  // guards printed
  static auto* printed = new std::set<std::string>;
  const std::lock_guard lock(*mutex);
  if (printed->insert(report).second) {
    std::fprintf(stderr, "%s: memory check: %s\n", orGetDeviceName(), report.c_str());
  }
}

KernelRun::KernelRun(const char* name, CallSite site) : name_(name), site_(site), outer_(innermost) {
  const std::lock_guard lock(runs_mutex);
  after_ = all_runs;
  if (after_ != nullptr) {
    after_->before_ = this;
  }
  all_runs = this;
  innermost = this;
}

KernelRun::~KernelRun() {
  const std::lock_guard lock(runs_mutex);
  (before_ == nullptr ? all_runs : before_->after_) = after_;
  if (after_ != nullptr) {
    after_->before_ = before_;
  }
  innermost = outer_;
}

KernelRun* KernelRun::current() {
  return innermost;
}

bool KernelRun::add_access(const Finding& finding) {
  const std::lock_guard lock(runs_mutex);
  KernelRun* run = innermost;
  if (run == nullptr) {
    run = all_runs;
    if (run == nullptr) {
      return false;
    }
    run->helper_ = run->after_ != nullptr;
  }
  run->add(finding);
  return true;
}

void KernelRun::add(const Finding& finding) {
  if (count_ < kMostFindings) {
    findings_[count_++] = finding;
  }
}

bool KernelRun::found_any() {
  const std::lock_guard lock(runs_mutex);
  return count_ > 0;
}

void KernelRun::check_around(uintptr_t address) {
  Region* region = region_at(address);
  Finding finding;
  if (region != nullptr && (finding.address = region->find_changed(&finding.block)) != 0) {
    finding.kind = Finding::Kind::kChanged;
    const std::lock_guard lock(runs_mutex);
    add(finding);
  }
}

std::string KernelRun::finish() {
  std::array<Finding, kMostFindings> found;
  size_t count = 0;
  {
    const std::lock_guard lock(runs_mutex);
    std::swap(count, count_);
    found = findings_;
  }
  std::string report;
  for (size_t i = 0; i < count; ++i) {
    if (found[i].region != nullptr) {
      found[i].region->close(found[i].address, found[i].use);
    }
    const std::string text = to_string(found[i]);
    if (report.find(text) == std::string::npos) {
      report += (report.empty() ? std::string(name_) + " " : "; it also ") + text;
    }
  }
  if (report.empty()) {
    return report;
  }
  if (helper_) {
    report += " (or another kernel that ran at the same time)";
  }
  if (context_.empty() && site_ != 0) {
    context_ = " [launched at " + call_site_text(site_) + "]";
  }
  return report + context_;
}

namespace {

// Checks the blocks whose addresses are in the argument block.
void check_arguments(KernelRun& run, const orKernelCall& call) {
  const auto* block = static_cast<const char*>(call.args);
  for (size_t i = 0; i + sizeof(uintptr_t) <= call.args_size; i += sizeof(uintptr_t)) {
    uintptr_t word = 0;
    std::memcpy(&word, block + i, sizeof(word));
    if (may_be_in_region(word)) {
      run.check_around(word);
    }
  }
}

}  // namespace

orError_t run_checked(const orKernelCall* call, char* why, size_t why_size) {
  install_fault_handler();
  KernelRun run(call->name, static_cast<CallSite>(call->launch));
  const orError_t result = call->run(call->args, why, why_size);
  check_arguments(run, *call);
  const std::string report = run.finish();
  if (report.empty()) {
    return result;
  }
  print(report);
  if (result != orSuccess) {
    return result;  // the kernel's own message
  }
  const size_t length = length_up_to(report, why_size - 1);
  std::memcpy(why, report.c_str(), length);
  why[length] = '\0';
  return orErrorKernelFailed;
}

}  // namespace openreg::memory_check
