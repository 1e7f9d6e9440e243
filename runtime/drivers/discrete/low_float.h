// float16 and bfloat16 in memory. Functions load them as float, compute, and round the result.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace openreg::discrete {

struct Float16 {
  uint16_t bits;

  Float16() = default;
  explicit Float16(float value) {
    const uint32_t word = std::bit_cast<uint32_t>(value), sign = word >> 16 & 0x8000,
                   size = word & 0x7fffffff;
    uint32_t half;
    if (size > 0x7f800000) {
      half = 0x7e00;  // NaN
    } else if (size >= 0x477ff000) {
      half = 0x7c00;  // rounds to infinity
    } else if (size < 0x38800000) {
      // Subnormal: the addition rounds to a multiple of 2^-24.
      half = std::bit_cast<uint32_t>(std::bit_cast<float>(size) + 0.5f) - std::bit_cast<uint32_t>(0.5f);
    } else {
      half = (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13;
    }
    bits = static_cast<uint16_t>(sign | half);
  }
  explicit operator float() const {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, exponent = bits >> 10 & 0x1f;
    const uint32_t fraction = bits & 0x3ff;
    if (exponent == 0)
      return std::bit_cast<float>(sign | 0x3f800000) * static_cast<float>(fraction) * 0x1p-24f;
    const uint32_t biased = exponent == 0x1f ? 0xff : exponent + 112;
    return std::bit_cast<float>(sign | biased << 23 | fraction << 13);
  }
};

struct BFloat16 {
  uint16_t bits;

  BFloat16() = default;
  explicit BFloat16(float value) {
    const uint32_t word = std::bit_cast<uint32_t>(value);
    const bool nan = (word & 0x7fffffff) > 0x7f800000;
    bits = static_cast<uint16_t>(nan ? 0x7fc0 : (word + 0x7fff + (word >> 16 & 1)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

template <typename T>
inline constexpr bool is_low_float = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

/// The type in which a function computes with elements of T.
template <typename T>
using Compute = std::conditional_t<is_low_float<T>, float, T>;

}  // namespace openreg::discrete
