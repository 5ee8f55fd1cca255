// Grids on AVX2 (grid.h): the codes of a pattern are loaded from a table.
#pragma once

namespace paceline::PACELINE_ISA {

PACELINE_INLINE __m256i set_words(const uint8_t* bits) {  // all ones in the words whose bit is set
  const __m256i places = _mm256_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, static_cast<int16_t>(0x8000));
  int16_t set;
  std::memcpy(&set, bits, 2);
  return _mm256_cmpeq_epi16(_mm256_and_si256(_mm256_set1_epi16(set), places), places);
}
template <Format f>
PACELINE_INLINE void read_numbers(const uint8_t* tile, uint16_t* numbers) {
  for (int i = 0; i < 4 * layout(f).low_bits; ++i) {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(tile + 64 * (i / 4) + 32 * (i % 2)));
    __m256i words = i % 4 < 2 ? _mm256_and_si256(bytes, _mm256_set1_epi16(255)) : _mm256_srli_epi16(bytes, 8);
    for (int bit = 0; bit < number_bits(f); ++bit)
      words = _mm256_or_si256(words, _mm256_and_si256(set_words(tile + upper_offset(f, bit) + 2 * i), _mm256_set1_epi16(static_cast<int16_t>(256 << bit))));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(numbers + 16 * i), words);
  }
}
// Codes of rows `row` and `row` + 1, or of `row` .. `row` + 3.
template <Format f, class Number>
PACELINE_INLINE __m128 find_two(const Number* numbers, int row, int pattern) {
  const auto* codes = codes_of_patterns<f>();
  const auto* first = codes + numbers[place_of<Number>(row, pattern)];
  const auto* second = codes + numbers[place_of<Number>(row + 1, pattern)];
  return _mm_loadh_pi(_mm_castsi128_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(first))), reinterpret_cast<const __m64*>(second));
}
template <Format f, class Number>
PACELINE_INLINE __m128i find_four(const Number* numbers, int row, int pattern) {
  int code[4];
  for (int i = 0; i < 4; ++i) code[i] = static_cast<int>(codes_of_patterns<f>()[numbers[place_of<Number>(row + i, pattern)]]);
  return _mm_insert_epi32(_mm_insert_epi32(_mm_insert_epi32(_mm_cvtsi32_si128(code[0]), code[1], 1), code[2], 2), code[3], 3);
}
template <Format f, class Number>
PACELINE_INLINE void find_codes(Codes& c, const Number* numbers) {
  constexpr int count = 2 * kBlock / patterns_of(f).inputs;
  PACELINE_UNROLL
  for (int i = 0; i < count; ++i) {
    const int p = i / 2, half = i % 2, row = 8 * half;
    if constexpr (patterns_of(f).inputs == 8) {
      const __m256 even = _mm256_set_m128(find_two<f>(numbers, row + 4, p), find_two<f>(numbers, row, p));
      const __m256 odd = _mm256_set_m128(find_two<f>(numbers, row + 6, p), find_two<f>(numbers, row + 2, p));
      c.v[4 * p + half] = _mm256_castps_si256(_mm256_shuffle_ps(even, odd, 0x88));
      c.v[4 * p + 2 + half] = _mm256_castps_si256(_mm256_shuffle_ps(even, odd, 0xdd));
    } else {
      c.v[i] = _mm256_set_m128i(find_four<f>(numbers, row + 4, p), find_four<f>(numbers, row, p));
    }
  }
}
PACELINE_INLINE void negate(Codes& c, int bias, const uint8_t* bits) {
  const __m256i twice = _mm256_set1_epi8(static_cast<char>(2 * bias));
  for (int j = 0; j < 16; ++j) c.v[j] = _mm256_blendv_epi8(c.v[j], _mm256_sub_epi8(twice, c.v[j]), set_bytes(bits + 4 * j));
}
PACELINE_INLINE void lower(Codes& c, const uint8_t* bits) {
  for (int group = 0; group < 4; ++group) {
    const __m256i words = set_words(bits + 2 * group), two = _mm256_set1_epi8(2);
    for (int half = 0; half < 2; ++half) {
      const __m256i rows = _mm256_cvtepi16_epi32(half ? _mm256_extracti128_si256(words, 1) : _mm256_castsi256_si128(words));
      for (int j = 4 * group + half; j < 4 * group + 4; j += 2) c.v[j] = _mm256_sub_epi8(c.v[j], _mm256_and_si256(rows, two));
    }
  }
}

}  // namespace paceline::PACELINE_ISA
