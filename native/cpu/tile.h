// How weights lie in memory: tiles of 16 output rows x 32 inputs, in the order in which the products read them.
//
//           codes                                   scales and minimums of a tile              bytes   w
//   F32     512 floats, [32 inputs][16 rows]                                                    2048
//   F16     512 halves, likewise                                                                1024
//   BF16    512 bfloat16, likewise                                                              1024
//   Q8_0    bytes, stored + 128                     half d[16]                                   544   d*(code - 128)
//   Q5_1    nibbles, 5th bits                       half d[16], half m[16]                       384   d*code + m
//   Q5_0    nibbles, 5th bits                       half d[16]                                   352   d*(code - 16)
//   Q4_1    nibbles                                 half d[16], half m[16]                       320   d*code + m
//   Q4_0    nibbles                                 half d[16]                                   288   d*(code - 8)
//   IQ4_NL  nibbles                                 half d[16]                                   288   d*kNonlinear[code]
//   MXFP4   nibbles                                 byte e[16] (a power of two)                  272   2^(e - 128)*kFloat4[code]
//   NVFP4   nibbles                                 UE4M3 s[2][16]                               288   s/2*kFloat4[code]
//   Q6_K    nibbles, 5th and 6th bits               int8 s[2][16]                      H         416   d*s*(code - 32)
//   Q5_K    nibbles, 5th bits                       byte s[16], byte n[16]             HM        352   d*s*code - m*n
//   Q4_K    nibbles                                 byte s[16], byte n[16]             HM        288   d*s*code - m*n
//   IQ4_XS  nibbles                                 int8 s[16]                         H         272   d*s*kNonlinear[code]
//   Q3_K    pairs of bits, 3rd bits                 int8 s[2][16]                      H         224   d*s*(code - 4)
//   Q2_K    pairs of bits                           nibbles s below n [2][16]          HM        160   d*s*code - m*n
//   IQ3_S   patterns [2][16][4], sign bits          nibbles s[8] below s[8]            H         216   d*(2s + 1)*(+-grid)
//   IQ3_XXS patterns [2][16][4], sign bits          nibbles s[8] below s[8]            H         200   d*(2s + 1)/4*(+-grid)
//   IQ2_S   patterns [16][4], sign bits             nibbles s[16] below s[16]          H         160   d*(2s + 1)/8*(+-grid)
//   IQ2_XS  patterns [16][4], sign bits             nibbles s[16] below s[16]          H         152   d*(2s + 1)/8*(+-grid)
//   IQ2_XXS patterns [16][4], sign bits             nibbles s[8] below s[8]            H         136   d*(2s + 1)/8*(+-grid)
//   IQ1_M   patterns [16][4]                        nibbles s[16] below s[16]          H         112   d*(2s + 1)/8*(8*grid +- 1)
//   IQ1_S   patterns [16][4]                        nibbles s[8] below s[8]            H         104   d*(2s + 1)/8*(8*grid +- 1)
//
// Two scales to a row ([2][16], nibbles s[16] below s[16]) are those of inputs 0..15 and 16..31. H: eight tiles, 256 inputs, follow a header of half
// d[16]; HM: half d[16], half m[16]. Header and tiles are a unit; other formats have units of one tile and no header.
//
// Vector j (64 bytes) of 8-bit codes holds inputs 4j..4j+3 of each of the 16 rows, so that one 4-byte broadcast of
// activations meets 16 rows. Vector j (0..3) of nibbles holds inputs 4j..4j+3 in the low ones and 16+4j..16+4j+3 in the
// high ones. Bit b of 64-bit word j (0..7) of single bits belongs to byte b of vector j once unpacked. Bits 2k and 2k+1 of
// vector j (0..1) of pairs of bits belong to vector 4j+k once unpacked.
// Patterns (grid_patterns.h) are the low bytes of their numbers; after the scales follows a plane for each further bit (number_place).
// Rows and inputs past the matrix are zero weights. A matrix is [row tiles][input units]: one row tile is one stream
// through memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace paceline {

constexpr int kTileRows = 16;
constexpr int kBlock = 32;            // inputs to a tile, and activations to a quantization block
constexpr int kSegment = 512;         // inputs summed from zero before they join the total
constexpr int kSegmentBlocks = kSegment / kBlock;
constexpr int kGroup = 16;            // columns that share one unpacking in registers

enum class Format { F32, F16, BF16, Q8_0, Q5_1, Q5_0, Q4_1, Q4_0, IQ4_NL, MXFP4, NVFP4, Q6_K, Q5_K, Q4_K, IQ4_XS, Q3_K, Q2_K, IQ3_S, IQ3_XXS, IQ2_S, IQ2_XS, IQ2_XXS, IQ1_M, IQ1_S };

constexpr bool is_float(Format f) { return f == Format::F32 || f == Format::F16 || f == Format::BF16; }

struct Layout {
  int file_inputs, file_bytes;  // a block in the file
  int low_bits, high_bits;      // of a code: 64 bytes to the bit, a plane of the low ones, then one of the high ones
  int bias;                     // a code, or what a table has for it, stands for its value + bias, and is below twice that or, without, 32
  int scales;                   // to a row of a tile: 1, or 2 for 16 inputs each
  bool minimum;
  int scale_bytes;              // of a tile, minimums included, after the planes
  int unit, header_bytes;       // tiles that follow one header
  int upper_bits = 0;           // of a pattern's number, above eight
};

[[gnu::always_inline]] constexpr Layout layout(Format f) {
  switch (f) {
    case Format::F32: return {1, 4, 32, 0, 0, 0, false, 0, 1, 0};
    case Format::F16: case Format::BF16: return {1, 2, 16, 0, 0, 0, false, 0, 1, 0};
    case Format::Q8_0: return {32, 34, 8, 0, 128, 1, false, 32, 1, 0};
    case Format::Q5_1: return {32, 24, 4, 1, 0, 1, true, 64, 1, 0};
    case Format::Q5_0: return {32, 22, 4, 1, 16, 1, false, 32, 1, 0};
    case Format::Q4_1: return {32, 20, 4, 0, 0, 1, true, 64, 1, 0};
    case Format::Q4_0: return {32, 18, 4, 0, 8, 1, false, 32, 1, 0};
    case Format::IQ4_NL: return {32, 18, 4, 0, 128, 1, false, 32, 1, 0};
    case Format::MXFP4: return {32, 17, 4, 0, 16, 1, false, 16, 1, 0};
    case Format::NVFP4: return {64, 36, 4, 0, 16, 2, false, 32, 1, 0};
    case Format::Q6_K: return {256, 210, 4, 2, 32, 2, false, 32, 8, 32};
    case Format::Q5_K: return {256, 176, 4, 1, 0, 1, true, 32, 8, 64};
    case Format::Q4_K: return {256, 144, 4, 0, 0, 1, true, 32, 8, 64};
    case Format::IQ4_XS: return {256, 136, 4, 0, 128, 1, false, 16, 8, 32};
    case Format::Q3_K: return {256, 110, 2, 1, 4, 2, false, 32, 8, 32};
    case Format::Q2_K: return {256, 84, 2, 0, 0, 2, true, 32, 8, 64};
    case Format::IQ3_S: return {256, 110, 2, 1, 16, 1, false, 8, 8, 32, 1};
    case Format::IQ3_XXS: return {256, 98, 2, 1, 64, 1, false, 8, 8, 32};
    case Format::IQ2_S: return {256, 82, 1, 1, 64, 2, false, 16, 8, 32, 2};
    case Format::IQ2_XS: return {256, 74, 1, 1, 64, 2, false, 16, 8, 32, 1};
    case Format::IQ2_XXS: return {256, 66, 1, 1, 64, 1, false, 8, 8, 32};
    case Format::IQ1_M: return {256, 56, 1, 0, 16, 2, false, 16, 8, 32, 4};
    case Format::IQ1_S: return {256, 50, 1, 0, 16, 1, false, 8, 8, 32, 4};
  }
  return {};
}

// Offsets within a tile of an integer format. What products ask of each tile is inlined by force: the compiler called it.
constexpr size_t high_offset(Format f) { return 64 * static_cast<size_t>(layout(f).low_bits); }
constexpr size_t scale_offset(Format f) { return 64 * static_cast<size_t>(layout(f).low_bits + layout(f).high_bits); }
[[gnu::always_inline]] constexpr size_t upper_offset(Format f, int bit) { return scale_offset(f) + layout(f).scale_bytes + 8 * static_cast<size_t>(layout(f).low_bits) * bit; }

constexpr size_t tile_bytes(Format f) { return upper_offset(f, layout(f).upper_bits); }
constexpr size_t unit_bytes(Format f) { return layout(f).header_bytes + layout(f).unit * tile_bytes(f); }
[[gnu::always_inline]] constexpr size_t unit_offset(Format f, int block) { return block / layout(f).unit * unit_bytes(f); }
[[gnu::always_inline]] constexpr size_t tile_offset(Format f, int block) { return layout(f).header_bytes + block % layout(f).unit * tile_bytes(f); }  // in its unit

// What stands for a code of four bits.
constexpr uint8_t kNonlinear[16] = {128 - 127, 128 - 104, 128 - 83, 128 - 65, 128 - 49, 128 - 35, 128 - 22, 128 - 10,
                                    128 + 1,   128 + 13,  128 + 25, 128 + 38, 128 + 53, 128 + 69, 128 + 89, 128 + 113};
// E2M1 doubled: 0 1 2 3 4 6 8 12 and their negatives.
constexpr uint8_t kFloat4[16] = {16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4};
constexpr bool is_nonlinear(Format f) { return f == Format::IQ4_NL || f == Format::IQ4_XS; }
constexpr bool is_float4(Format f) { return f == Format::MXFP4 || f == Format::NVFP4; }

// Formats with a grid of patterns (grid_patterns.h): those with a plane of signs, and those whose values are shifted.
constexpr bool has_shifted_grid(Format f) { return f == Format::IQ1_M || f == Format::IQ1_S; }
constexpr bool has_signed_grid(Format f) {
  return f == Format::IQ3_S || f == Format::IQ3_XXS || f == Format::IQ2_S || f == Format::IQ2_XS || f == Format::IQ2_XXS;
}
constexpr bool has_grid(Format f) { return has_signed_grid(f) || has_shifted_grid(f); }
// Where the low byte of a row's pattern is in a tile, and its further bits in their planes: those of patterns 0 and 2 of a row side by side, then those of
// patterns 1 and 3. The last bit of IQ1 says that the codes are 1 less than 8 times the values, and not 1 more.
constexpr int pattern_byte(int row, int pattern) { return 64 * (pattern / 4) + 4 * row + pattern % 4; }
constexpr int number_place(int row, int pattern) { return 64 * (pattern / 4) + 32 * (pattern % 2) + 2 * row + pattern % 4 / 2; }
constexpr int bit_place(Format f, int bit, int row, int pattern) {
  return has_shifted_grid(f) && bit + 1 == layout(f).upper_bits ? kTileRows * pattern + row : number_place(row, pattern);
}

// Panel: some tiles of a row unpacked to 8-bit codes and f32 scales (or to f32 weights), for when more columns share them than
// have accumulators in registers.
constexpr int kPanelBlocks = 4 * kSegmentBlocks;  // 48 KiB: in the nearer caches, and whole segments
struct PanelTile {
  uint8_t codes[512];
  struct {
    float scale[kTileRows];
    float minimum[kTileRows];
  } half[2];                   // the second where a row has two scales
};
struct FloatPanelTile {
  float weights[kBlock * kTileRows];
};

constexpr size_t kPanelBytes = kPanelBlocks * sizeof(FloatPanelTile);

struct Matrix {
  Format format = Format::F32;
  int rows = 0;         // outputs
  int columns = 0;      // inputs
  int tiles = 0;        // ceil(rows / 16), rounded up to the pair where the matrix is used in pairs
  int blocks = 0;       // ceil(columns / 32)
  float scale = 1.0f;   // of all weights
  const float* bias = nullptr;    // [tiles * 16], added to the outputs; null: none
  const uint8_t* data = nullptr;  // [tiles][blocks / unit] units, 64-byte aligned

  size_t row_tile_bytes() const { return unit_offset(format, blocks); }  // blocks fill units: columns are whole blocks of the file
  size_t bytes() const { return tiles * row_tile_bytes(); }
  const uint8_t* row_tile(int t) const { return data + t * row_tile_bytes(); }
};

// One block of 32 activations of one column, quantized for the integer products (see quantize.cpp).
struct QuantizedBlock {
  int8_t codes[kBlock];   // round(x / scale), in [-127, 127]
  float scale;            // max|x| / 127
  float float_sum;        // sum
  int32_t sum;            // sum(codes)
  int32_t low_sum;        // sum(codes[0 .. 15])
};
static_assert(sizeof(QuantizedBlock) == 48);

// What one thread works with.
struct Scratch {
  uint8_t* panel;          // [kPanelBytes]
  float* sums;             // [4][columns][kTileRows]
  uint64_t weight_bytes;   // counted where tiles are unpacked
};

// What becomes of a feed-forward's gate and up. Clamped: the two are kept within bounds, a slope of 1.702 replaces GELU's curve, and up is offset by one.
enum class Activation { Silu, Gelu, Clamped, SquaredRelu, Xielu };  // the last two have no gate
struct Curve {
  Activation activation;
  const float* constants = nullptr;  // [3] of xIELU, of x^2 above 0, of e^x - 1 - x below, and of x; or null
};
constexpr float kNoWeights = 1e-20f;  // added to the sum that experts' weights are divided by, as in transformers: all sigmoids may be 0
constexpr float kClampedSlope = 1.702f, kClampedMost = 7.0f;

// The inputs of a product, for any number of columns. Columns come in groups of kGroup, interleaved within a block, so
// that a kernel over a group reads one stream at constant offsets. Either form is filled, as the weights' formats ask.
struct Activations {
  QuantizedBlock* quantized = nullptr;  // [groups][blocks][kGroup]
  float* wide = nullptr;                // [groups][blocks * kBlock][wide_columns]
  int wide_columns = kGroup;            // or less, of a single group: each input of one column would be a line of the cache

  // Where an input of a column is in it, of `blocks` blocks to a column.
  size_t wide_place(int blocks, int column, int input) const {
    return (static_cast<size_t>(column / kGroup) * blocks * kBlock + input) * wide_columns + column % kGroup;
  }
};

}  // namespace paceline
