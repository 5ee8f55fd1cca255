// Codes of IQ2_XXS: 64 + or - a magnitude of the grid's pattern.
#pragma once

#include "../cpu/grid_table.h"
#include "compat.h"

namespace paceline::cuda {

struct GridTable {
  uint16_t patterns[256];
};
constexpr GridTable copy_of_grid() {
  GridTable table{};
  for (int i = 0; i < 256; ++i) table.patterns[i] = kGrid[i];
  return table;
}
PACELINE_TABLE GridTable kDeviceGrid = copy_of_grid();
constexpr uint32_t kMagnitudeBytes = kMagnitudes[0] | kMagnitudes[1] << 8 | kMagnitudes[2] << 16;

// Magnitudes of inputs 0 .. 3 or 4 .. 7 (`second`) of a pattern, a byte each.
PACELINE_DEVICE uint32_t grid_codes(uint32_t pattern, int second) {
  const uint32_t pairs = kDeviceGrid.patterns[pattern] >> 8 * second;
  return permute_bytes(kMagnitudeBytes, 0, (pairs & 3) | (pairs & 12) << 2 | (pairs & 48) << 4 | (pairs & 192) << 6);
}

// 64 + magnitude, or 64 - magnitude where the byte of `minus` is 1. No byte carries into the next.
PACELINE_DEVICE uint32_t grid_signed(uint32_t magnitudes, uint32_t minus) {
  const uint32_t mask = minus * 0xffu;
  return 0x40404040u + (magnitudes & ~mask) - (magnitudes & mask);
}

}  // namespace paceline::cuda
