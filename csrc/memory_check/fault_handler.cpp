#include "memory_check/fault_handler.h"

#include "common/fork.h"
#include "memory_check/kernel_run.h"
#include "memory_check/regions.h"

#include <atomic>
#include <csignal>
#include <mutex>
#include <ucontext.h>
#include <unistd.h>

namespace openreg::memory_check {
namespace {

std::mutex install_mutex;  // guards the installation
struct sigaction previous {};
std::atomic<uintptr_t> passed_on{0};  // the address of the latest fault that the previous handler got

Finding::Kind kind_of([[maybe_unused]] const void* context) {
#if defined(__x86_64__)
  constexpr greg_t kWriteBit = 2;
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
  return (registers[REG_ERR] & kWriteBit) != 0 ? Finding::Kind::kWrite : Finding::Kind::kRead;
#else
  return Finding::Kind::kAccess;
#endif
}

// Returns true if the faulting instruction can continue.
bool allow_access(uintptr_t address, const void* context) {
  if (!may_be_in_region(address) || in_forked_child()) {
    return false;
  }
  Region* region = region_at(address);
  if (region == nullptr) {
    return false;
  }
  Finding finding{kind_of(context), address, {}, region, 0};
  if (!region->open(address, &finding.block, &finding.use)) {
    return true;  // another thread has made the page accessible
  }
  if (KernelRun::add_access(finding)) {
    return true;
  }
  region->close(address, finding.use);
  constexpr char kMessage[] =
      "memory check: host code outside of a kernel accesses device memory that is freed, or out of bounds\n";
  (void)!write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
  return false;
}

void handle(int signal, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  if (info->si_code == SEGV_ACCERR && allow_access(address, context)) {
    return;
  }
  // The instruction is repeated when this returns. A handler that returns twice for one fault would do so
  // for ever.
  const bool again = passed_on.exchange(address) == address;
  if (!again && (previous.sa_flags & SA_SIGINFO) != 0 && previous.sa_sigaction != nullptr) {
    previous.sa_sigaction(signal, info, context);
  } else if (!again && previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal);
  } else {
    struct sigaction end {};
    end.sa_handler = SIG_DFL;
    sigaction(signal, &end, nullptr);
  }
}

}  // namespace

void install_fault_handler() {
  struct sigaction now {};
  sigaction(SIGSEGV, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == &handle) {
    return;
  }
  const std::lock_guard lock(install_mutex);
  sigaction(SIGSEGV, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == &handle) {
    return;
  }
  previous = now;
  struct sigaction ours {};
  ours.sa_sigaction = &handle;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&ours.sa_mask);
  sigaction(SIGSEGV, &ours, nullptr);
}

}  // namespace openreg::memory_check
