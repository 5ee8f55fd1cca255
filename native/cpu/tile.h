// How weights lie in memory: tiles of 16 output rows x 32 inputs, in the order in which the products read them.
//
//          codes                                  scales and minimums, per row      bytes   w
//   F32    512 floats, [32 inputs][16 rows]                                          2048
//   F16    512 halves, likewise                                                      1024
//   BF16   512 bfloat16, likewise                                                    1024
//   Q8_0   512 bytes, stored + 128                half d                              544   d*(code - 128)
//   Q5_1   256 bytes of nibbles, 64 of 5th bits   half d, half m                      384   d*code + m
//   Q5_0   256 bytes of nibbles, 64 of 5th bits   half d                              352   d*(code - 16)
//   Q4_1   256 bytes of nibbles                   half d, half m                      320   d*code + m
//   Q4_0   256 bytes of nibbles                   half d                              288   d*(code - 8)
//   IQ4_NL 256 bytes of nibbles                   half d                              288   d*kNonlinear[code]
//   MXFP4  256 bytes of nibbles                   byte e (a power of two)             272   2^(e - 128)*kFloat4[code]
//
// Vector j (64 bytes) of 8-bit codes holds inputs 4j..4j+3 of each of the 16 rows, so that one 4-byte broadcast of
// activations meets 16 rows. Vector j (0..3) of nibbles holds inputs 4j..4j+3 in the low ones and 16+4j..16+4j+3 in the
// high ones. Bit b of 64-bit word j (0..7) of the 5th bits belongs to byte b of vector j once unpacked.
// Rows and inputs past the matrix are zero weights. A matrix is [row tiles][input blocks] of tiles: one row tile is one
// stream through memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace paceline {

constexpr int kTileRows = 16;
constexpr int kBlock = 32;            // inputs to a tile, and activations to a quantization block
constexpr int kSegment = 512;         // inputs summed from zero before they join the total
constexpr int kSegmentBlocks = kSegment / kBlock;
constexpr int kGroup = 16;            // columns that share one unpacking in registers

enum class Format { F32, F16, BF16, Q8_0, Q5_1, Q5_0, Q4_1, Q4_0, IQ4_NL, MXFP4 };

constexpr bool is_float(Format f) { return f == Format::F32 || f == Format::F16 || f == Format::BF16; }
constexpr bool has_minimum(Format f) { return f == Format::Q5_1 || f == Format::Q4_1; }
constexpr bool has_fifth_bit(Format f) { return f == Format::Q5_1 || f == Format::Q5_0; }

// Offsets within a tile of an integer format.
constexpr size_t kFifthBits = 256;
constexpr size_t scale_offset(Format f) { return f == Format::Q8_0 ? 512 : has_fifth_bit(f) ? 320 : 256; }
constexpr size_t minimum_offset(Format f) { return scale_offset(f) + 2 * kTileRows; }

constexpr size_t tile_bytes(Format f) {
  if (is_float(f)) return static_cast<size_t>(kTileRows) * kBlock * (f == Format::F32 ? 4 : 2);
  if (f == Format::MXFP4) return scale_offset(f) + kTileRows;
  return minimum_offset(f) + (has_minimum(f) ? 2 * kTileRows : 0);
}

// What a code stands for, as an unsigned byte with a bias: code - bias(f), or table[code] - bias(f).
constexpr int code_bias(Format f) {
  switch (f) {
    case Format::Q8_0: case Format::IQ4_NL: return 128;
    case Format::Q5_0: case Format::MXFP4: return 16;
    case Format::Q4_0: return 8;
    default: return 0;
  }
}
constexpr uint8_t kNonlinear[16] = {128 - 127, 128 - 104, 128 - 83, 128 - 65, 128 - 49, 128 - 35, 128 - 22, 128 - 10,
                                    128 + 1,   128 + 13,  128 + 25, 128 + 38, 128 + 53, 128 + 69, 128 + 89, 128 + 113};
// E2M1 doubled: 0 1 2 3 4 6 8 12 and their negatives.
constexpr uint8_t kFloat4[16] = {16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4};

// Panel: one tile unpacked to 8-bit codes and f32 scales (or to f32 weights), for when more columns than kGroup share it.
struct PanelTile {
  uint8_t codes[512];
  float scale[kTileRows];
  float minimum[kTileRows];
};
struct FloatPanelTile {
  float weights[kBlock * kTileRows];
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
  uint8_t* panel;          // room for the widest matrix: [blocks] PanelTile or FloatPanelTile
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
