// Sixteen lanes in two registers of AVX2, with VNNI or without (simd.h).
#pragma once

namespace paceline::PACELINE_ISA {

struct Lanes { __m256 lo, hi; };
struct IntLanes { __m256i lo, hi; };

inline Lanes zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
inline Lanes broadcast(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline Lanes load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void store(float* p, Lanes a) { _mm256_storeu_ps(p, a.lo); _mm256_storeu_ps(p + 8, a.hi); }
inline void stream(float* p, Lanes a) { _mm256_stream_ps(p, a.lo); _mm256_stream_ps(p + 8, a.hi); }
inline Lanes load_half(const uint16_t* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}
inline __m256 brain_half(const uint16_t* p) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), 16));
}
inline Lanes load_brain(const uint16_t* p) { return {brain_half(p), brain_half(p + 8)}; }
inline __m256 powers_half(const uint8_t* p) {
  const __m256i e = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
  const __m256i small = _mm256_sllv_epi32(_mm256_set1_epi32(0x200000), e);
  return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, small, _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e)));
}
inline Lanes load_powers(const uint8_t* p) { return {powers_half(p), powers_half(p + 8)}; }
inline void store_half(uint16_t* p, Lanes a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(a.lo, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(a.hi, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
inline Lanes operator+(Lanes a, Lanes b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
inline Lanes operator-(Lanes a, Lanes b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
inline Lanes operator*(Lanes a, Lanes b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
inline Lanes operator/(Lanes a, Lanes b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
inline Lanes fma(Lanes a, Lanes b, Lanes c) { return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)}; }
inline Lanes larger(Lanes a, Lanes b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
inline Lanes smaller(Lanes a, Lanes b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
inline Lanes magnitude(Lanes a) {
  const __m256 mask = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
  return {_mm256_and_ps(a.lo, mask), _mm256_and_ps(a.hi, mask)};
}
inline IntLanes nearest(Lanes a) { return {_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)}; }
inline IntLanes widen(__m128i a) { return {_mm256_cvtepu8_epi32(a), _mm256_cvtepu8_epi32(_mm_srli_si128(a, 8))}; }
inline IntLanes load_signed(const uint8_t* p) {
  const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepi8_epi32(a), _mm256_cvtepi8_epi32(_mm_srli_si128(a, 8))};
}
inline Lanes from_halves(__m256i a) { return {_mm256_cvtph_ps(_mm256_castsi256_si128(a)), _mm256_cvtph_ps(_mm256_extracti128_si256(a, 1))}; }
inline Lanes to_float(IntLanes a) { return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)}; }
inline Lanes power_of_two(IntLanes n) {
  const __m256i bias = _mm256_set1_epi32(127);
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n.lo, bias), 23)),
          _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n.hi, bias), 23))};
}
inline Bytes to_bytes(IntLanes a) {
  const __m256i low = _mm256_set1_epi32(255);
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packus_epi32(_mm256_and_si256(a.lo, low), _mm256_and_si256(a.hi, low)), 0xd8);  // a pack goes by halves
  return {_mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1))};
}
inline Lanes keep(Lanes a, int count, Lanes other) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256 lo = _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(count), lane));
  const __m256 hi = _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(count - 8), lane));
  return {_mm256_blendv_ps(other.lo, a.lo, lo), _mm256_blendv_ps(other.hi, a.hi, hi)};
}
inline float first(Lanes a) { return _mm256_cvtss_f32(a.lo); }
template <int width>
inline Lanes lowered(Lanes a) {
  if constexpr (width == 8) return {a.hi, a.hi};
  if constexpr (width == 4) return {_mm256_permute2f128_ps(a.lo, a.lo, 1), a.hi};
  if constexpr (width == 2) return {_mm256_permute_ps(a.lo, 0x4e), a.hi};
  return {_mm256_permute_ps(a.lo, 0xb1), a.hi};
}
inline __m256 codes_half(const int8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
inline Lanes load_codes(const int8_t* p) { return {codes_half(p), codes_half(p + 8)}; }
inline __m256 nibbles_half(const uint8_t* p, int shift) {
  const __m256i bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  const __m256i codes = _mm256_and_si256(_mm256_srl_epi32(bytes, _mm_cvtsi32_si128(shift)), _mm256_set1_epi32(15));
  return _mm256_cvtepi32_ps(_mm256_sub_epi32(codes, _mm256_set1_epi32(8)));
}
inline Lanes load_nibbles(const uint8_t* p, int shift) { return {nibbles_half(p, shift), nibbles_half(p + 8, shift)}; }
inline Lanes broadcast_half(const uint16_t* p) {
  const __m256 value = _mm256_cvtph_ps(_mm_set1_epi16(static_cast<int16_t>(*p)));
  return {value, value};
}

}  // namespace paceline::PACELINE_ISA
