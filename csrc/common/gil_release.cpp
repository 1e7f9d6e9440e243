#include "common/gil_release.h"

namespace openreg {
namespace {

GilHooks installed_hooks{};

}  // namespace

thread_local bool GilRelease::entered_ = false;

void set_gil_hooks(GilHooks hooks) {
  installed_hooks = hooks;
}

GilRelease::GilRelease() : state_(installed_hooks.release == nullptr ? nullptr : installed_hooks.release()) {
  entered_ = true;
}

GilRelease::~GilRelease() {
  if (state_ != nullptr) {
    installed_hooks.acquire(state_);
  }
}

}  // namespace openreg
