// Integer weights by mma m16n8k32, or two m16n8k16 where a row has two scales. In a block of 32 the sum is an exact integer:
//   acc = fma(float(isum), d_w * d_a, acc); acc = fma(m_w, d_a * sum(a), acc) for formats with minimums
// Codes have their sign, or are biased: then the mma begins at -bias * sum(a). It begins at 1.5 * 2^23 besides, so that what it ends with is, read as a
// float, 12582912 + isum: one subtraction gives float(isum), where a conversion would take four times as long.
#pragma once

#include "product.h"
#include "unit.h"

namespace paceline::cuda {

constexpr int32_t kMagic = 0x4b400000;  // the bits of 12582912.0f; |isum| stays below 2^22

PACELINE_DEVICE float float_of(int32_t biased) { return bits_to_float(static_cast<uint32_t>(biased)) - 12582912.0f; }

// A lane's part of eight columns' activations, from the block on that a unit begins with.
struct LaneInputs {
  const uint32_t* codes;     // of column g
  const ColumnBlock* about;  // of columns 2t and 2t + 1
};

template <Format f, int n>
PACELINE_DEVICE void add_tile(const Unit<f>& unit, int k, const LaneInputs (&inputs)[n], int columns, const uint32_t* grid, float (&acc)[n][4]) {
  const int g = static_cast<int>(lane_index()) / 4;
  constexpr int kScales = layout(f).scales, kBias = device_bias(f);
  uint32_t a[4];
  unit.codes(k, a, grid);
  float scale[kScales][2], minimum[kScales][2];
  for (int half = 0; half < kScales; ++half)
    for (int upper = 0; upper < 2; ++upper) {
      scale[half][upper] = unit.scale(k, half, upper);
      minimum[half][upper] = unit.minimum(k, half, upper);
    }
  PACELINE_UNROLL
  for (int i = 0; i < n; ++i) {
    if (i > 0 && kColumns * i >= columns) continue;  // the same for all lanes: groups that are not there
    uint32_t b[2] = {0, 0};
    if (kColumns * i + g < columns) {
      const Word2 words = *reinterpret_cast<const Word2*>(inputs[i].codes + k * kColumns * 8);
      b[0] = words.v[0];
      b[1] = words.v[1];
    }
    const ColumnBlock left = inputs[i].about[k * kColumns], right = inputs[i].about[k * kColumns + 1];
    PACELINE_UNROLL
    for (int half = 0; half < kScales; ++half) {
      const int32_t left_sum = kScales == 1 ? left.sum : half == 0 ? left.low_sum : left.sum - left.low_sum;
      const int32_t right_sum = kScales == 1 ? right.sum : half == 0 ? right.low_sum : right.sum - right.low_sum;
      int32_t c[4];
      if constexpr (kScales == 1) mma_bytes_32<has_sign(f)>(c, a, b, kMagic - kBias * left_sum, kMagic - kBias * right_sum);
      else mma_bytes_16<has_sign(f)>(c, a + 2 * half, b[half], kMagic - kBias * left_sum, kMagic - kBias * right_sum);
      PACELINE_UNROLL
      for (int j = 0; j < 4; ++j) {
        const ColumnBlock& column = j % 2 ? right : left;
        acc[i][j] = fma(float_of(c[j]), scale[half][j / 2] * column.scale, acc[i][j]);
        if constexpr (layout(f).minimum) {
          const float scaled_sum = kScales == 1 ? column.scaled_sum : column.scale * static_cast<float>(j % 2 ? right_sum : left_sum);
          acc[i][j] = fma(minimum[half][j / 2], scaled_sum, acc[i][j]);
        }
      }
    }
  }
}

// A segment's sums of a row tile, by one warp. columns: of this block.
template <Format f, int n>
PACELINE_DEVICE void sum_segment_of(const uint8_t* row_tile, const Activations& input, int first_column, int columns, int first, int end, const uint32_t* grid,
                                    float* sums) {
  const int lane = static_cast<int>(lane_index()), g = lane / 4, t = lane % 4;
  LaneInputs inputs[n];
  PACELINE_UNROLL
  for (int i = 0; i < n; ++i) {
    const size_t place = (static_cast<size_t>(first_column / kColumns + i) * input.blocks + first) * kColumns;
    inputs[i] = {input.codes + ((place + g) * 4 + t) * 2, input.about + place + 2 * t};
  }
  float acc[n][4];
  PACELINE_UNROLL
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < 4; ++j) acc[i][j] = 0.0f;
  Unit<f> unit, next;
  const uint8_t* place = row_tile + first / unit_tiles(f) * device_unit_bytes(f);
  unit.load(place);
  for (int b = first; b < end; b += unit_tiles(f)) {
    place += device_unit_bytes(f);
    if (b + unit_tiles(f) < end) next.load(place);
    if (has_header(f) || b + unit_tiles(f) <= end) {  // of formats with a header, blocks fill units
      PACELINE_UNROLL
      for (int k = 0; k < unit_tiles(f); ++k) add_tile<f, n>(unit, k, inputs, columns, grid, acc);
    } else {
      PACELINE_UNROLL
      for (int k = 0; k < unit_tiles(f); ++k)
        if (b + k < end) add_tile<f, n>(unit, k, inputs, columns, grid, acc);
    }
    PACELINE_UNROLL
    for (int i = 0; i < n; ++i) {
      inputs[i].codes += unit_tiles(f) * kColumns * 8;
      inputs[i].about += unit_tiles(f) * kColumns;
    }
    unit = next;
  }
  PACELINE_UNROLL
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < 4; ++j) sums[(kColumns * i + 2 * t + j % 2) * kTileRows + g + 8 * (j / 2)] = acc[i][j];
}

// The table of IQ2_XXS in shared memory; nothing for others.
template <Format f>
constexpr size_t kGridBytes = has_grid(f) ? kGridWords * sizeof(uint32_t) : 0;
template <Format f>
PACELINE_DEVICE const uint32_t* take_grid(SharedMemory& memory) {
  if constexpr (!has_grid(f)) return nullptr;
  uint32_t* const grid = memory.take<uint32_t>(kGridWords);
  for (int i = static_cast<int>(thread_index()); i < kGridWords; i += kProductWarps * kWarp) grid[i] = kDeviceGrid.words[i];
  sync_block();
  return grid;
}

// Blocks of 256 threads that an SM is to have room for in its 64 Ki registers. With few columns it is memory that they wait for.
constexpr int resident_blocks(Format f, int n) { return n > 2 ? 1 : n == 1 && unit_tiles(f) == 4 ? 3 : 2; }

template <Format f, int n>
PACELINE_KERNEL_FOR(kProductWarps * kWarp, resident_blocks(f, n)) integer_product(Product product, int kept) {
  constexpr int kMost = kColumns * n;
  const size_t row_bytes = device_row_tile_bytes(f, product.blocks);
  begin_product(product, [&] {
    const OwnTile tile = own_tile(product, {});
    fetch_segment<f>(tile.weights + tile.tile * row_bytes, product.blocks, static_cast<int>(warp_index()));
  });
  const OwnColumns columns = own_columns(product, kMost);
  if (!columns.end) return;
  SharedMemory memory;
  float* const sums = memory.take<float>(static_cast<size_t>(kept) * kTileRows * kMost);
  const uint32_t* const grid = take_grid<f>(memory);
  const OwnTile own = own_tile(product, columns);
  const uint8_t* const weights = own.weights + own.tile * row_bytes;
  float total[kOwnOutputs<kMost, 1>];
  add_segments<kMost, 1>(product, kept, sums, total, [&](int, int first, int end, float* to) {
    sum_segment_of<f, n>(weights, product.input, columns.first, columns.end - columns.first, first, end, grid, to);
  }, [&](int, int segment) { fetch_segment<f>(weights, product.blocks, segment); });
  store_tile<kMost>(product, own, columns, total);
}

// Two row tiles of gate and the same of up: 32 outputs, which are a block of activations. No sum leaves the block.
template <Format f, int n>
PACELINE_KERNEL_FOR(kProductWarps * kWarp, resident_blocks(f, n)) gated_product(Product product, int kept) {
  constexpr int kMost = kColumns * n, kOutputs = kTileRows * kMost;
  const int pair = static_cast<int>(block_x());
  const size_t row_bytes = device_row_tile_bytes(f, product.blocks);
  begin_product(product, [&] {
    const int warp = static_cast<int>(warp_index());
    fetch_segment<f>(product.items[warp % 4 / 2].weights + (2 * pair + warp % 2) * row_bytes, product.blocks, warp / 4);
  });
  const OwnColumns columns = own_columns(product, kMost);
  if (!columns.end) return;
  SharedMemory memory;
  float* const sums = memory.take<float>(static_cast<size_t>(kept) * 4 * kOutputs);
  const uint32_t* const grid = take_grid<f>(memory);
  const OwnTile gate = tile_of(product, columns, 0, 2 * pair), up = tile_of(product, columns, 1, 2 * pair);
  float total[kOwnOutputs<kMost, 4>];
  const auto weights_of = [&](int tile) { return (tile < 2 ? gate.weights : up.weights) + (2 * pair + tile % 2) * row_bytes; };
  add_segments<kMost, 4>(product, kept, sums, total, [&](int tile, int first, int end, float* to) {
    sum_segment_of<f, n>(weights_of(tile), product.input, columns.first, columns.end - columns.first, first, end, grid, to);
  }, [&](int tile, int segment) { fetch_segment<f>(weights_of(tile), product.blocks, segment); });
  PACELINE_UNROLL
  for (int i = 0; i < kOwnOutputs<kMost, 4>; ++i) {
    const int output = static_cast<int>(thread_index()) + i * kProductWarps * kWarp;
    sums[output] = total[i] * (output < 2 * kOutputs ? gate.scale : up.scale);
  }
  sync_block();
  const int lane = static_cast<int>(lane_index());
  for (int c = static_cast<int>(warp_index()); c < kMost && columns.first + c < columns.end; c += kProductWarps) {
    const float* const own = sums + lane / kTileRows * kOutputs + c * kTileRows + lane % kTileRows;
    store_block(product.gated, columns.first + c, pair, gated(own[0], own[2 * kOutputs], product.gelu));
  }
}

template <Format f, int n>
void launch_integer_product(const Product& product, int most_columns, Stream stream) {
  const int kept = segments_kept(product.blocks, kColumns * n);
  launch("integer_product", integer_product<f, n>, product_grid(product, most_columns, kColumns * n), kProductWarps * kWarp,
         static_cast<size_t>(kept) * kTileRows * kColumns * n * sizeof(float) + kGridBytes<f>, stream, product, kept);
}

template <Format f, int n>
void launch_gated_product(const Product& product, int most_columns, Stream stream) {
  const int kept = segments_kept(product.blocks, 4 * kColumns * n);
  Grid grid = product_grid(product, most_columns, kColumns * n);
  grid.x /= 4;
  const size_t shared = static_cast<size_t>(kept) * 4 * kTileRows * kColumns * n * sizeof(float) + kGridBytes<f>;
  launch("gated_product", gated_product<f, n>, grid, kProductWarps * kWarp, shared, stream, product, kept);
}

// Eight columns, sixteen, or tiles of 64 for more: the weights of a row tile are unpacked once for all of a block's.
template <Format f>
void integer_product_of(const Product& product, int most_columns, Stream stream) {
  switch (columns_together(f, most_columns)) {
    case 8: return launch_integer_product<f, 1>(product, most_columns, stream);
    case 16: return launch_integer_product<f, 2>(product, most_columns, stream);
    default: return launch_integer_product<f, 8>(product, most_columns, stream);
  }
}

template <Format f>
void gated_product_of(const Product& product, int most_columns, Stream stream) {
  switch (columns_together(f, most_columns)) {
    case 8: return launch_gated_product<f, 1>(product, most_columns, stream);
    case 16: return launch_gated_product<f, 2>(product, most_columns, stream);
    default: return launch_gated_product<f, 8>(product, most_columns, stream);
  }
}

}  // namespace paceline::cuda
