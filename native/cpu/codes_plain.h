// Codes in an array (codes.h).
#pragma once

namespace paceline::PACELINE_ISA {

struct Codes { uint8_t v[512]; };

PACELINE_INLINE Codes load_codes(const uint8_t* p) {
  Codes c;
  std::memcpy(c.v, p, 512);
  return c;
}
PACELINE_INLINE Codes load_nibbles(const uint8_t* p) {
  Codes c;
  for (int i = 0; i < 256; ++i) {
    c.v[i] = p[i] & 15;
    c.v[256 + i] = p[i] >> 4;
  }
  return c;
}
PACELINE_INLINE Codes load_pairs(const uint8_t* p) {
  Codes c;
  for (int i = 0; i < 512; ++i) c.v[i] = p[64 * (i / 256) + i % 64] >> 2 * (i / 64 % 4) & 3;
  return c;
}
template <int value>
[[nodiscard]] PACELINE_INLINE Codes add_bits(Codes c, const uint8_t* p) {
  for (int i = 0; i < 512; ++i) c.v[i] |= (p[i / 8] >> (i % 8) & 1) * value;
  return c;
}
[[nodiscard]] PACELINE_INLINE Codes add_pairs(Codes c, const uint8_t* p) {  // as bits 4 and 5
  const Codes pairs = load_pairs(p);
  for (int i = 0; i < 512; ++i) c.v[i] |= pairs.v[i] << 4;
  return c;
}
PACELINE_INLINE void raise(Codes& c, int by) {
  for (int i = 0; i < 512; ++i) c.v[i] += by;
}
[[nodiscard]] PACELINE_INLINE Codes look_up(Codes c, const uint8_t* table) {
  for (int i = 0; i < 512; ++i) c.v[i] = table[c.v[i]];
  return c;
}
PACELINE_INLINE void store_codes(uint8_t* p, const Codes& c) { std::memcpy(p, c.v, 512); }
template <CodeRange range, int halves, int half>
PACELINE_INLINE IntLanes dot(const Codes& c, const QuantizedBlock& x) {
  IntLanes sum;
  for (int r = 0; r < kTileRows; ++r) {
    int32_t s = 0;
    for (int j = half * 8 / halves; j < (half + 1) * 8 / halves; ++j)
      for (int i = 0; i < 4; ++i) s += (c.v[64 * j + 4 * r + i] - range.bias) * x.codes[4 * j + i];
    sum.v[r] = s;
  }
  return sum;
}

}  // namespace paceline::PACELINE_ISA
