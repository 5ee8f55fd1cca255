// Codes of IQ2_XXS: a magnitude of the grid's pattern, or its negative.
#pragma once

#include "../cpu/grid_table.h"
#include "compat.h"

namespace paceline::cuda {

constexpr int kGridWords = 512;

// Magnitudes of inputs 0 .. 3 and 4 .. 7 of each pattern, a byte each. Products keep it in shared memory, since lanes read scattered entries.
struct GridTable {
  uint32_t words[kGridWords];
};
constexpr GridTable magnitudes_of_grid() {
  GridTable table{};
  for (int i = 0; i < kGridWords; ++i)
    for (int j = 0; j < 4; ++j) table.words[i] |= static_cast<uint32_t>(kMagnitudes[kGrid[i / 2] >> (8 * (i % 2) + 2 * j) & 3]) << 8 * j;
  return table;
}
PACELINE_TABLE GridTable kDeviceGrid = magnitudes_of_grid();

// Negates the bytes whose top bit is set in `minus`. No magnitude is zero, so no byte carries into the next.
PACELINE_DEVICE uint32_t grid_signed(uint32_t magnitudes, uint32_t minus) {
  const uint32_t mask = spread_top_bits(minus);
  return (magnitudes ^ mask) + (mask & 0x01010101u);
}

}  // namespace paceline::cuda
