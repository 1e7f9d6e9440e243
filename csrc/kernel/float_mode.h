// The denormal mode of a thread (torch.set_flush_denormal), to copy it to another thread.
#pragma once

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace openreg {

#if defined(__SSE__)
constexpr unsigned kDenormalBits = 0x8040;  // flush to zero, denormals are zero

inline unsigned float_mode_now() {
  return _mm_getcsr() & kDenormalBits;
}
inline void set_float_mode(unsigned mode) {
  _mm_setcsr((_mm_getcsr() & ~kDenormalBits) | mode);
}
#else
inline unsigned float_mode_now() {
  return 0;
}
inline void set_float_mode(unsigned) {}
#endif

}  // namespace openreg
