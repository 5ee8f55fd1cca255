#include "repack.h"

#include <cstring>

#include "half.h"

namespace paceline {
namespace {

// ggml blocks of 32 weights: Q4_1 is {half d, half m, 16 bytes: low nibble = weight i, high = weight i + 16}; Q8_0 is {half d, 32 int8}.
constexpr size_t kQ4_1Block = 20, kQ8_0Block = 34;

void repack_q4_1(const uint8_t* block, int row, uint8_t* tile) {
  std::memcpy(tile + 256 + 2 * row, block, 2);
  std::memcpy(tile + 288 + 2 * row, block + 2, 2);
  for (int j = 0; j < 4; ++j) std::memcpy(tile + 64 * j + 4 * row, block + 4 + 4 * j, 4);
}

void repack_q8_0(const uint8_t* block, int row, uint8_t* tile) {
  std::memcpy(tile + 512 + 2 * row, block, 2);
  for (int i = 0; i < kBlock; ++i) tile[64 * (i / 4) + 4 * row + i % 4] = block[2 + i] ^ 0x80;
}

// Codes of 128 and scales of zero: a row that isn't there.
void clear_row(Format format, int row, uint8_t* tile) {
  static const uint8_t empty[kQ8_0Block] = {};
  if (format == Format::Q4_1) repack_q4_1(empty, row, tile);
  if (format == Format::Q8_0) repack_q8_0(empty, row, tile);
}

}  // namespace

size_t source_row_bytes(Format format, int columns) {
  switch (format) {
    case Format::Q4_1: return columns / kBlock * kQ4_1Block;
    case Format::Q8_0: return columns / kBlock * kQ8_0Block;
    case Format::F32: return static_cast<size_t>(columns) * 4;
  }
  return 0;
}

void repack_row_tile(const Matrix& matrix, const uint8_t* source, int tile, uint8_t* out) {
  const size_t row_bytes = source_row_bytes(matrix.format, matrix.columns);
  for (int r = 0; r < kTileRows; ++r) {
    const int row = tile * kTileRows + r;
    const uint8_t* from = source + row * row_bytes;
    for (int b = 0; b < matrix.blocks; ++b) {
      uint8_t* to = out + static_cast<size_t>(b) * tile_bytes(matrix.format);
      if (matrix.format == Format::F32) {
        for (int i = 0; i < kBlock; ++i) {
          const int column = b * kBlock + i;
          float w = 0.0f;
          if (row < matrix.rows && column < matrix.columns) std::memcpy(&w, from + static_cast<size_t>(column) * 4, 4);
          std::memcpy(to + (static_cast<size_t>(i) * kTileRows + r) * 4, &w, 4);
        }
      } else if (row >= matrix.rows) {
        clear_row(matrix.format, r, to);
      } else if (matrix.format == Format::Q4_1) {
        repack_q4_1(from + b * kQ4_1Block, r, to);
      } else {
        repack_q8_0(from + b * kQ8_0Block, r, to);
      }
    }
  }
}

void read_row(const Matrix& matrix, int row, float* out) {
  const uint8_t* tiles = matrix.row_tile(row / kTileRows);
  const int r = row % kTileRows;
  const auto half_at = [](const uint8_t* p) {
    uint16_t h;
    std::memcpy(&h, p, 2);
    return half_to_float(h);
  };
  for (int column = 0; column < matrix.columns; ++column) {
    const uint8_t* tile = tiles + static_cast<size_t>(column / kBlock) * tile_bytes(matrix.format);
    const int i = column % kBlock;
    switch (matrix.format) {
      case Format::F32:
        std::memcpy(out + column, tile + (static_cast<size_t>(i) * kTileRows + r) * 4, 4);
        break;
      case Format::Q8_0:
        out[column] = half_at(tile + 512 + 2 * r) * static_cast<float>(tile[64 * (i / 4) + 4 * r + i % 4] - 128);
        break;
      case Format::Q4_1: {
        const uint8_t both = tile[64 * (i % 16 / 4) + 4 * r + i % 4];
        out[column] = __builtin_fmaf(half_at(tile + 256 + 2 * r), static_cast<float>(i < 16 ? both & 15 : both >> 4), half_at(tile + 288 + 2 * r));
        break;
      }
    }
  }
}

}  // namespace paceline
