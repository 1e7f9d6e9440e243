// Lines of the Python program, interned, so that an access stores a number.
//
// This library does not link Python; the bindings install the function. Thread safety: all functions may be
// called from any thread.
#pragma once

#include "common/export.h"

#include <cstdint>
#include <string>

namespace openreg {

using CallSite = uint32_t;  // 0: unknown

/// `function` returns the call site of the calling thread. It may take the GIL, so the caller holds no lock.
OPENREG_EXPORT void set_call_site_function(CallSite (*function)());

/// The call site of the calling thread; inside of a CallSiteScope, that of the scope.
CallSite call_site();
/// The call site of the CallSiteScope; 0 outside of one. Does not take the GIL.
CallSite call_site_of_scope();

/// RAII scope of one operator call, which looks its call site up once. Scopes nest; the outermost one counts.
class CallSiteScope {
 public:
  explicit CallSiteScope(CallSite site);
  ~CallSiteScope();
  CallSiteScope(const CallSiteScope&) = delete;
  CallSiteScope& operator=(const CallSiteScope&) = delete;
};

/// The number of a text, such as "train.py:12 in step".
OPENREG_EXPORT CallSite intern_call_site(const std::string& text);
std::string call_site_text(CallSite site);

}  // namespace openreg
