// Codes of IQ2_XXS: 64 + or - a magnitude of the grid's pattern.
#pragma once

#include "codes.h"
#include "grid_table.h"

namespace paceline::PACELINE_ISA {

// A pattern p spread over four bytes {p, p >> 8, p >> 4, p >> 12}: its places 0, 1 and 2, 3 then stand in the low four bits of
// bytes 0 and 2, places 4, 5 and 6, 7 in those of bytes 1 and 3. Even places read 0, 1, 2 and odd ones 0, 4, 8: one table.
constexpr uint8_t kRaised[16] = {64 + kMagnitudes[0], 64 + kMagnitudes[1], 64 + kMagnitudes[2], 0, 64 + kMagnitudes[1], 0, 0, 0, 64 + kMagnitudes[2]};

// patterns [4 groups of 8 inputs][16 rows], signs one bit to a code in the order of the unpacked vectors
#if defined(__AVX512F__)

PACELINE_INLINE __m512i find_patterns(__m512i index) {  // 32 words, each below 256
  __m512i found[4];
  for (int i = 0; i < 4; ++i) found[i] = _mm512_permutex2var_epi16(_mm512_load_si512(kGrid + 64 * i), index, _mm512_load_si512(kGrid + 64 * i + 32));
  const __mmask32 second = _mm512_test_epi16_mask(index, _mm512_set1_epi16(64)), upper = _mm512_test_epi16_mask(index, _mm512_set1_epi16(128));
  return _mm512_mask_blend_epi16(upper, _mm512_mask_blend_epi16(second, found[0], found[1]), _mm512_mask_blend_epi16(second, found[2], found[3]));
}
PACELINE_INLINE Codes load_grid(const uint8_t* patterns, const uint8_t* signs) {
  const __m512i raised = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(kRaised)));
  const __m512i places = _mm512_set1_epi32(0x0c030c03), double_bias = _mm512_set1_epi8(static_cast<char>(128));
  const __m512i low = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10, 12, 12, 14, 14));
  const __m512i high = _mm512_broadcast_i32x4(_mm_setr_epi8(1, 1, 3, 3, 5, 5, 7, 7, 9, 9, 11, 11, 13, 13, 15, 15));
  Codes c;
  for (int pair = 0; pair < 2; ++pair) {
    const __m512i found = find_patterns(_mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(patterns + 32 * pair))));
    for (int i = 0; i < 2; ++i) {
      const __m512i wide = _mm512_cvtepu16_epi32(i == 0 ? _mm512_castsi512_si256(found) : _mm512_extracti64x4_epi64(found, 1));
      const __m512i spread = _mm512_or_si512(wide, _mm512_slli_epi32(_mm512_srli_epi32(wide, 4), 16));
      c.v[4 * pair + 2 * i] = _mm512_shuffle_epi8(raised, _mm512_and_si512(_mm512_shuffle_epi8(spread, low), places));
      c.v[4 * pair + 2 * i + 1] = _mm512_shuffle_epi8(raised, _mm512_and_si512(_mm512_shuffle_epi8(spread, high), places));
    }
  }
  for (int j = 0; j < 8; ++j) {
    uint64_t minus;
    std::memcpy(&minus, signs + 8 * j, 8);
    c.v[j] = _mm512_mask_sub_epi8(c.v[j], minus, double_bias, c.v[j]);
  }
  return c;
}

#elif defined(__AVX2__)

PACELINE_INLINE Codes load_grid(const uint8_t* patterns, const uint8_t* signs) {
  const __m256i raised = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(kRaised)));
  const __m256i places = _mm256_set1_epi32(0x0c030c03);
  const __m256i low = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10, 12, 12, 14, 14));
  const __m256i high = _mm256_broadcastsi128_si256(_mm_setr_epi8(1, 1, 3, 3, 5, 5, 7, 7, 9, 9, 11, 11, 13, 13, 15, 15));
  const Codes minus = [&] {
    Codes bits{};
    add_bits<255>(bits, signs);
    return bits;
  }();
  Codes c;
  for (int group = 0; group < 4; ++group) {
    for (int half = 0; half < 2; ++half) {
      uint32_t found[8];
      for (int r = 0; r < 8; ++r) found[r] = kGrid[patterns[16 * group + 8 * half + r]];
      const __m256i wide = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(found));
      const __m256i spread = _mm256_or_si256(wide, _mm256_slli_epi32(_mm256_srli_epi32(wide, 4), 16));
      c.v[4 * group + half] = _mm256_shuffle_epi8(raised, _mm256_and_si256(_mm256_shuffle_epi8(spread, low), places));
      c.v[4 * group + 2 + half] = _mm256_shuffle_epi8(raised, _mm256_and_si256(_mm256_shuffle_epi8(spread, high), places));
    }
  }
  for (int j = 0; j < 16; ++j) {
    const __m256i m = minus.v[j], opposite = _mm256_sub_epi8(_mm256_set1_epi8(static_cast<char>(128)), c.v[j]);
    c.v[j] = _mm256_blendv_epi8(c.v[j], opposite, m);
  }
  return c;
}

#else

PACELINE_INLINE Codes load_grid(const uint8_t* patterns, const uint8_t* signs) {
  Codes c;
  for (int i = 0; i < 512; ++i) {
    const int vector = i / 64, row = i % 64 / 4, place = 4 * (vector % 2) + i % 4;
    const int magnitude = kMagnitudes[kGrid[patterns[16 * (vector / 2) + row]] >> 2 * place & 3];
    c.v[i] = static_cast<uint8_t>(signs[i / 8] >> i % 8 & 1 ? 64 - magnitude : 64 + magnitude);
  }
  return c;
}

#endif

}  // namespace paceline::PACELINE_ISA
