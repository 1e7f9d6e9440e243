#include "memory_check/memory_check.h"

#include "common/check.h"
#include "memory_check/kernel_run.h"
#include "memory_check/regions.h"

#include <openreg/kernel_hooks.h>

#include <cstring>
#include <memory>
#include <utility>

namespace openreg::memory_check {
namespace {

Options chosen;

uint64_t note_launch() {
  return current_site();
}

ptrdiff_t view_offset() {
  static const ptrdiff_t offset = [] {
    int device = 0;
    OR_CHECK(orGetDevice(&device));
    ptrdiff_t value = 0;
    OR_CHECK(orGetKernelViewOffset(&value, device));
    return value;
  }();
  return offset;
}

// The arguments of the kernel that seals a freed block.
struct Seal {
  Region* region;
  uint64_t use;

  /// Returns the report of a write around the block; empty if there is none.
  std::string apply() const {
    Finding finding{Finding::Kind::kChanged, 0, {}, nullptr, 0};
    finding.address = region->seal(use, &finding.block);
    return finding.address == 0 ? std::string() : "a kernel " + to_string(finding) + "; found at the free";
  }

  static orError_t run(void* args, char* why, size_t why_size) {
    const std::string report = static_cast<const Seal*>(args)->apply();
    if (report.empty()) {
      return orSuccess;
    }
    print(report);
    std::strncpy(why, report.c_str(), why_size - 1);
    why[why_size - 1] = '\0';
    return orErrorKernelFailed;
  }
};

constexpr orKernel kSeal = {"memory check", &Seal::run, nullptr};

// Fails the stream, for a report that was made on the host.
struct Failure {
  std::string* report;

  static orError_t run(void* args, char* why, size_t why_size) {
    std::strncpy(why, static_cast<const Failure*>(args)->report->c_str(), why_size - 1);
    why[why_size - 1] = '\0';
    return orErrorKernelFailed;
  }
  static void release(void* args) { delete static_cast<const Failure*>(args)->report; }
};

constexpr orKernel kFailure = {"memory check", &Failure::run, &Failure::release};

void fail_stream(orStream_t stream, const std::string& report) {
  auto text = std::make_unique<std::string>(report);
  const Failure failure{text.get()};
  if (orLaunchKernel(stream, &kFailure, &failure, sizeof(failure)) == orSuccess) {
    static_cast<void>(text.release());
  }
}

}  // namespace

bool start(const Options& options) {
  orKernelHooks hooks{};
  hooks.struct_size = sizeof(hooks);
  hooks.launched = &note_launch;
  hooks.run = &run_checked;
  const orError_t error = orSetKernelHooks(&hooks);
  if (error == orErrorNotSupported) {
    return false;
  }
  OR_CHECK_RESULT(error, orSetKernelHooks);
  chosen = options;
  enabled.store(true);
  return true;
}

const Options& options() {
  return chosen;
}

CallSite current_site() {
  return chosen.site();
}

Region* add_memory(void* base, size_t length, size_t size, bool unused) {
  return add_region(base, length, size, view_offset(), unused);
}

void seal_in_order(Region* region, uint64_t use, orStream_t stream) noexcept {
  orCaptureStatus status = orCaptureNone;
  if (orStreamIsCapturing(stream, &status, nullptr) != orSuccess || status != orCaptureNone) {
    return;  // the seal would become a part of the graph
  }
  try {
    const CallSiteScope no_site(0);
    const Seal seal{region, use};
    const orError_t state = orStreamQuery(stream);
    if (state != orSuccess && state != orErrorKernelFailed) {
      // If the stream does not exist any more, the block stays accessible.
      (void)!orLaunchKernel(stream, &kSeal, &seal, sizeof(seal));
      return;
    }
    if (const std::string report = seal.apply(); !report.empty()) {
      print(report);
      fail_stream(stream, report);
    }
  } catch (const std::exception&) {
    // Out of memory for a report.
  }
}

void check_around(const void* kernel_ptr) {
  if (KernelRun* run = KernelRun::current()) {
    run->check_around(reinterpret_cast<uintptr_t>(kernel_ptr));
  }
}

bool found_any() {
  KernelRun* run = KernelRun::current();
  return run != nullptr && run->found_any();
}

void set_context(std::string context) {
  if (KernelRun* run = KernelRun::current()) {
    run->set_context(std::move(context));
  }
}

CallSite site_of_kernel() {
  const KernelRun* run = KernelRun::current();
  return run == nullptr ? 0 : run->site();
}

}  // namespace openreg::memory_check
