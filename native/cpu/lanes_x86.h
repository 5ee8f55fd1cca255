// Sixteen lanes on x86 (simd.h): what AVX2 and AVX-512 have in common.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace paceline::PACELINE_ISA {

struct Bytes { __m128i v; };  // sixteen, signed
inline void store(int8_t* p, Bytes a) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), a.v); }
inline int32_t sum(Bytes a) {
  const __m128i halves = _mm_sad_epu8(_mm_xor_si128(a.v, _mm_set1_epi8(-128)), _mm_setzero_si128());  // of a + 128 each
  return _mm_cvtsi128_si32(_mm_add_epi32(halves, _mm_unpackhi_epi64(halves, halves))) - 128 * kLanes;
}

}  // namespace paceline::PACELINE_ISA

#if defined(__AVX512F__)
#include "lanes_avx512.h"
#else
#include "lanes_avx2.h"
#endif

namespace paceline::PACELINE_ISA {

inline void end_streams() { _mm_sfence(); }
inline IntLanes load_unsigned(const uint8_t* p) { return widen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
inline __m128i low_nibbles(__m128i a) { return _mm_and_si128(a, _mm_set1_epi8(15)); }
inline IntLanes load_low_nibbles(const uint8_t* p) { return widen(low_nibbles(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))); }
inline IntLanes load_high_nibbles(const uint8_t* p) {
  return widen(low_nibbles(_mm_srli_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), 4)));
}
inline IntLanes load_folded_nibbles(const uint8_t* p) {  // of 8 bytes, the low ones first
  const __m128i a = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return widen(low_nibbles(_mm_unpacklo_epi64(a, _mm_srli_epi16(a, 4))));
}
inline Lanes load_small_floats(const uint8_t* p) {  // half of UE4M3: a binary16 with another bias
  const __m256i bits = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return from_halves(_mm256_slli_epi16(bits, 7)) * broadcast(128.0f);
}

}  // namespace paceline::PACELINE_ISA
