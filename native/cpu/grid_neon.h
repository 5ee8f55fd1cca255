// Grids on NEON (grid.h): the codes of a pattern are loaded from a table.
#pragma once

namespace paceline::PACELINE_ISA {

PACELINE_INLINE uint16x8_t set_words(const uint8_t* bits) {  // all ones in the words whose bit is set
  const uint16_t places[8] = {1, 2, 4, 8, 16, 32, 64, 128};
  return vtstq_u16(vdupq_n_u16(*bits), vld1q_u16(places));
}
template <Format f>
PACELINE_INLINE void read_numbers(const uint8_t* tile, uint16_t* numbers) {
  constexpr int count = 8 * layout(f).low_bits;
  PACELINE_UNROLL
  for (int i = 0; i < count; ++i) {
    const uint16x8_t bytes = vreinterpretq_u16_u8(vld1q_u8(tile + 64 * (i / 8) + 16 * (i % 4)));
    uint16x8_t words = i % 8 < 4 ? vandq_u16(bytes, vdupq_n_u16(255)) : vshrq_n_u16(bytes, 8);
    for (int bit = 0; bit < number_bits(f); ++bit) words = vorrq_u16(words, vandq_u16(set_words(tile + upper_offset(f, bit) + i), vdupq_n_u16(static_cast<uint16_t>(256 << bit))));
    vst1q_u16(numbers + 8 * i, words);
  }
}
template <Format f, class Number>
PACELINE_INLINE void find_codes(Codes& c, const Number* numbers) {
  const auto* codes = codes_of_patterns<f>();
  PACELINE_UNROLL
  for (int i = 0; i < 4; ++i) {  // rows 4i .. 4i + 3
    if constexpr (patterns_of(f).inputs == 8) {
      PACELINE_UNROLL
      for (int group = 0; group < 4; ++group) {
        const auto pair = [&](int row) {
          const auto word = [&](int r) { return vld1_u64(codes + numbers[place_of<Number>(4 * i + r, group)]); };
          return vreinterpretq_u32_u64(vcombine_u64(word(row), word(row + 1)));
        };
        const uint32x4_t even = pair(0), odd = pair(2);
        c.v[8 * group + i] = vreinterpretq_u8_u32(vuzp1q_u32(even, odd));
        c.v[8 * group + 4 + i] = vreinterpretq_u8_u32(vuzp2q_u32(even, odd));
      }
    } else {
      PACELINE_UNROLL
      for (int j = 0; j < 8; ++j) {
        const auto word = [&](int r) { return codes + numbers[place_of<Number>(4 * i + r, j)]; };
        uint32x4_t four = vld1q_dup_u32(word(0));
        four = vld1q_lane_u32(word(1), four, 1);
        four = vld1q_lane_u32(word(2), four, 2);
        four = vld1q_lane_u32(word(3), four, 3);
        c.v[4 * j + i] = vreinterpretq_u8_u32(four);
      }
    }
  }
}
PACELINE_INLINE void negate(Codes& c, int bias, const uint8_t* bits) {
  const Codes minus = add_bits<255>(Codes{}, bits);
  PACELINE_UNROLL
  for (int i = 0; i < 32; ++i) c.v[i] = vbslq_u8(minus.v[i], vsubq_u8(vdupq_n_u8(static_cast<uint8_t>(2 * bias)), c.v[i]), c.v[i]);
}
PACELINE_INLINE void lower(Codes& c, const uint8_t* bits) {
  PACELINE_UNROLL
  for (int group = 0; group < 4; ++group) {
    PACELINE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int16x8_t words = vreinterpretq_s16_u16(set_words(bits + 2 * group + i / 2));
      const uint8x16_t rows = vreinterpretq_u8_s32(vmovl_s16(i % 2 ? vget_high_s16(words) : vget_low_s16(words)));
      PACELINE_UNROLL
      for (int j = 2 * group; j < 2 * group + 2; ++j) c.v[4 * j + i] = vsubq_u8(c.v[4 * j + i], vandq_u8(rows, vdupq_n_u8(2)));
    }
  }
}

}  // namespace paceline::PACELINE_ISA
