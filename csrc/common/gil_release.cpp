#include "common/gil_release.h"

namespace openreg {
namespace {

GilHooks interpreter{};

}  // namespace

thread_local bool GilRelease::entered_ = false;

void set_gil_hooks(GilHooks lock) {
  interpreter = lock;
}

GilRelease::GilRelease() : was_(interpreter.release == nullptr ? nullptr : interpreter.release()) {
  entered_ = true;
}

GilRelease::~GilRelease() {
  if (was_ != nullptr) {
    interpreter.take(was_);
  }
}

}  // namespace openreg
