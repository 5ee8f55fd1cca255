// Grids in plain C++ (grid.h).
#pragma once

namespace paceline::PACELINE_ISA {

template <Format f>
PACELINE_INLINE void read_numbers(const uint8_t* tile, uint16_t* numbers) {
  for (int row = 0; row < kTileRows; ++row)
    for (int p = 0; p < kBlock / patterns_of(f).inputs; ++p) numbers[number_place(row, p)] = static_cast<uint16_t>(read_pattern(f, tile, row, p) % patterns_of(f).count);
}
template <Format f, class Number>
PACELINE_INLINE void find_codes(Codes& c, const Number* numbers) {
  constexpr int inputs = patterns_of(f).inputs;
  for (int i = 0; i < 512; ++i) {
    const int row = i % 64 / 4, input = 4 * (i / 64) + i % 4;
    c.v[i] = static_cast<uint8_t>(codes_of_patterns<f>()[numbers[place_of<Number>(row, input / inputs)]] >> 8 * (input % inputs));
  }
}
PACELINE_INLINE void negate(Codes& c, int bias, const uint8_t* bits) {
  for (int i = 0; i < 512; ++i)
    if (bits[i / 8] >> i % 8 & 1) c.v[i] = static_cast<uint8_t>(2 * bias - c.v[i]);
}
PACELINE_INLINE void lower(Codes& c, const uint8_t* bits) {
  for (int i = 0; i < 512; ++i) {
    const int at = kTileRows * (i / 128) + i % 64 / 4;
    c.v[i] -= (bits[at / 8] >> at % 8 & 1) * 2;
  }
}

}  // namespace paceline::PACELINE_ISA
