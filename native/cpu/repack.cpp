#include "repack.h"

#include <cstring>

#include "file_blocks.h"
#include "grid_table.h"
#include "half.h"

namespace paceline {
namespace {

// Where the code of input i and row r stands: byte of the unpacked vectors.
constexpr int place(int i, int r) { return 64 * (i / 4) + 4 * r + i % 4; }

// Field `at` of a plane of `bits` bits to a code (tile.h): its byte, and its place within.
struct Field {
  int byte, shift;
};
constexpr Field field(int bits, int at) {
  switch (bits) {
    case 8: return {at, 0};
    case 4: return {at % 256, at / 256 * 4};
    case 2: return {at / 256 * 64 + at % 64, at / 64 % 4 * 2};
    default: return {at / 8, at % 8};
  }
}
void put(uint8_t* plane, int bits, int at, int value) {
  const Field to = field(bits, at);
  plane[to.byte] |= static_cast<uint8_t>((value & ((1 << bits) - 1)) << to.shift);
}
int get(const uint8_t* plane, int bits, int at) {
  const Field from = field(bits, at);
  return plane[from.byte] >> from.shift & ((1 << bits) - 1);
}

// Into a unit whose bytes are zero.
void write_block(Format f, const FileBlock& block, int row, uint8_t* header, uint8_t* tile) {
  const Layout shape = layout(f);
  for (int i = 0; i < kBlock; ++i) {
    if (f == Format::IQ2_XXS) {
      tile[4 * row + i / 8] = block.patterns[i / 8];
      put(tile + high_offset(f), 1, place(i, row), block.codes[i]);
      continue;
    }
    put(tile, shape.low_bits, place(i, row), block.codes[i]);
    if (shape.high_bits) put(tile + high_offset(f), shape.high_bits, place(i, row), block.codes[i] >> shape.low_bits);
  }
  uint8_t* scales = tile + scale_offset(f);
  if (f == Format::IQ2_XXS) {
    scales[row % 8] |= static_cast<uint8_t>(block.scales[0] << (row < 8 ? 0 : 4));
  } else if (f == Format::Q2_K) {
    for (int h = 0; h < 2; ++h) scales[kTileRows * h + row] = static_cast<uint8_t>(block.scales[h] | block.minimums[h] << 4);
  } else if (shape.header_bytes || is_float4(f)) {
    for (int h = 0; h < shape.scales; ++h) scales[kTileRows * h + row] = block.scales[h];
    if (shape.minimum) scales[kTileRows + row] = block.minimums[0];
  }
  if (is_float4(f)) return;
  uint8_t* halves = shape.header_bytes ? header : scales;
  std::memcpy(halves + 2 * row, block.scale, 2);
  if (shape.minimum) std::memcpy(halves + 2 * kTileRows + 2 * row, block.minimum, 2);
}

float half_at(const uint8_t* p) {
  uint16_t h;
  std::memcpy(&h, p, 2);
  return half_to_float(h);
}

float read_float(Format f, const uint8_t* tile, int row, int i) {
  const size_t at = static_cast<size_t>(i) * kTileRows + row;
  if (f == Format::F16) return half_at(tile + 2 * at);
  if (f == Format::BF16) {
    uint16_t h;
    std::memcpy(&h, tile + 2 * at, 2);
    return brain_to_float(h);
  }
  float w;
  std::memcpy(&w, tile + 4 * at, 4);
  return w;
}

int read_code(Format f, const uint8_t* tile, int row, int i) {
  const Layout shape = layout(f);
  const uint8_t* high = tile + high_offset(f);
  if (f == Format::IQ2_XXS) {
    const int magnitude = kMagnitudes[kGrid[tile[4 * row + i / 8]] >> 2 * (i % 8) & 3];
    return get(high, 1, place(i, row)) ? shape.bias - magnitude : shape.bias + magnitude;
  }
  int code = get(tile, shape.low_bits, place(i, row));
  if (shape.high_bits) code |= get(high, shape.high_bits, place(i, row)) << shape.low_bits;
  return is_nonlinear(f) ? kNonlinear[code] : is_float4(f) ? kFloat4[code] : code;
}

// Scale and minimum of input i.
struct Affine {
  float scale, minimum;
};
Affine read_scale(Format f, const uint8_t* header, const uint8_t* tile, int row, int i) {
  const Layout shape = layout(f);
  const uint8_t* scales = tile + scale_offset(f);
  const uint8_t own = scales[(shape.scales == 2 ? kTileRows * (i / 16) : 0) + row % (f == Format::IQ2_XXS ? 8 : kTileRows)];
  if (f == Format::MXFP4) return {power_scale(own), 0.0f};
  if (f == Format::NVFP4) return {small_float(own), 0.0f};
  const uint8_t* halves = shape.header_bytes ? header : scales;
  const float d = half_at(halves + 2 * row), m = shape.minimum ? half_at(halves + 2 * kTileRows + 2 * row) : 0.0f;
  if (!shape.header_bytes) return {d, m};
  if (f == Format::Q2_K) return {d * static_cast<float>(own & 15), -(m * static_cast<float>(own >> 4))};
  if (f == Format::IQ2_XXS) return {d * ((static_cast<float>(row < 8 ? own & 15 : own >> 4) + 0.5f) * 0.25f), 0.0f};
  if (shape.minimum) return {d * own, -(m * scales[kTileRows + row])};
  return {d * static_cast<int8_t>(own), 0.0f};
}

}  // namespace

size_t source_row_bytes(Format format, int columns) {
  return static_cast<size_t>(columns / layout(format).file_inputs) * layout(format).file_bytes;
}

void repack_row_tile(const Matrix& matrix, const uint8_t* source, int tile, uint8_t* out) {
  const Format f = matrix.format;
  const size_t row_bytes = source_row_bytes(f, matrix.columns), float_bytes = f == Format::F32 ? 4 : 2;
  std::memset(out, 0, matrix.row_tile_bytes());
  for (int r = 0; r < kTileRows; ++r) {
    const int row = tile * kTileRows + r;
    const uint8_t* from = source + row * row_bytes;
    for (int b = 0; b < matrix.blocks; ++b) {
      uint8_t* unit = out + unit_offset(f, b);
      uint8_t* to = unit + tile_offset(f, b);
      if (!is_float(f)) {
        write_block(f, row < matrix.rows ? read_file_block(f, from, b) : empty_block(f), r, unit, to);
        continue;
      }
      const int inputs = matrix.columns - b * kBlock < kBlock ? matrix.columns - b * kBlock : kBlock;
      for (int i = 0; i < inputs && row < matrix.rows; ++i)
        std::memcpy(to + (static_cast<size_t>(i) * kTileRows + r) * float_bytes, from + static_cast<size_t>(b * kBlock + i) * float_bytes, float_bytes);
    }
  }
}

void read_row(const Matrix& matrix, int row, float* out) {
  const Format f = matrix.format;
  const uint8_t* tiles = matrix.row_tile(row / kTileRows);
  const int r = row % kTileRows;
  for (int b = 0; b < matrix.blocks; ++b) {
    const uint8_t* unit = tiles + unit_offset(f, b);
    const uint8_t* tile = unit + tile_offset(f, b);
    for (int i = 0; i < kBlock && b * kBlock + i < matrix.columns; ++i) {
      float& weight = out[b * kBlock + i];
      if (is_float(f)) {
        weight = read_float(f, tile, r, i);
      } else {
        const Affine line = read_scale(f, unit, tile, r, i);
        weight = line.scale * static_cast<float>(read_code(f, tile, r, i) - layout(f).bias);
        if (layout(f).minimum) weight += line.minimum;
      }
      weight *= matrix.scale;
    }
  }
}

}  // namespace paceline
