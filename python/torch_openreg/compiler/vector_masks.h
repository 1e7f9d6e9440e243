// Vector masks from and to bools in memory. The generic code of vec_mask.h handles one element at a time.
#if defined(CPU_CAPABILITY_AVX512)
namespace at::vec {
inline namespace CPU_CAPABILITY {

inline VecMask<float, 1> mask_of_bools(__m128i bools) {
  const __mmask16 lanes = _mm_test_epi8_mask(bools, bools);
  return VecMask<float, 1>(Vectorized<float>(_mm512_castsi512_ps(_mm512_movm_epi32(lanes))));
}

template <>
inline void VecMask<float, 1>::store(bool* b, int count) {
  const __mmask16 lanes = _mm512_movepi32_mask(_mm512_castps_si512(mask_[0]));
  const __m128i bools = _mm_maskz_set1_epi8(lanes, 1);
  if (count == size()) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(b), bools);
  } else {
    _mm_mask_storeu_epi8(b, static_cast<__mmask16>((1u << count) - 1), bools);
  }
}

template <>
template <>
inline VecMask<float, 1> VecMask<float, 1>::from(const bool* b) {
  return mask_of_bools(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b)));
}

template <>
template <>
inline VecMask<float, 1> VecMask<float, 1>::from(const bool* b, int count) {
  return mask_of_bools(_mm_maskz_loadu_epi8(static_cast<__mmask16>((1u << count) - 1), b));
}

}  // namespace CPU_CAPABILITY
}  // namespace at::vec
#elif defined(CPU_CAPABILITY_AVX2)
#include <cstring>
namespace at::vec {
inline namespace CPU_CAPABILITY {

inline VecMask<float, 1> mask_of_bools(int64_t bools) {
  const __m256i lanes = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(bools));
  return VecMask<float, 1>(
      Vectorized<float>(_mm256_castsi256_ps(_mm256_cmpgt_epi32(lanes, _mm256_setzero_si256()))));
}

template <>
inline void VecMask<float, 1>::store(bool* b, int count) {
  const __m256i lanes = _mm256_castps_si256(mask_[0]);
  const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
  const __m128i bools = _mm_and_si128(_mm_packs_epi16(words, words), _mm_set1_epi8(1));
  const int64_t all = _mm_cvtsi128_si64(bools);
  std::memcpy(b, &all, static_cast<size_t>(count));
}

template <>
template <>
inline VecMask<float, 1> VecMask<float, 1>::from(const bool* b) {
  int64_t all;
  std::memcpy(&all, b, sizeof(all));
  return mask_of_bools(all);
}

template <>
template <>
inline VecMask<float, 1> VecMask<float, 1>::from(const bool* b, int count) {
  int64_t all = 0;
  std::memcpy(&all, b, static_cast<size_t>(count));
  return mask_of_bools(all);
}

}  // namespace CPU_CAPABILITY
}  // namespace at::vec
#endif
