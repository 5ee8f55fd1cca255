// Sixteen lanes in one register of AVX-512 (simd.h).
#pragma once

namespace paceline::PACELINE_ISA {

struct Lanes { __m512 v; };
struct IntLanes { __m512i v; };

inline Lanes zero() { return {_mm512_setzero_ps()}; }
inline Lanes broadcast(float x) { return {_mm512_set1_ps(x)}; }
inline Lanes load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline void store(float* p, Lanes a) { _mm512_storeu_ps(p, a.v); }
inline void stream(float* p, Lanes a) { _mm512_stream_ps(p, a.v); }
inline Lanes load_half(const uint16_t* p) { return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))}; }
inline Lanes load_brain(const uint16_t* p) {  // bfloat16: the upper half of a float
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}
inline Lanes load_powers(const uint8_t* p) {  // 2^(e - 128), subnormal for e below 2
  const __m512i e = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
  const __m512i small = _mm512_sllv_epi32(_mm512_set1_epi32(0x200000), e);
  return {_mm512_castsi512_ps(_mm512_mask_blend_epi32(_mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2)), normal, small))};
}
inline void store_half(uint16_t* p, Lanes a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
inline Lanes operator+(Lanes a, Lanes b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Lanes operator-(Lanes a, Lanes b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Lanes operator*(Lanes a, Lanes b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Lanes operator/(Lanes a, Lanes b) { return {_mm512_div_ps(a.v, b.v)}; }
inline Lanes fma(Lanes a, Lanes b, Lanes c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Lanes larger(Lanes a, Lanes b) { return {_mm512_max_ps(a.v, b.v)}; }
inline Lanes smaller(Lanes a, Lanes b) { return {_mm512_min_ps(a.v, b.v)}; }
inline Lanes magnitude(Lanes a) { return {_mm512_abs_ps(a.v)}; }
inline IntLanes nearest(Lanes a) { return {_mm512_cvtps_epi32(a.v)}; }
inline IntLanes widen(__m128i a) { return {_mm512_cvtepu8_epi32(a)}; }
inline IntLanes load_signed(const uint8_t* p) { return {_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))}; }
inline Lanes from_halves(__m256i a) { return {_mm512_cvtph_ps(a)}; }
inline Lanes to_float(IntLanes a) { return {_mm512_cvtepi32_ps(a.v)}; }
inline Lanes power_of_two(IntLanes n) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(n.v, _mm512_set1_epi32(127)), 23))};
}
inline Bytes to_bytes(IntLanes a) { return {_mm512_cvtepi32_epi8(a.v)}; }
// Lanes [0, count) of a, the others replaced by `other`.
inline Lanes keep(Lanes a, int count, Lanes other) {
  const __mmask16 mask = count >= kLanes ? 0xffff : static_cast<__mmask16>((1u << (count < 0 ? 0 : count)) - 1);
  return {_mm512_mask_blend_ps(mask, other.v, a.v)};
}
inline float first(Lanes a) { return _mm512_cvtss_f32(a.v); }
// Lane i + width in lane i, for the lanes below width.
template <int width>
inline Lanes lowered(Lanes a) {
  if constexpr (width == 8) return {_mm512_shuffle_f32x4(a.v, a.v, 0x4e)};
  if constexpr (width == 4) return {_mm512_shuffle_f32x4(a.v, a.v, 0xb1)};
  if constexpr (width == 2) return {_mm512_permute_ps(a.v, 0x4e)};
  return {_mm512_permute_ps(a.v, 0xb1)};
}
inline Lanes load_codes(const int8_t* p) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
}
// Four bits of each byte from bit `shift` on, less 8.
inline Lanes load_nibbles(const uint8_t* p, int shift) {
  const __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const __m512i codes = _mm512_and_si512(_mm512_srl_epi32(bytes, _mm_cvtsi32_si128(shift)), _mm512_set1_epi32(15));
  return {_mm512_cvtepi32_ps(_mm512_sub_epi32(codes, _mm512_set1_epi32(8)))};
}
inline Lanes broadcast_half(const uint16_t* p) { return {_mm512_cvtph_ps(_mm256_set1_epi16(static_cast<int16_t>(*p)))}; }

}  // namespace paceline::PACELINE_ISA
