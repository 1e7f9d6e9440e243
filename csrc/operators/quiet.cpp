#include "operators/quiet.h"

#include "memory/kernel_allocator.h"
#include "operators/below.h"
#include "profiler/unrecorded.h"

#include <c10/util/Exception.h>

#include <cstring>

namespace openreg {
namespace {

// A kernel's warnings were given when its shapes were inferred.
struct Silence final : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

void say(char* why, size_t size, const char* words) {
  std::strncpy(why, words, size - 1);
  why[size - 1] = '\0';
}

}  // namespace

orError_t run_quietly(const std::function<void()>& body, char* why, size_t why_size) noexcept {
  static thread_local Silence silence;
  try {
    const c10::WarningUtils::WarningHandlerGuard quiet(&silence);
    const BelowEverything below;
    const Unrecorded unrecorded;
    const OfferScope host_memory({});
    body();
    return orSuccess;
  } catch (const c10::Error& error) {
    say(why, why_size, error.what_without_backtrace());
  } catch (const std::exception& error) {
    say(why, why_size, error.what());
  } catch (...) {
    say(why, why_size, "an exception of an unknown type");
  }
  return orErrorKernelFailed;
}

}  // namespace openreg
