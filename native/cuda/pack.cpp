#include <cstring>

#include "layout.h"

namespace paceline::cuda {
namespace {

// Inputs 4j .. 4j + 3 of row r of a tile's plane, a byte each (tile.h).
uint32_t plane_word(const uint8_t* plane, int bits, int j, int r) {
  uint32_t word;
  switch (bits) {
    case 8: std::memcpy(&word, plane + 64 * j + 4 * r, 4); return word;
    case 4: std::memcpy(&word, plane + 64 * (j % 4) + 4 * r, 4); return word >> 4 * (j / 4) & 0x0f0f0f0fu;
    case 2: std::memcpy(&word, plane + 64 * (j / 4) + 4 * r, 4); return word >> 2 * (j % 4) & 0x03030303u;
    default: {
      const uint32_t four = plane[8 * j + r / 2] >> 4 * (r % 2) & 15u;
      return (four & 1) | (four & 2) << 7 | (four & 4) << 14 | (four & 8) << 21;
    }
  }
}

// Packs four 4-bit codes, one per byte, into 16 adjacent bits: the lower half of a word for an even tile, the upper half for an odd one.
uint32_t in_a_row(uint32_t codes, int k) { return ((codes & 15) | (codes >> 4 & 0xf0) | (codes >> 8 & 0xf00) | (codes >> 12 & 0xf000)) << 16 * (k % 2); }

// Packs four E2M1 codes likewise, for halves (layout.h); negative zeros lose their sign.
uint32_t for_halves(uint32_t codes, int k) {
  uint32_t word = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t size = codes >> 8 * i & 7, sign = size ? codes >> (8 * i + 3) & 1 : 0;
    const int code = k % 2 * 2 + i / 2, half = 16 * (i % 2);
    word |= size << (9 - float4_shift(code) + half) | sign << (15 - float4_sign_shift(code) + half);
  }
  return word;
}

// Packs tile k's plane into the unit's. f: formats with a table of codes, which have a low plane only, pack them differently (layout.h). top: of the planes, the one with
// a code's highest bit, whose bias, where there is one, makes that bit the opposite of a sign.
void put_plane(uint8_t* out, int bits, int k, const uint8_t* plane, Format f, bool top) {
  const int together = 8 / bits;
  const uint32_t sign = top && (has_upper_codes(f) || f == Format::Q8_0) ? 0x01010101u << (bits - 1) : 0;
  for (int r = 0; r < kTileRows; ++r)
    for (int j = 0; j < 8; ++j) {
      const int lane = 4 * (r % 8) + j % 4, w = r / 8 + 2 * (j / 4);
      uint8_t* at = out + (static_cast<size_t>(k / together) * 32 + lane) * 16 + 4 * w;
      uint32_t word;
      std::memcpy(&word, at, 4);
      const uint32_t own = plane_word(plane, bits, j, r) ^ sign;
      word |= by_halves(f) ? for_halves(own, k) : has_table(f) ? in_a_row(own, k) : own << bits * (k % together);
      std::memcpy(at, &word, 4);
    }
}

void put_bits(uint8_t* to, int at, int bits) {
  uint32_t word;
  std::memcpy(&word, to + at / 32 * 4, 4);
  word |= static_cast<uint32_t>(bits) << at % 32;
  std::memcpy(to + at / 32 * 4, &word, 4);
}

void put_patterns(Format f, uint8_t* unit, int k, const uint8_t* tile) {
  const int bits = layout(f).upper_bits, lanes = grid_lanes(f), of_row = lanes / 8;
  for (int r = 0; r < kTileRows; ++r)
    for (int p = 0; p < kBlock / patterns_of(f).inputs; ++p) {
      const int number = read_pattern(f, tile, r, p), lane = of_row * (r % 8) + p % of_row, w = r / 8 + p / of_row * 2;
      unit[(k / 4 * lanes + lane) * 16 + 4 * w + k % 4] = static_cast<uint8_t>(number);
      if (bits) put_bits(unit + upper_begin(f) + lane * 4 * bits, bits * (4 * k + w), number >> 8);
    }
}

void put_scales(Format f, uint8_t* unit, int k, const uint8_t* tile) {
  const Layout shape = layout(f);
  const uint8_t* from = tile + scale_offset(f);
  uint8_t* scales = unit + scales_begin(f);
  uint8_t* minimums = unit + minimums_begin(f);
  const int row_bytes = scale_bytes(f);
  for (int r = 0; r < kTileRows; ++r) {
    if (has_grid(f) && shape.scales == 1) {
      const int nibble = r < 8 ? from[r] & 15 : from[r - 8] >> 4;
      scales[r * row_bytes + k / 2] |= static_cast<uint8_t>(nibble << 4 * (k % 2));
    } else if (has_grid(f)) {
      scales[r * row_bytes + k] = from[r];
    } else if (has_header(f) || is_float4(f)) {
      for (int h = 0; h < shape.scales; ++h) scales[r * row_bytes + k * shape.scales + h] = from[kTileRows * h + r];
      if (minimum_bytes(f)) minimums[r * minimum_bytes(f) + k] = from[kTileRows + r];
    } else {
      std::memcpy(scales + r * row_bytes + 2 * k, from + 2 * r, 2);
      if (shape.minimum) std::memcpy(minimums + r * minimum_bytes(f) + 2 * k, from + 2 * kTileRows + 2 * r, 2);
    }
  }
}

void put_floats(Format f, const uint8_t* tile, uint8_t* out) {
  const int size = layout(f).file_bytes;
  for (int i = 0; i < kBlock; ++i)
    for (int r = 0; r < kTileRows; ++r) std::memcpy(out + float_place(f, r, i), tile + (static_cast<size_t>(i) * kTileRows + r) * size, size);
}

}  // namespace

void pack_row_tile(Format f, int blocks, const uint8_t* tiles, uint8_t* out) {
  std::memset(out, 0, device_row_tile_bytes(f, blocks));
  const Layout shape = layout(f);
  for (int b = 0; b < blocks; ++b) {
    const uint8_t* header = tiles + unit_offset(f, b);
    const uint8_t* tile = header + tile_offset(f, b);
    uint8_t* unit = out + b / unit_tiles(f) * device_unit_bytes(f);
    const int k = b % unit_tiles(f);
    if (is_float(f)) {
      put_floats(f, tile, unit);
      continue;
    }
    if (has_grid(f)) {
      put_patterns(f, unit, k, tile);
    } else {
      put_plane(unit, shape.low_bits, k, tile, f, !shape.high_bits);
    }
    if (shape.high_bits) put_plane(unit + high_begin(f), shape.high_bits, k, tile + high_offset(f), f, true);
    put_scales(f, unit, k, tile);
    if (has_header(f) && k == 0)
      for (int r = 0; r < kTileRows; ++r)
        for (int part = 0; part < header_bytes(f) / 2; ++part)
          std::memcpy(unit + header_begin(f) + r * header_bytes(f) + 2 * part, header + 2 * kTileRows * part + 2 * r, 2);
  }
}

}  // namespace paceline::cuda
