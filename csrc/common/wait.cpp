#include "common/wait.h"

namespace openreg {
namespace {

InterpreterLock interpreter{};

}  // namespace

thread_local bool WaitScope::entered_ = false;

void set_interpreter_lock(InterpreterLock lock) {
  interpreter = lock;
}

WaitScope::WaitScope() : was_(interpreter.let_go == nullptr ? nullptr : interpreter.let_go()) {
  entered_ = true;
}

WaitScope::~WaitScope() {
  if (was_ != nullptr) {
    interpreter.take(was_);
  }
}

}  // namespace openreg
