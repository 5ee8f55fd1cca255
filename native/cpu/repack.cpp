#include "repack.h"

#include <cstring>

#include "file_blocks.h"
#include "grid_patterns.h"
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
int get(const uint8_t* plane, int bits, int at) {
  const Field from = field(bits, at);
  return plane[from.byte] >> from.shift & ((1 << bits) - 1);
}

// Four codes, those of inputs 4j .. 4j + 3, as one word: they stand side by side in every plane.
uint32_t word(const uint8_t* codes, int j) {
  uint32_t four;
  std::memcpy(&four, codes + 4 * j, 4);
  return four;
}
void put_word(uint8_t* vector, int row, uint32_t four) { std::memcpy(vector + 4 * row, &four, 4); }

// 32 codes of `Bits` bits, the bits above them clear, into a plane whose bytes are zero.
template <int Bits>
void put_plane(uint8_t* plane, int row, const uint8_t* codes) {
  if constexpr (Bits == 8) {
    for (int j = 0; j < 8; ++j) put_word(plane + 64 * j, row, word(codes, j));
  } else if constexpr (Bits == 4) {
    for (int j = 0; j < 4; ++j) put_word(plane + 64 * j, row, word(codes, j) | word(codes, j + 4) << 4);
  } else if constexpr (Bits == 2) {
    for (int j = 0; j < 2; ++j)
      put_word(plane + 64 * j, row, word(codes, 4 * j) | word(codes, 4 * j + 1) << 2 | word(codes, 4 * j + 2) << 4 | word(codes, 4 * j + 3) << 6);
  } else if constexpr (Bits == 1) {
    // The multiplication brings bits 0, 8, 16 and 24 to 28 .. 31.
    for (int j = 0; j < 8; ++j) plane[8 * j + row / 2] |= static_cast<uint8_t>(word(codes, j) * 0x10204080u >> 28 << 4 * (row % 2));
  }
}

template <Format F>
void put_codes(uint8_t* tile, int row, const FileBlock& block) {
  constexpr Layout shape = layout(F);
  if constexpr (has_grid(F)) {
    for (int p = 0; p < kBlock / patterns_of(F).inputs; ++p) {
      tile[pattern_byte(row, p)] = static_cast<uint8_t>(block.patterns[p]);
      for (int bit = 0; bit < shape.upper_bits; ++bit) {
        const int at = bit_place(F, bit, row, p);
        tile[upper_offset(F, bit) + at / 8] |= static_cast<uint8_t>((block.patterns[p] >> (8 + bit) & 1) << at % 8);
      }
    }
    if constexpr (has_signed_grid(F)) put_plane<1>(tile + high_offset(F), row, block.codes);
  } else {
    uint8_t low[kBlock], high[kBlock];
    for (int i = 0; i < kBlock; ++i) {
      low[i] = static_cast<uint8_t>(block.codes[i] & ((1 << shape.low_bits) - 1));
      high[i] = static_cast<uint8_t>(block.codes[i] >> shape.low_bits);
    }
    put_plane<shape.low_bits>(tile, row, low);
    if constexpr (shape.high_bits > 0) put_plane<shape.high_bits>(tile + high_offset(F), row, high);
  }
}

// A half of a scale or minimum. An infinite one becomes NaN: products take different ways from there, which must not end differently (integer_product.h).
void put_half(uint8_t* halves, int row, const uint8_t* from) {
  uint16_t half;
  std::memcpy(&half, from, 2);
  if ((half & 0x7fff) == 0x7c00) half |= 0x200;
  std::memcpy(halves + 2 * row, &half, 2);
}

template <Format F>
void put_scales(uint8_t* header, uint8_t* tile, int row, const FileBlock& block) {
  constexpr Layout shape = layout(F);
  uint8_t* scales = tile + scale_offset(F);
  if constexpr (has_grid(F)) {
    if constexpr (shape.scales == 1) scales[row % 8] |= static_cast<uint8_t>(block.scales[0] << (row < 8 ? 0 : 4));
    else scales[row] = static_cast<uint8_t>(block.scales[0] | block.scales[1] << 4);
  } else if constexpr (F == Format::Q2_K) {
    for (int h = 0; h < 2; ++h) scales[kTileRows * h + row] = static_cast<uint8_t>(block.scales[h] | block.minimums[h] << 4);
  } else if constexpr (F == Format::MXFP4) {
    scales[row] = block.scales[0] < kLargestPower ? block.scales[0] : kLargestPower;
  } else if constexpr (shape.header_bytes > 0 || F == Format::NVFP4) {
    for (int h = 0; h < shape.scales; ++h) scales[kTileRows * h + row] = block.scales[h];
    if (shape.minimum) scales[kTileRows + row] = block.minimums[0];
  }
  if constexpr (is_float4(F)) return;
  uint8_t* halves = shape.header_bytes ? header : scales;
  put_half(halves, row, block.scale);
  if (shape.minimum) put_half(halves + 2 * kTileRows, row, block.minimum);
}

// Unit by unit, so that what is being written stays near.
template <Format F>
void repack_codes(const Matrix& matrix, const uint8_t* source, int tile, uint8_t* out) {
  constexpr Layout shape = layout(F);
  const size_t row_bytes = source_row_bytes(F, matrix.columns);
  for (int first = 0; first < matrix.blocks; first += shape.unit) {
    uint8_t* unit = out + unit_offset(F, first);
    std::memset(unit, 0, unit_bytes(F));
    for (int r = 0; r < kTileRows; ++r) {
      const int row = tile * kTileRows + r;
      for (int b = first; b < first + shape.unit; ++b) {
        const FileBlock block = row < matrix.rows ? read_file_block(F, source + row * row_bytes, b) : empty_block(F);
        uint8_t* to = unit + tile_offset(F, b);
        put_codes<F>(to, r, block);
        put_scales<F>(unit, to, r, block);
      }
    }
  }
}

template <class Float>
void repack_floats(const Matrix& matrix, const uint8_t* source, int tile, uint8_t* out) {
  const size_t row_bytes = static_cast<size_t>(matrix.columns) * sizeof(Float);
  std::memset(out, 0, matrix.row_tile_bytes());
  for (int r = 0; r < kTileRows && tile * kTileRows + r < matrix.rows; ++r) {
    const uint8_t* from = source + (tile * kTileRows + r) * row_bytes;
    for (int i = 0; i < matrix.columns; ++i) std::memcpy(out + (static_cast<size_t>(i) * kTileRows + r) * sizeof(Float), from + i * sizeof(Float), sizeof(Float));
  }
}

using Repack = void (*)(const Matrix& matrix, const uint8_t* source, int tile, uint8_t* out);
Repack repack_for(Format format) {
  switch (format) {
    case Format::F32: return repack_floats<uint32_t>;
    case Format::F16: case Format::BF16: return repack_floats<uint16_t>;
#define CASE(name) case Format::name: return repack_codes<Format::name>;
    CASE(Q8_0) CASE(Q5_1) CASE(Q5_0) CASE(Q4_1) CASE(Q4_0) CASE(IQ4_NL) CASE(MXFP4) CASE(NVFP4)
    CASE(Q6_K) CASE(Q5_K) CASE(Q4_K) CASE(IQ4_XS) CASE(Q3_K) CASE(Q2_K)
    CASE(IQ3_S) CASE(IQ3_XXS) CASE(IQ2_S) CASE(IQ2_XS) CASE(IQ2_XXS) CASE(IQ1_M) CASE(IQ1_S)
#undef CASE
  }
  return nullptr;
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
  if (has_grid(f)) {
    const Patterns patterns = patterns_of(f);
    const int number = read_pattern(f, tile, row, i / patterns.inputs), value = grid_value(f, number % patterns.count, i % patterns.inputs);
    if (has_shifted_grid(f)) return shape.bias + value - (number < patterns.count ? 0 : 2);
    return get(high, 1, place(i, row)) ? shape.bias - value : shape.bias + value;
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
  const bool nibbles = has_grid(f);
  const uint8_t own = scales[(shape.scales == 2 && !nibbles ? kTileRows * (i / 16) : 0) + row % (nibbles && shape.scales == 1 ? 8 : kTileRows)];
  if (f == Format::MXFP4) return {power_scale(own), 0.0f};
  if (f == Format::NVFP4) return {small_float(own), 0.0f};
  const uint8_t* halves = shape.header_bytes ? header : scales;
  const float d = half_at(halves + 2 * row), m = shape.minimum ? half_at(halves + 2 * kTileRows + 2 * row) : 0.0f;
  if (!shape.header_bytes) return {d, m};
  if (f == Format::Q2_K) return {d * static_cast<float>(own & 15), -(m * static_cast<float>(own >> 4))};
  if (nibbles) {
    const bool upper = shape.scales == 1 ? row >= 8 : i >= 16;
    return {d * ((static_cast<float>(upper ? own >> 4 : own & 15) + 0.5f) * patterns_of(f).factor), 0.0f};
  }
  if (shape.minimum) return {d * own, -(m * scales[kTileRows + row])};
  return {d * static_cast<int8_t>(own), 0.0f};
}

}  // namespace

size_t source_row_bytes(Format format, int columns) {
  return static_cast<size_t>(columns / layout(format).file_inputs) * layout(format).file_bytes;
}

void repack_row_tile(const Matrix& matrix, const uint8_t* source, int tile, uint8_t* out) { repack_for(matrix.format)(matrix, source, tile, out); }

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
