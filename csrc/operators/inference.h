// While shapes are inferred, operators describe their outputs and do not run.
//
// Note [Inference in C++]
// PyTorch has a default for structured operators: it computes the shapes of the outputs, allocates them and
// calls the out form. Called while this scope lives, the out form arrives at the engine, which returns
// without running it; the outputs are there, with the shapes that were wanted. That takes microseconds, where
// a Meta kernel may be Python and take a thousand of them, and on its first call imports half of a compiler.
#pragma once

namespace openreg {

class InferenceScope {
 public:
  InferenceScope() : before_(active_) { active_ = true; }
  ~InferenceScope() { active_ = before_; }
  InferenceScope(const InferenceScope&) = delete;
  InferenceScope& operator=(const InferenceScope&) = delete;

  /// Whether operators of this thread are not to run.
  static bool active() { return active_; }

 private:
  static inline thread_local bool active_ = false;
  bool before_;
};

}  // namespace openreg
