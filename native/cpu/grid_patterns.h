// The formats whose weights are chosen four or eight at a time from a grid, a fixed list of patterns. A pattern's number has eight bits in the tile's low plane
// and the rest in planes of single bits (tile.h).
#pragma once

#include "grid_table_iq1.h"
#include "grid_table_iq2.h"
#include "grid_table_iq3.h"
#include "tile.h"

namespace paceline {

struct Patterns {
  int inputs;             // to a pattern
  int count;
  const uint16_t* table;  // [count], 16 / inputs bits for each input: which of the values it has
  int8_t values[8];       // magnitudes; of IQ1 8 times the values, of which a code is 1 more, or 1 less (so 2 less than otherwise) where its pattern's bit is set
  float factor;           // a scale is d * factor * (s + 0.5)

  // What number `i` of the values stands for where no bit says minus, or less.
  constexpr int value(Format f, int i) const { return has_shifted_grid(f) ? values[i] + 1 : values[i]; }
};

constexpr Patterns patterns_of(Format f) {
  switch (f) {
    case Format::IQ3_S: return {4, 512, kGridIQ3_S, {1, 3, 5, 7, 9, 11, 13, 15}, 2.0f};
    case Format::IQ3_XXS: return {4, 256, kGridIQ3_XXS, {4, 12, 20, 28, 36, 44, 52, 62}, 0.5f};
    case Format::IQ2_S: return {8, 1024, kGridIQ2_S, {8, 25, 43}, 0.25f};
    case Format::IQ2_XS: return {8, 512, kGridIQ2_XS, {8, 25, 43}, 0.25f};
    case Format::IQ2_XXS: return {8, 256, kGridIQ2_XXS, {8, 25, 43}, 0.25f};
    case Format::IQ1_M: case Format::IQ1_S: return {8, 2048, kGridIQ1, {-8, 0, 8}, 0.25f};
    default: return {};
  }
}

// The same of input i of a pattern.
constexpr int grid_value(Format f, int pattern, int i) {
  const Patterns patterns = patterns_of(f);
  const int bits = 16 / patterns.inputs;
  return patterns.value(f, patterns.table[pattern] >> bits * i & ((1 << bits) - 1));
}

// The number of a row's pattern in a tile. Of IQ1 its top bit says that its codes are 1 less than 8 times the values.
inline int read_pattern(Format f, const uint8_t* tile, int row, int pattern) {
  int number = tile[pattern_byte(row, pattern)];
  for (int bit = 0; bit < layout(f).upper_bits; ++bit) {
    const int at = bit_place(f, bit, row, pattern);
    number |= (tile[upper_offset(f, bit) + at / 8] >> at % 8 & 1) << (8 + bit);
  }
  return number;
}

}  // namespace paceline
