// Grids on AVX-512 (grid.h): patterns are found by permuting registers.
#pragma once

namespace paceline::PACELINE_ISA {

// Patterns from `first` on, of 32 numbers: the permutation reads their lowest six bits, and each further bit chooses between two halves of the table.
template <Format f, int first, int count>
PACELINE_INLINE __m512i find_patterns(__m512i numbers) {
  const uint16_t* table = patterns_of(f).table + first;
  if constexpr (count == 64) {
    return _mm512_permutex2var_epi16(_mm512_load_si512(table), numbers, _mm512_load_si512(table + 32));
  } else {
    const __m512i low = find_patterns<f, first, count / 2>(numbers), high = find_patterns<f, first + count / 2, count / 2>(numbers);
    return _mm512_mask_blend_epi16(_mm512_test_epi16_mask(numbers, _mm512_set1_epi16(count / 2)), low, high);
  }
}
// The codes that a nibble of a pattern stands for: a number of a value; with two bits for each, place 0 or place 1 of them, the other masked out.
template <Format f>
struct NibbleCodes {
  alignas(16) uint8_t codes[16];

  constexpr NibbleCodes() : codes{} {
    constexpr Patterns patterns = patterns_of(f);
    for (int i = 0; i < (patterns.inputs == 8 ? 3 : 8); ++i) {
      codes[i] = static_cast<uint8_t>(layout(f).bias + patterns.value(f, i));
      if (patterns.inputs == 8) codes[4 * i] = codes[i];
    }
  }
};
template <Format f>
constexpr NibbleCodes<f> kNibbleCodes;

// The further bits of 32 numbers. A table of 256 patterns is read by the low byte alone, whatever is above it.
template <Format f>
PACELINE_INLINE __m512i add_number_bits(const uint8_t* tile, int plane_word, __m512i words) {
  if constexpr (number_bits(f) > 0) words = _mm512_and_si512(words, _mm512_set1_epi16(255));
  for (int bit = 0; bit < number_bits(f); ++bit) {
    uint32_t set;
    std::memcpy(&set, tile + upper_offset(f, bit) + 4 * plane_word, 4);
    words = _mm512_or_si512(words, _mm512_maskz_set1_epi16(set, static_cast<int16_t>(256 << bit)));
  }
  return words;
}
// Patterns 0 and 2 of a row are the low bytes of two words, 1 and 3 the high ones, and what is found for them stands where the vectors have the row.
template <Format f>
PACELINE_INLINE void find_codes(Codes& c, const uint8_t* tile) {
  const auto in_each_row = [](int p, int q, int r, int s) {
    return _mm512_broadcast_i32x4(_mm_setr_epi8(p, q, r, s, 4 + p, 4 + q, 4 + r, 4 + s, 8 + p, 8 + q, 8 + r, 8 + s, 12 + p, 12 + q, 12 + r, 12 + s));
  };
  const __m512i table = _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(kNibbleCodes<f>.codes)));
  const __m512i places = _mm512_set1_epi32(0x0c030c03);
  for (int i = 0; i < layout(f).low_bits; ++i) {
    const __m512i bytes = _mm512_loadu_si512(tile + 64 * i);
    const __m512i found[2] = {find_patterns<f, 0, patterns_of(f).count>(add_number_bits<f>(tile, 2 * i, bytes)),
                              find_patterns<f, 0, patterns_of(f).count>(add_number_bits<f>(tile, 2 * i + 1, _mm512_srli_epi16(bytes, 8)))};
    for (int pattern = 0; pattern < 4; ++pattern) {
      const __m512i both = found[pattern % 2];
      const bool upper = pattern >= 2;
      if constexpr (patterns_of(f).inputs == 8) {
        // Inputs 0 .. 3 have the low nibbles of the first and the third byte of a row, or of the other two; inputs 4 .. 7 those beside them.
        const __m512i moved = upper ? _mm512_srli_epi32(both, 20) : _mm512_slli_epi32(both, 12);  // the other nibbles, over the other pattern
        const __m512i spread = _mm512_mask_blend_epi16(upper ? 0x55555555 : 0xaaaaaaaa, both, moved);
        for (int half = 0; half < 2; ++half) {
          const int first = upper ? 2 + half : half, second = upper ? half : 2 + half;
          c.v[2 * pattern + half] = _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_shuffle_epi8(spread, in_each_row(first, first, second, second)), places));
        }
      } else {
        const int first = upper ? 2 : 0;
        const __m512i twice = _mm512_shuffle_epi8(both, in_each_row(first, first, first + 1, first + 1));
        // Numbers of values are below 8, so no byte has its top bit set, which would make a zero of it.
        c.v[4 * i + pattern] = _mm512_shuffle_epi8(table, _mm512_mask_blend_epi8(0xaaaaaaaaaaaaaaaa, twice, _mm512_srli_epi16(twice, 4)));
      }
    }
  }
}
PACELINE_INLINE void negate(Codes& c, int bias, const uint8_t* bits) {
  for (int j = 0; j < 8; ++j) {
    uint64_t minus;
    std::memcpy(&minus, bits + 8 * j, 8);
    c.v[j] = _mm512_mask_sub_epi8(c.v[j], minus, _mm512_set1_epi8(static_cast<char>(2 * bias)), c.v[j]);
  }
}
PACELINE_INLINE void lower(Codes& c, const uint8_t* bits) {
  for (int group = 0; group < 4; ++group) {
    uint16_t rows;
    std::memcpy(&rows, bits + 2 * group, 2);
    for (int j = 2 * group; j < 2 * group + 2; ++j) c.v[j] = _mm512_sub_epi8(c.v[j], _mm512_maskz_set1_epi32(rows, 0x02020202));
  }
}

}  // namespace paceline::PACELINE_ISA
