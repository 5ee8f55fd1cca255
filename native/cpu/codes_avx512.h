// Codes in eight registers of AVX-512, with VNNI (codes.h).
#pragma once

namespace paceline::PACELINE_ISA {

struct Codes { __m512i v[8]; };
struct DotLanes { __m512i v; };

PACELINE_INLINE Codes load_codes(const uint8_t* p) {
  Codes c;
  for (int j = 0; j < 8; ++j) c.v[j] = _mm512_loadu_si512(p + 64 * j);
  return c;
}
PACELINE_INLINE Codes load_nibbles(const uint8_t* p) {
  const __m512i low = _mm512_set1_epi8(15);
  Codes c;
  for (int j = 0; j < 4; ++j) {
    const __m512i both = _mm512_loadu_si512(p + 64 * j);
    c.v[j] = _mm512_and_si512(both, low);
    c.v[4 + j] = _mm512_and_si512(_mm512_srli_epi16(both, 4), low);
  }
  return c;
}
PACELINE_INLINE Codes load_pairs(const uint8_t* p) {
  const __m512i low = _mm512_set1_epi8(3);
  Codes c;
  for (int j = 0; j < 8; ++j) c.v[j] = _mm512_and_si512(_mm512_srli_epi16(_mm512_loadu_si512(p + 64 * (j / 4)), 2 * (j % 4)), low);
  return c;
}
template <int value>
[[nodiscard]] PACELINE_INLINE Codes add_bits(Codes c, const uint8_t* p) {
  for (int j = 0; j < 8; ++j) {
    uint64_t bits;
    std::memcpy(&bits, p + 8 * j, 8);
    c.v[j] = _mm512_or_si512(c.v[j], _mm512_maskz_set1_epi8(bits, value));
  }
  return c;
}
[[nodiscard]] PACELINE_INLINE Codes add_pairs(Codes c, const uint8_t* p) {  // as bits 4 and 5
  const __m512i place = _mm512_set1_epi8(0x30);
  for (int j = 0; j < 8; j += 4) {
    const __m512i four = _mm512_loadu_si512(p + 16 * j);
    c.v[j] = _mm512_or_si512(c.v[j], _mm512_and_si512(_mm512_slli_epi16(four, 4), place));
    c.v[j + 1] = _mm512_or_si512(c.v[j + 1], _mm512_and_si512(_mm512_slli_epi16(four, 2), place));
    c.v[j + 2] = _mm512_or_si512(c.v[j + 2], _mm512_and_si512(four, place));
    c.v[j + 3] = _mm512_or_si512(c.v[j + 3], _mm512_and_si512(_mm512_srli_epi16(four, 2), place));
  }
  return c;
}
PACELINE_INLINE void raise(Codes& c, int by) {
  for (int j = 0; j < 8; ++j) c.v[j] = _mm512_add_epi8(c.v[j], _mm512_set1_epi8(static_cast<char>(by)));
}
[[nodiscard]] PACELINE_INLINE Codes look_up(Codes c, const uint8_t* table) {
  const __m512i values = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
  for (int j = 0; j < 8; ++j) c.v[j] = _mm512_shuffle_epi8(values, c.v[j]);
  return c;
}
PACELINE_INLINE void store_codes(uint8_t* p, const Codes& c) {
  for (int j = 0; j < 8; ++j) _mm512_storeu_si512(p + 64 * j, c.v[j]);
}
// Sum of (code - bias) * x for each row, over all inputs or over one of two halves. vpdpbusd does not saturate; codes are
// unsigned, the bias is taken off through sum(x). It begins at the bits of the float kRaised, and stays below 2^22: so its bits are those of kRaised + the sum.
constexpr float kRaised = 12582912.0f;  // 1.5 * 2^23
PACELINE_INLINE Lanes raised(DotLanes a) { return {_mm512_castsi512_ps(a.v)}; }
template <CodeRange range, int halves, int half>
PACELINE_INLINE DotLanes dot(const Codes& c, const QuantizedBlock& x) {
  constexpr int bias = range.bias;
  static_assert((bias & (bias - 1)) == 0);
  constexpr int first = half * 8 / halves, end = first + 8 / halves;
  __m512i even = bias == 0 ? _mm512_setzero_si512() : _mm512_slli_epi32(_mm512_set1_epi32(static_cast<int32_t>(0u - static_cast<uint32_t>(input_sum<halves, half>(x)))), __builtin_ctz(bias | 256));
  __m512i odd = _mm512_castps_si512(_mm512_set1_ps(kRaised));
  const FourCodes* four = reinterpret_cast<const FourCodes*>(x.codes);
  for (int j = first; j < end; j += 2) {
    even = _mm512_dpbusd_epi32(even, c.v[j], _mm512_set1_epi32(four[j]));
    odd = _mm512_dpbusd_epi32(odd, c.v[j + 1], _mm512_set1_epi32(four[j + 1]));
  }
  return {_mm512_add_epi32(even, odd)};
}

}  // namespace paceline::PACELINE_ISA
