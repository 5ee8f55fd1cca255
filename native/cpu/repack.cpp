#include "repack.h"

#include <cstring>

#include "half.h"

namespace paceline {
namespace {

// One block of 32 weights as ggml's formats have it, its parts apart. Fields lie in the file in this order.
struct Block {
  uint8_t scale[2] = {};    // half d, or the exponent byte of MXFP4
  uint8_t minimum[2] = {};  // half m
  uint8_t codes[kBlock] = {};
};

constexpr size_t source_block_bytes(Format f) {
  if (f == Format::Q8_0) return 34;
  return (f == Format::MXFP4 ? 1 : 2) + (has_minimum(f) ? 2 : 0) + (has_fifth_bit(f) ? 4 : 0) + 16;
}

// Nibbles: byte i holds weight i below and weight i + 16 above. Bit i of the fifth bits is that of weight i.
Block read_block(Format f, const uint8_t* p) {
  Block block;
  const size_t scale_bytes = f == Format::MXFP4 ? 1 : 2;
  std::memcpy(block.scale, p, scale_bytes);
  p += scale_bytes;
  if (has_minimum(f)) {
    std::memcpy(block.minimum, p, 2);
    p += 2;
  }
  if (f == Format::Q8_0) {
    for (int i = 0; i < kBlock; ++i) block.codes[i] = p[i] ^ 0x80;
    return block;
  }
  uint32_t fifth = 0;
  if (has_fifth_bit(f)) {
    std::memcpy(&fifth, p, 4);
    p += 4;
  }
  for (int i = 0; i < kBlock; ++i) block.codes[i] = static_cast<uint8_t>((i < 16 ? p[i] & 15 : p[i - 16] >> 4) | (fifth >> i & 1) << 4);
  return block;
}

// Where the code of input i and row r stands: byte of the unpacked vectors.
constexpr int place(int i, int r) { return 64 * (i / 4) + 4 * r + i % 4; }

// Into a tile whose bytes are zero where codes go.
void write_block(Format f, const Block& block, int row, uint8_t* tile) {
  const size_t scale_bytes = f == Format::MXFP4 ? 1 : 2;
  std::memcpy(tile + scale_offset(f) + scale_bytes * row, block.scale, scale_bytes);
  if (has_minimum(f)) std::memcpy(tile + minimum_offset(f) + 2 * row, block.minimum, 2);
  for (int i = 0; i < kBlock; ++i) {
    const int at = place(i, row);
    if (f == Format::Q8_0) {
      tile[at] = block.codes[i];
      continue;
    }
    tile[at % 256] |= static_cast<uint8_t>((block.codes[i] & 15) << (i < 16 ? 0 : 4));
    if (has_fifth_bit(f)) tile[kFifthBits + at / 8] |= static_cast<uint8_t>((block.codes[i] >> 4) << at % 8);
  }
}

float half_at(const uint8_t* p) {
  uint16_t h;
  std::memcpy(&h, p, 2);
  return half_to_float(h);
}

float read_weight(Format f, const uint8_t* tile, int row, int i) {
  if (is_float(f)) {
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
  const int at = place(i, row);
  int code = f == Format::Q8_0 ? tile[at] : i < 16 ? tile[at % 256] & 15 : tile[at % 256] >> 4;
  if (has_fifth_bit(f)) code |= (tile[kFifthBits + at / 8] >> at % 8 & 1) << 4;
  if (f == Format::IQ4_NL) code = kNonlinear[code];
  if (f == Format::MXFP4) code = kFloat4[code];
  const float value = static_cast<float>(code - code_bias(f));
  if (f == Format::MXFP4) return power_scale(tile[scale_offset(f) + row]) * value;
  const float scaled = half_at(tile + scale_offset(f) + 2 * row) * value;
  return has_minimum(f) ? scaled + half_at(tile + minimum_offset(f) + 2 * row) : scaled;
}

// Codes that mean zero: a row that isn't there. Its scale is zero (of MXFP4, code 0 means zero at any scale).
constexpr Block empty_block(Format f) {
  Block block;
  for (uint8_t& code : block.codes) code = f == Format::Q8_0 ? 128 : 0;
  return block;
}

}  // namespace

size_t source_row_bytes(Format format, int columns) {
  if (is_float(format)) return static_cast<size_t>(columns) * (format == Format::F32 ? 4 : 2);
  return columns / kBlock * source_block_bytes(format);
}

void repack_row_tile(const Matrix& matrix, const uint8_t* source, int tile, uint8_t* out) {
  const Format f = matrix.format;
  const size_t row_bytes = source_row_bytes(f, matrix.columns), float_bytes = f == Format::F32 ? 4 : 2;
  std::memset(out, 0, tile_bytes(f) * matrix.blocks);
  for (int r = 0; r < kTileRows; ++r) {
    const int row = tile * kTileRows + r;
    const uint8_t* from = source + row * row_bytes;
    for (int b = 0; b < matrix.blocks; ++b) {
      uint8_t* to = out + static_cast<size_t>(b) * tile_bytes(f);
      if (!is_float(f)) {
        write_block(f, row < matrix.rows ? read_block(f, from + b * source_block_bytes(f)) : empty_block(f), r, to);
        continue;
      }
      const int inputs = matrix.columns - b * kBlock < kBlock ? matrix.columns - b * kBlock : kBlock;
      for (int i = 0; i < inputs && row < matrix.rows; ++i)
        std::memcpy(to + (static_cast<size_t>(i) * kTileRows + r) * float_bytes, from + static_cast<size_t>(b * kBlock + i) * float_bytes, float_bytes);
    }
  }
}

void read_row(const Matrix& matrix, int row, float* out) {
  const uint8_t* tiles = matrix.row_tile(row / kTileRows);
  for (int column = 0; column < matrix.columns; ++column)
    out[column] = read_weight(matrix.format, tiles + static_cast<size_t>(column / kBlock) * tile_bytes(matrix.format), row % kTileRows, column % kBlock);
}

}  // namespace paceline
