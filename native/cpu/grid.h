// Codes of IQ2_XXS: 64 + or - a magnitude of the grid's pattern.
#pragma once

#include "codes.h"
#include "grid_table.h"

namespace paceline::PACELINE_ISA {

#if defined(__AVX2__) && !defined(__AVX512F__) || PACELINE_NEON

// The codes of a pattern, all positive.
struct WideGrid {
  uint64_t codes[256];
};
constexpr WideGrid kWideGrid = [] {
  WideGrid grid{};
  for (int p = 0; p < 256; ++p)
    for (int i = 0; i < 8; ++i) grid.codes[p] |= static_cast<uint64_t>(64 + kMagnitudes[kGrid[p] >> 2 * i & 3]) << 8 * i;
  return grid;
}();

#endif

// patterns [16 rows][4 groups of 8 inputs], signs one bit to a code in the order of the unpacked vectors
#if defined(__AVX512F__)

// What a nibble with places 0 and 1 of a pattern stands for once all but one of them are masked out: 0, 1, 2 or 0, 4, 8.
constexpr uint8_t kRaised[16] = {64 + kMagnitudes[0], 64 + kMagnitudes[1], 64 + kMagnitudes[2], 0, 64 + kMagnitudes[1], 0, 0, 0, 64 + kMagnitudes[2]};

// The patterns of 32 words. The permutation reads six bits of a word; `shift` says where the other two are in `index`.
template <int shift>
PACELINE_INLINE __m512i find_patterns(__m512i words, __m512i index) {
  __m512i found[4];
  for (int i = 0; i < 4; ++i) found[i] = _mm512_permutex2var_epi16(_mm512_load_si512(kGrid + 64 * i), words, _mm512_load_si512(kGrid + 64 * i + 32));
  const __mmask32 second = _mm512_test_epi16_mask(index, _mm512_set1_epi16(64 << shift));
  const __mmask32 upper = _mm512_test_epi16_mask(index, _mm512_set1_epi16(static_cast<int16_t>(128 << shift)));
  return _mm512_mask_blend_epi16(upper, _mm512_mask_blend_epi16(second, found[0], found[1]), _mm512_mask_blend_epi16(second, found[2], found[3]));
}
// A row's four indices are a word of 32 bits: groups 0 and 2 are the low bytes of its halves, 1 and 3 the high ones, and the
// patterns that are found stand where the vectors have the row.
PACELINE_INLINE Codes load_grid(const uint8_t* patterns, const uint8_t* signs) {
  const __m512i raised = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(kRaised)));
  const __m512i places = _mm512_set1_epi32(0x0c030c03), double_bias = _mm512_set1_epi8(static_cast<char>(128));
  // Which byte of a row has inputs 0, 1, 2, 3 of a group in its low nibble, then which inputs 4, 5, 6, 7.
  const __m512i order[2][2] = {{_mm512_broadcast_i32x4(_mm_setr_epi8(0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10, 12, 12, 14, 14)),
                                _mm512_broadcast_i32x4(_mm_setr_epi8(1, 1, 3, 3, 5, 5, 7, 7, 9, 9, 11, 11, 13, 13, 15, 15))},
                               {_mm512_broadcast_i32x4(_mm_setr_epi8(2, 2, 0, 0, 6, 6, 4, 4, 10, 10, 8, 8, 14, 14, 12, 12)),
                                _mm512_broadcast_i32x4(_mm_setr_epi8(3, 3, 1, 1, 7, 7, 5, 5, 11, 11, 9, 9, 15, 15, 13, 13))}};
  const __m512i index = _mm512_loadu_si512(patterns);
  const __m512i found[2] = {find_patterns<0>(index, index), find_patterns<8>(_mm512_srli_epi16(index, 8), index)};
  Codes c;
  for (int group = 0; group < 4; ++group) {
    const __m512i both = found[group % 2];
    const bool upper = group >= 2;
    const __m512i moved = upper ? _mm512_srli_epi32(both, 20) : _mm512_slli_epi32(both, 12);  // the other nibbles, over the other group
    const __m512i spread = _mm512_mask_blend_epi16(upper ? 0x55555555 : 0xaaaaaaaa, both, moved);
    for (int half = 0; half < 2; ++half) {
      const int j = 2 * group + half;
      uint64_t minus;
      std::memcpy(&minus, signs + 8 * j, 8);
      const __m512i code = _mm512_shuffle_epi8(raised, _mm512_and_si512(_mm512_shuffle_epi8(spread, order[upper][half]), places));
      c.v[j] = _mm512_mask_sub_epi8(code, minus, double_bias, code);
    }
  }
  return c;
}

#elif defined(__AVX2__)

PACELINE_INLINE __m128 find_pair(const uint8_t* first) {  // of this row and the next
  const __m128 one = _mm_castsi128_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(kWideGrid.codes + first[0])));
  return _mm_loadh_pi(one, reinterpret_cast<const __m64*>(kWideGrid.codes + first[4]));
}
PACELINE_INLINE Codes load_grid(const uint8_t* patterns, const uint8_t* signs) {
  const __m256i double_bias = _mm256_set1_epi8(static_cast<char>(128));
  const Codes minus = [&] {
    Codes bits{};
    add_bits<255>(bits, signs);
    return bits;
  }();
  Codes c;
  for (int group = 0; group < 4; ++group) {
    for (int half = 0; half < 2; ++half) {
      const uint8_t* rows = patterns + 32 * half + group;
      const __m256 even = _mm256_set_m128(find_pair(rows + 16), find_pair(rows)), odd = _mm256_set_m128(find_pair(rows + 24), find_pair(rows + 8));
      c.v[4 * group + half] = _mm256_castps_si256(_mm256_shuffle_ps(even, odd, 0x88));
      c.v[4 * group + 2 + half] = _mm256_castps_si256(_mm256_shuffle_ps(even, odd, 0xdd));
    }
  }
  for (int j = 0; j < 16; ++j) c.v[j] = _mm256_blendv_epi8(c.v[j], _mm256_sub_epi8(double_bias, c.v[j]), minus.v[j]);
  return c;
}

#elif PACELINE_NEON

PACELINE_INLINE uint32x4_t find_pair(const uint8_t* first) {  // of this row and the next
  return vreinterpretq_u32_u64(vcombine_u64(vld1_u64(kWideGrid.codes + first[0]), vld1_u64(kWideGrid.codes + first[4])));
}
PACELINE_INLINE Codes load_grid(const uint8_t* patterns, const uint8_t* signs) {
  Codes minus{};
  add_bits<255>(minus, signs);
  Codes c;
  PACELINE_UNROLL
  for (int group = 0; group < 4; ++group) {
    PACELINE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const uint8_t* rows = patterns + 16 * i + group;
      const uint32x4_t one = find_pair(rows), two = find_pair(rows + 8);
      c.v[8 * group + i] = vreinterpretq_u8_u32(vuzp1q_u32(one, two));
      c.v[8 * group + 4 + i] = vreinterpretq_u8_u32(vuzp2q_u32(one, two));
    }
  }
  PACELINE_UNROLL
  for (int i = 0; i < 32; ++i) c.v[i] = vbslq_u8(minus.v[i], vsubq_u8(vdupq_n_u8(128), c.v[i]), c.v[i]);
  return c;
}

#else

PACELINE_INLINE Codes load_grid(const uint8_t* patterns, const uint8_t* signs) {
  Codes c;
  for (int i = 0; i < 512; ++i) {
    const int vector = i / 64, row = i % 64 / 4, place = 4 * (vector % 2) + i % 4;
    const int magnitude = kMagnitudes[kGrid[patterns[4 * row + vector / 2]] >> 2 * place & 3];
    c.v[i] = static_cast<uint8_t>(signs[i / 8] >> i % 8 & 1 ? 64 - magnitude : 64 + magnitude);
  }
  return c;
}

#endif

}  // namespace paceline::PACELINE_ISA
