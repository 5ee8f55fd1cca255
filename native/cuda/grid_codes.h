// Codes of the formats with a grid: a pattern's, negated where a sign is minus, or 2 less throughout (grid_patterns.h).
#pragma once

#include "compat.h"
#include "layout.h"

namespace paceline::cuda {

// The codes of four inputs of a pattern to a word, none minus: magnitudes, or biased where values are shifted. Products keep them in shared memory, since lanes
// read scattered entries.
template <Format f>
constexpr int kGridWords = patterns_of(f).count * patterns_of(f).inputs / 4;
template <Format f>
struct GridTable {
  alignas(16) uint32_t words[kGridWords<f>];
};
template <Format f>
constexpr GridTable<f> codes_of_grid() {
  constexpr int fours = patterns_of(f).inputs / 4;
  GridTable<f> table{};
  for (int i = 0; i < kGridWords<f>; ++i)
    for (int j = 0; j < 4; ++j) table.words[i] |= static_cast<uint32_t>(device_bias(f) + grid_value(f, i / fours, i % fours * 4 + j)) << 8 * j;
  return table;
}
PACELINE_TABLE GridTable<Format::IQ3_S> kDeviceIQ3_S = codes_of_grid<Format::IQ3_S>();
PACELINE_TABLE GridTable<Format::IQ3_XXS> kDeviceIQ3_XXS = codes_of_grid<Format::IQ3_XXS>();
PACELINE_TABLE GridTable<Format::IQ2_S> kDeviceIQ2_S = codes_of_grid<Format::IQ2_S>();
PACELINE_TABLE GridTable<Format::IQ2_XS> kDeviceIQ2_XS = codes_of_grid<Format::IQ2_XS>();
PACELINE_TABLE GridTable<Format::IQ2_XXS> kDeviceIQ2_XXS = codes_of_grid<Format::IQ2_XXS>();
PACELINE_TABLE GridTable<Format::IQ1_S> kDeviceIQ1 = codes_of_grid<Format::IQ1_S>();

template <Format f>
PACELINE_DEVICE const uint32_t* device_grid() {
  if constexpr (f == Format::IQ3_S) return kDeviceIQ3_S.words;
  else if constexpr (f == Format::IQ3_XXS) return kDeviceIQ3_XXS.words;
  else if constexpr (f == Format::IQ2_S) return kDeviceIQ2_S.words;
  else if constexpr (f == Format::IQ2_XS) return kDeviceIQ2_XS.words;
  else if constexpr (f == Format::IQ2_XXS) return kDeviceIQ2_XXS.words;
  else if constexpr (has_shifted_grid(f)) return kDeviceIQ1.words;
  else return nullptr;
}

// Negates the bytes whose top bit is set in `minus`. No magnitude is zero, so no byte carries into the next.
PACELINE_DEVICE uint32_t grid_signed(uint32_t magnitudes, uint32_t minus) {
  const uint32_t mask = spread_top_bits(minus);
  return (magnitudes ^ mask) + (mask & 0x01010101u);
}

}  // namespace paceline::cuda
