// The device layout of integer weights: units of 4 or 8 tiles (tile.h: 16 outputs x 32 inputs), in the register order of
// an mma m16n8k32 with the weights as its 16 rows. A lane's part of a plane is 16 bytes for every 8 / bits tiles:
//
//   plane of b bits   [tiles * b / 8][32 lanes][4 words]; word w of lane 4g + t has inputs 16 * (w / 2) + 4t .. + 3 of row
//                     g + 8 * (w % 2); its bytes are the inputs, and bits b*k .. of a byte belong to tile k of the 8 / b
//                     formats with a table of codes: the four 4-bit codes of tile k adjacent in the lower half of a word, those of tile k + 1 in the upper
//                     NVFP4: inputs 2i and 2i + 1 of tile k are code k % 2 * 2 + i of the word's lower and upper half (float4_shift)
//                     Q8_0: the code itself, with its sign; Q6_K, Q5_0, Q4_0 and Q3_K: in two's complement, too, of as many bits as a code has
//   grid              in place of the low plane: [2][lanes][4 words], byte k of word w the low byte of the pattern that word w of tile 4i + k has its inputs
//                     of; of patterns with 8 inputs two lanes share one's, so there are 16, with 4 there are 32. Behind the signs b further bits of
//                     each number: [lanes][4b bytes], from bit b * (4k + w) on
//   scales            [16 rows][bytes of all tiles], then the minimums likewise
//   header            [16 rows] of half d, or half d and half m, where eight tiles share one
//
// A unit takes as many bytes as its tiles do on the CPU. A row tile is padded with zeros to whole units.
//
// Float weights: tiles of float32 are [8][16 rows][4 inputs]; those of 16-bit floats are the A operands of two mma m16n8k16 in register order,
// [2 mma][32 lanes][4 words]: word w of lane 4g + t has inputs 8t + 4 * mma + 2 * (w / 2) and the next, of row g + 8 * (w % 2).
#pragma once

#include "../cpu/grid_patterns.h"

namespace paceline::cuda {

constexpr int unit_tiles(Format f) {
  if (is_float(f)) return 1;
  return layout(f).unit == 8 || layout(f).high_bits == 1 ? 8 : 4;
}
constexpr int grid_lanes(Format f) { return 128 / patterns_of(f).inputs; }
constexpr bool has_table(Format f) { return is_nonlinear(f) || f == Format::MXFP4; }
// Formats whose weights, scales included, are exact in half precision, and are multiplied in it.
constexpr bool by_halves(Format f) { return f == Format::NVFP4; }
// Formats that are multiplied as bfloat16, split into parts (product_float16.cu).
constexpr bool by_brains(Format f) { return f == Format::BF16 || f == Format::F16; }
// Formats whose codes of fewer than eight bits are in two's complement, and are unpacked into the upper bits of a byte.
constexpr bool has_upper_codes(Format f) { return f == Format::Q6_K || f == Format::Q5_0 || f == Format::Q4_0 || f == Format::Q3_K; }
// Whether unpacked codes are the signed values themselves; other formats' codes are biased by layout().bias.
constexpr bool has_sign(Format f) { return is_nonlinear(f) || has_signed_grid(f) || has_upper_codes(f) || by_halves(f) || f == Format::Q8_0; }
constexpr int device_bias(Format f) { return has_sign(f) ? 0 : layout(f).bias; }
constexpr bool has_power_scales(Format f) { return f == Format::MXFP4; }  // of two
constexpr bool has_header(Format f) { return layout(f).header_bytes > 0; }

// Bytes of one row in a unit.
constexpr int scale_bytes(Format f) {
  if (has_grid(f)) return 4 * layout(f).scales;  // nibbles
  if (has_header(f) || is_float4(f)) return unit_tiles(f) * layout(f).scales;
  return 2 * unit_tiles(f);            // halves
}
constexpr int minimum_bytes(Format f) {
  if (!layout(f).minimum || f == Format::Q2_K) return 0;  // Q2_K has them in the upper nibbles of the scales
  return has_header(f) ? unit_tiles(f) : 2 * unit_tiles(f);
}
constexpr int header_bytes(Format f) { return layout(f).header_bytes / kTileRows; }

// What brings code 0 to 3 of a half of a word of NVFP4 to its place in a half-precision float, the sign at bit 15 and the size from bit 9 on: a shift to the left of the
// size, and one of the sign. As few shifts as there can be, since a multiplication by a power of two is one that other units do than those that mask.
constexpr int float4_shift(int code) { return 3 * code; }
constexpr int float4_sign_shift(int code) { return code < 2 ? 3 * code : code - 1; }

constexpr size_t low_bytes(Format f) { return static_cast<size_t>(unit_tiles(f)) * 64 * layout(f).low_bits; }
constexpr size_t high_begin(Format f) { return low_bytes(f); }
constexpr size_t upper_begin(Format f) { return low_bytes(f) + static_cast<size_t>(unit_tiles(f)) * 64 * layout(f).high_bits; }
constexpr size_t scales_begin(Format f) { return upper_begin(f) + (has_grid(f) ? static_cast<size_t>(grid_lanes(f)) * 4 * layout(f).upper_bits : 0); }
constexpr size_t minimums_begin(Format f) { return scales_begin(f) + static_cast<size_t>(kTileRows) * scale_bytes(f); }
constexpr size_t header_begin(Format f) { return minimums_begin(f) + static_cast<size_t>(kTileRows) * minimum_bytes(f); }
constexpr size_t device_unit_bytes(Format f) {
  return is_float(f) ? tile_bytes(f) : header_begin(f) + static_cast<size_t>(kTileRows) * header_bytes(f);
}
constexpr size_t device_units(Format f, int blocks) { return static_cast<size_t>((blocks + unit_tiles(f) - 1) / unit_tiles(f)); }
constexpr size_t device_row_tile_bytes(Format f, int blocks) { return device_units(f, blocks) * device_unit_bytes(f); }

// Byte offset, within a row tile, of one input of one of its rows.
constexpr size_t float_place(Format f, int row, int input) {
  if (f == Format::F32) return (static_cast<size_t>(input / 4) * kTileRows + row) * 16 + input % 4 * 4;
  const int within = input % kBlock, mma = within / 4 % 2, lane = row % 8 * 4 + within / 8, word = row / 8 + within % 4 / 2 * 2;
  return static_cast<size_t>(input / kBlock) * tile_bytes(f) + mma * 512 + lane * 16 + word * 4 + input % 2 * 2;
}

// Host: converts a row tile from the CPU's layout to the device's.
void pack_row_tile(Format f, int blocks, const uint8_t* tiles, uint8_t* out);

}  // namespace paceline::cuda
