// Activations as the products read them: int8 codes in the order of the mma's B operand, with the scale and sums of each block of 32
// in an array beside them; the same codes times kHalvesFactor as halves; floats split into two bfloat16; or plain floats.
#pragma once

#include "../cpu/tile.h"
#include "arithmetic.h"

namespace paceline::cuda {

constexpr int kColumns = 8;  // of one mma
// Behind the last there is room for as many in `brains`: kernels for 64 read all of these.
constexpr int kSpareColumns = 64 - kColumns;

// What products need of a block beside its codes, of one column or of two side by side, since a lane of the mma has two: what most formats need of both is one load.
template <int columns>
struct alignas(16) AboutColumns {
  float scale[columns], float_sum[columns];  // float_sum: sum
  int32_t sum[columns], low_sum[columns];    // of all codes, of the first 16
};
using ColumnPair = AboutColumns<2>;

// Only the forms that the weights' formats need are present. A column has `blocks` blocks of 32 inputs, zeros past its end.
struct Activations {
  uint32_t* codes = nullptr;      // [columns / 8][blocks][8 columns][4][2]: word w of place t has inputs 16w + 4t .. + 3
  uint32_t* halves = nullptr;     // [columns / 8][blocks][8 columns][4][4]: words 2w and 2w + 1 of place t have inputs 16w + 4t .. + 3
  ColumnPair* about = nullptr;    // [columns / 8][blocks][4], with either of them
  uint32_t* brains = nullptr;     // [columns / 8][blocks][2][8 columns][4][4]: first parts, then remainders; place t has inputs 8t .. + 7
  float* wide = nullptr;          // [columns / 8][blocks * 8][8 columns][4]: place t has inputs 4t .. + 3
  int blocks = 0;
};

// Where an input of a column is in `wide`.
PACELINE_DEVICE size_t wide_place(int blocks, int column, int input) {
  return ((static_cast<size_t>(column / kColumns) * blocks * (kBlock / 4) + input / 4) * kColumns + column % kColumns) * 4 + input % 4;
}

// Where the four words for each of four lanes of a column's block are in `brains`; the remainders are kBrainRests further.
constexpr int kBrainWords = kBlock / 2, kBrainRests = kColumns * kBrainWords;
PACELINE_DEVICE size_t brain_place(int blocks, int column, int block) {
  return (static_cast<size_t>(column / kColumns) * blocks + block) * 2 * kBrainRests + column % kColumns * kBrainWords;
}

// The field-th word of a column in `about`, in the order of ColumnPair.
PACELINE_DEVICE uint32_t* about_word(const Activations& a, int column, int block, int field) {
  ColumnPair* const pair = a.about + (static_cast<size_t>(column / kColumns) * a.blocks + block) * (kColumns / 2) + column % kColumns / 2;
  return reinterpret_cast<uint32_t*>(pair) + 2 * field + column % 2;
}
constexpr int kAboutFields = 4;

// One block of one column by one warp: lane i has input i.
PACELINE_DEVICE void store_block(const Activations& out, int column, int block, float y) {
  const int lane = static_cast<int>(lane_index());
  if (out.wide) out.wide[wide_place(out.blocks, column, block * kBlock + lane)] = y;
  const size_t place = (static_cast<size_t>(column / kColumns) * out.blocks + block) * kColumns + column % kColumns;
  if (out.brains) {
    const TwoBrains parts = split_two(y, 0.0f);
    uint16_t* const to = reinterpret_cast<uint16_t*>(out.brains + brain_place(out.blocks, column, block)) + lane;
    to[0] = static_cast<uint16_t>(parts.first);
    to[2 * kBrainRests] = static_cast<uint16_t>(parts.rest);
  }
  if (!out.about) return;
  // y - y is NaN for an infinite or NaN input: then the block's scale is NaN and its codes are 0.
  const bool broken = any_of_warp(y - y != 0.0f);
  const float size = magnitude(y), peak = fold_larger(larger(size, shuffle(size, lane + kVirtual)));
  const bool tiny = !(peak > 1e-30f) || broken;  // 127 / peak must stay finite
  const int code = tiny ? 0 : nearest(y * (127.0f / peak));
  int sum = code;
  for (int width = 8; width > 0; width /= 2) sum += shuffle(sum, lane ^ width);
  const int low_sum = shuffle(sum, 0), high_sum = shuffle(sum, 16);
  uint32_t word = 0;
  for (int i = 0; i < 4; ++i) word |= static_cast<uint32_t>(shuffle(code, 4 * (lane % 8) + i) & 0xff) << 8 * i;
  if (out.codes && lane < 8) out.codes[(place * 4 + lane % 4) * 2 + lane / 4] = word;
  if (out.halves) reinterpret_cast<uint16_t*>(out.halves)[place * kBlock + lane % 16 / 4 * 8 + lane / 16 * 4 + lane % 4] = half_code(code);
  const float scale = broken ? __builtin_nanf("") : tiny ? 0.0f : peak / 127.0f;
  const int32_t all = low_sum + high_sum;
  const uint32_t field = lane == 0 ? float_to_bits(scale) : lane == 1 ? float_to_bits(static_cast<float>(all)) : static_cast<uint32_t>(lane == 2 ? all : low_sum);
  if (lane < kAboutFields) *about_word(out, column, block, lane) = field;
}

// The same of a block that four lanes have, lane t of each four inputs 4t .. 4t + 3 of both halves: its codes, and of the whole block the rest.
struct LaneBlock {
  int codes[8];
  float scale;
  int32_t low_sum, high_sum;
};
PACELINE_DEVICE LaneBlock quantize_lane(const float (&y)[8]) {
  const int lane = static_cast<int>(lane_index());
  float peak = 0.0f;
  int broken = 0;
  PACELINE_UNROLL
  for (int j = 0; j < 8; ++j) {
    broken |= y[j] - y[j] != 0.0f;
    peak = larger(magnitude(y[j]), peak);
  }
  for (int width = 1; width < 4; width *= 2) {
    broken |= shuffle(broken, lane ^ width);
    peak = larger(peak, shuffle(peak, lane ^ width));
  }
  const bool tiny = !(peak > 1e-30f) || broken;
  LaneBlock block = {{}, broken ? __builtin_nanf("") : tiny ? 0.0f : peak / 127.0f, 0, 0};
  PACELINE_UNROLL
  for (int j = 0; j < 8; ++j) {
    block.codes[j] = tiny ? 0 : nearest(y[j] * (127.0f / peak));
    (j < 4 ? block.low_sum : block.high_sum) += block.codes[j];
  }
  for (int width = 1; width < 4; width *= 2) {
    block.low_sum += shuffle(block.low_sum, lane ^ width);
    block.high_sum += shuffle(block.high_sum, lane ^ width);
  }
  return block;
}

}  // namespace paceline::cuda
