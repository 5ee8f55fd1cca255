// Codes in 32 vectors of NEON, with dot products or without (codes.h).
#pragma once

namespace paceline::PACELINE_ISA {

struct Codes { uint8x16_t v[32]; };  // 4j + i: rows 4i .. 4i+3 of vector j

PACELINE_INLINE Codes load_codes(const uint8_t* p) {
  Codes c;
  PACELINE_UNROLL
  for (int i = 0; i < 32; ++i) c.v[i] = vld1q_u8(p + 16 * i);
  return c;
}
PACELINE_INLINE Codes load_nibbles(const uint8_t* p) {
  Codes c;
  PACELINE_UNROLL
  for (int i = 0; i < 16; ++i) {
    const uint8x16_t both = vld1q_u8(p + 16 * i);
    c.v[i] = vandq_u8(both, vdupq_n_u8(15));
    c.v[16 + i] = vshrq_n_u8(both, 4);
  }
  return c;
}
PACELINE_INLINE Codes load_pairs(const uint8_t* p) {
  Codes c;
  PACELINE_UNROLL
  for (int i = 0; i < 32; ++i) {
    const uint8x16_t four = vld1q_u8(p + 64 * (i / 16) + 16 * (i % 4));
    c.v[i] = vandq_u8(vshlq_u8(four, vdupq_n_s8(static_cast<int8_t>(-2 * (i / 4 % 4)))), vdupq_n_u8(3));
  }
  return c;
}
template <int value>
[[nodiscard]] PACELINE_INLINE Codes add_bits(Codes c, const uint8_t* p) {
  const uint8x16_t spread = vcombine_u8(vdup_n_u8(0), vdup_n_u8(1));
  const uint8x16_t place = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201ull));
  PACELINE_UNROLL
  for (int i = 0; i < 32; ++i) {
    uint16_t bits;
    std::memcpy(&bits, p + 2 * i, 2);
    const uint8x16_t set = vtstq_u8(vqtbl1q_u8(vreinterpretq_u8_u16(vdupq_n_u16(bits)), spread), place);
    c.v[i] = vorrq_u8(c.v[i], vandq_u8(set, vdupq_n_u8(value)));
  }
  return c;
}
[[nodiscard]] PACELINE_INLINE Codes add_pairs(Codes c, const uint8_t* p) {  // as bits 4 and 5
  const Codes pairs = load_pairs(p);
  PACELINE_UNROLL
  for (int i = 0; i < 32; ++i) c.v[i] = vorrq_u8(c.v[i], vshlq_n_u8(pairs.v[i], 4));
  return c;
}
PACELINE_INLINE void raise(Codes& c, int by) {
  PACELINE_UNROLL
  for (uint8x16_t& v : c.v) v = vaddq_u8(v, vdupq_n_u8(static_cast<uint8_t>(by)));
}
[[nodiscard]] PACELINE_INLINE Codes look_up(Codes c, const uint8_t* table) {
  const uint8x16_t values = vld1q_u8(table);
  PACELINE_UNROLL
  for (uint8x16_t& v : c.v) v = vqtbl1q_u8(values, v);
  return c;
}
PACELINE_INLINE void store_codes(uint8_t* p, const Codes& c) {
  PACELINE_UNROLL
  for (int i = 0; i < 32; ++i) vst1q_u8(p + 16 * i, c.v[i]);
}

// Adds four products to each sum. In 16 bits two of them have room: 2 * 128 * 127 at most.
PACELINE_INLINE int32x4_t add_products(int32x4_t sum, int8x16_t codes, int8x16_t x) {
#if defined(__ARM_FEATURE_DOTPROD)
  return vdotq_s32(sum, codes, x);
#else
  const int16x8_t low = vmull_s8(vget_low_s8(codes), vget_low_s8(x)), high = vmull_high_s8(codes, x);
  return vpadalq_s16(sum, vpaddq_s16(low, high));
#endif
}
// A vector of codes meets all columns before the next is loaded, since all codes are more than the registers hold. 8-bit codes are signed once their bias is
// off; others are below 128, and their bias is taken off through sum(x).
template <CodeRange range, int halves, int half, int n>
struct Dots {
  IntLanes sums[n];

  PACELINE_INLINE Dots(const Codes& c, const QuantizedBlock* x) {
    constexpr int bias = range.bias, first = half * 8 / halves, end = first + 8 / halves;
    const uint8x16_t sign = vdupq_n_u8(bias < 128 ? 0 : 128);
    PACELINE_UNROLL
    for (int k = 0; k < n; ++k) {
      const int32_t begin = bias < 128 ? static_cast<int32_t>(0u - static_cast<uint32_t>(bias) * static_cast<uint32_t>(input_sum<halves, half>(x[k]))) : 0;
      sums[k] = each_int([=](int) { return vdupq_n_s32(begin); });
    }
    PACELINE_UNROLL
    for (int j = first; j < end; ++j)
      PACELINE_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int8x16_t codes = vreinterpretq_s8_u8(veorq_u8(c.v[4 * j + i], sign));
        PACELINE_UNROLL
        for (int k = 0; k < n; ++k) {
          const int32x4_t four = vld1q_dup_s32(reinterpret_cast<const FourCodes*>(x[k].codes) + j);
          sums[k].v[i] = add_products(sums[k].v[i], codes, vreinterpretq_s8_s32(four));
        }
      }
  }
  PACELINE_INLINE IntLanes operator[](int column) const { return sums[column]; }
};

}  // namespace paceline::PACELINE_ISA
