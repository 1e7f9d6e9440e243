// CPU pause instruction for spin loops.
#pragma once

namespace openreg::sim {

inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

}  // namespace openreg::sim
