// How weights lie in memory: tiles of 16 output rows x 32 inputs, in the order in which the products read them.
//
//   Q4_1  256 bytes of nibbles, 16 half scales d, 16 half minimums m    = 320 bytes   w = d*code + m, code 0..15
//   Q8_0  512 bytes of codes (stored + 128), 16 half scales d           = 544 bytes   w = d*(code - 128)
//   F32   2048 bytes, [32 inputs][16 rows]                                            w
//
// Vector j (64 bytes) of a Q8_0 tile holds inputs 4j..4j+3 of each of the 16 rows, so that one 4-byte broadcast of
// activations meets 16 rows. Vector j (0..3) of a Q4_1 tile holds inputs 4j..4j+3 in its low nibbles and inputs
// 16+4j..16+4j+3 in its high ones. Rows and inputs past the matrix are zero weights.
// A matrix is [row tiles][input blocks] of tiles: one row tile is one stream through memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace paceline {

constexpr int kTileRows = 16;
constexpr int kBlock = 32;            // inputs to a tile, and activations to a quantization block
constexpr int kSegment = 512;         // inputs summed from zero before they join the total
constexpr int kSegmentBlocks = kSegment / kBlock;
constexpr int kGroup = 16;            // columns that share one unpacking in registers

enum class Format : int { F32 = 0, Q4_1 = 1, Q8_0 = 2 };
constexpr int kFormats = 3;

constexpr size_t tile_bytes(Format format) {
  return format == Format::Q4_1 ? 320 : format == Format::Q8_0 ? 544 : 2048;
}

// Panel: one tile unpacked to 8-bit codes and f32 scales, for when more columns than kGroup share it.
struct PanelTile {
  uint8_t codes[512];
  float scale[kTileRows];
  float minimum[kTileRows];
};

struct Matrix {
  Format format = Format::F32;
  int rows = 0;         // outputs
  int columns = 0;      // inputs
  int tiles = 0;        // ceil(rows / 16), rounded up to the pair where the matrix is used in pairs
  int blocks = 0;       // ceil(columns / 32)
  const uint8_t* data = nullptr;  // [tiles][blocks] tiles, 64-byte aligned

  size_t bytes() const { return static_cast<size_t>(tiles) * blocks * tile_bytes(format); }
  const uint8_t* row_tile(int t) const { return data + static_cast<size_t>(t) * blocks * tile_bytes(format); }
};

// One block of 32 activations of one column, quantized for the integer products (see quantize.cpp).
struct QuantizedBlock {
  int8_t codes[kBlock];   // round(x / scale), in [-127, 127]
  float scale;            // max|x| / 127
  float scaled_sum;       // scale * sum(codes)
  int32_t sum;            // sum(codes)
  int32_t unused;
};
static_assert(sizeof(QuantizedBlock) == 48);

// What one thread works with.
struct Scratch {
  PanelTile* panel;        // room for the widest matrix: [blocks]
  float* sums;             // [4][columns][kTileRows]
  uint64_t weight_bytes;   // counted where tiles are unpacked
};

// The inputs of a product, for any number of columns. Columns come in groups of kGroup, interleaved within a block, so
// that a kernel over a group reads one stream at constant offsets. Either form is filled, as the weights' formats ask.
struct Activations {
  QuantizedBlock* quantized = nullptr;  // [groups][blocks][kGroup]
  float* wide = nullptr;                // [groups][blocks * kBlock][kGroup]
};

}  // namespace paceline
