// Integer weights by mma m16n8k32, or two m16n8k16 where a row has two scales. In a block of 32 the sum is an exact integer:
//   acc = fma(float(isum), d_w * d_a, acc); acc = fma(m_w, d_a * sum(a), acc) for formats with minimums
// and with two scales
//   sum = fma(float(isum_high), d_high, float(isum_low) * d_low), then its minimums; acc = fma(sum, d_a, acc)
// Codes are signed, or biased: then the accumulator starts at -bias * sum(a). Added to its start are the bits of the float 1.5 * 2^23, so that the result, read
// as a float, is 12582912 + isum: one subtraction gives float(isum), where a conversion would take four times as long.
//
// NVFP4's weights are unpacked to halves that include their scales, and codes of activations are halves too: a sum of 16 products has at most 19 significant
// bits, so a floating-point mma gives isum * d without rounding, in whatever order it adds.
#pragma once

#include "product.h"
#include "unit.h"

namespace paceline::cuda {

// float(isum), of 2^shift * isum.
PACELINE_DEVICE float float_of(int32_t biased, int shift) {
  const float sum = bits_to_float(static_cast<uint32_t>(biased)), unit = 1.0f / static_cast<float>(1 << shift);
  return shift ? fma(sum, unit, -12582912.0f * unit) : sum - 12582912.0f;
}

// Words of a lane's inputs in a block.
constexpr int input_words(Format f) { return by_halves(f) ? 4 : 2; }

// A lane's part of eight columns' activations, from a unit's first block on.
struct LaneInputs {
  const uint32_t* codes;    // of column g, bytes or halves
  const ColumnPair* about;  // of columns 2t and 2t + 1
};

template <Format f>
PACELINE_DEVICE void load_inputs(const LaneInputs& inputs, int k, uint32_t (&b)[input_words(f)]) {
  const uint32_t* const from = inputs.codes + k * kColumns * 4 * input_words(f);
  if constexpr (by_halves(f)) {
    const Word4 words = *reinterpret_cast<const Word4*>(from);
    for (int w = 0; w < 4; ++w) b[w] = words.v[w];
  } else {
    const Word2 words = *reinterpret_cast<const Word2*>(from);
    for (int w = 0; w < 2; ++w) b[w] = words.v[w];
  }
}

// What the format needs of a pair of columns, in one load or two: left to itself, the compiler makes a load of each number.
template <Format f>
PACELINE_DEVICE ColumnPair load_pair(const ColumnPair* from) {
  constexpr bool kTwoScales = layout(f).scales == 2, kMinimum = layout(f).minimum;
  ColumnPair pair;
  if constexpr (by_halves(f) || (device_bias(f) == 0 && !(kMinimum && kTwoScales))) {
    for (int i = 0; i < 2; ++i) pair.sum[i] = pair.low_sum[i] = 0;
  } else if constexpr (kTwoScales) {
    const Word4 words = *reinterpret_cast<const Word4*>(from->sum);
    for (int i = 0; i < 2; ++i) pair.sum[i] = static_cast<int32_t>(words.v[i]), pair.low_sum[i] = static_cast<int32_t>(words.v[2 + i]);
  } else {
    const Word2 words = *reinterpret_cast<const Word2*>(from->sum);
    for (int i = 0; i < 2; ++i) pair.sum[i] = static_cast<int32_t>(words.v[i]);
  }
  if constexpr (kMinimum && !kTwoScales) {
    const Word4 words = *reinterpret_cast<const Word4*>(from->scale);
    for (int i = 0; i < 2; ++i) pair.scale[i] = bits_to_float(words.v[i]), pair.scaled_sum[i] = bits_to_float(words.v[2 + i]);
  } else {
    const Word2 words = *reinterpret_cast<const Word2*>(from->scale);
    for (int i = 0; i < 2; ++i) pair.scale[i] = bits_to_float(words.v[i]);
  }
  return pair;
}

template <Format f>
struct Scales {
  float scale[layout(f).scales][2], minimum[layout(f).scales][2];

  PACELINE_DEVICE Scales(const Unit<f>& unit, int k) {
    for (int half = 0; half < layout(f).scales; ++half)
      for (int upper = 0; upper < 2; ++upper) {
        scale[half][upper] = unit.scale(k, half, upper);
        minimum[half][upper] = unit.minimum(k, half, upper);
      }
  }
};

// A row has one scale in a block.
template <Format f>
PACELINE_DEVICE void add_one_scale(const uint32_t (&a)[4], int shift, const Scales<f>& w, const uint32_t (&b)[2], const ColumnPair& x, float (&acc)[4]) {
  const int bias = device_bias(f) << shift;
  int32_t c[4];
  mma_bytes_32<has_sign(f)>(c, a, b, kMagic - bias * x.sum[0], kMagic - bias * x.sum[1]);
  PACELINE_UNROLL
  for (int j = 0; j < 4; ++j) {
    acc[j] = fma(float_of(c[j], shift), w.scale[0][j / 2] * x.scale[j % 2], acc[j]);
    if constexpr (layout(f).minimum) acc[j] = fma(w.minimum[0][j / 2], x.scaled_sum[j % 2], acc[j]);
  }
}

// A row has two.
template <Format f>
PACELINE_DEVICE void add_two_scales(const uint32_t (&a)[4], int shift, const Scales<f>& w, const uint32_t (&b)[2], const ColumnPair& x, float (&acc)[4]) {
  const int bias = device_bias(f) << shift;
  const int32_t high_sum[2] = {x.sum[0] - x.low_sum[0], x.sum[1] - x.low_sum[1]};
  int32_t low[4], high[4];
  mma_bytes_16<has_sign(f)>(low, a, b[0], kMagic - bias * x.low_sum[0], kMagic - bias * x.low_sum[1]);
  mma_bytes_16<has_sign(f)>(high, a + 2, b[1], kMagic - bias * high_sum[0], kMagic - bias * high_sum[1]);
  PACELINE_UNROLL
  for (int j = 0; j < 4; ++j) {
    float sum = fma(float_of(high[j], shift), w.scale[1][j / 2], float_of(low[j], shift) * w.scale[0][j / 2]);
    if constexpr (layout(f).minimum) {
      sum = fma(w.minimum[0][j / 2], static_cast<float>(x.low_sum[j % 2]), sum);
      sum = fma(w.minimum[1][j / 2], static_cast<float>(high_sum[j % 2]), sum);
    }
    acc[j] = fma(sum, x.scale[j % 2], acc[j]);
  }
}

template <Format f, int n>
PACELINE_DEVICE void add_tile(const Unit<f>& unit, int k, const LaneInputs (&inputs)[n], int columns, const uint32_t* grid, float (&acc)[n][4]) {
  const auto each_group = [&](auto add) {
    PACELINE_UNROLL
    for (int i = 0; i < n; ++i) {
      if (n > 2 && i > 0 && kColumns * i >= columns) continue;  // absent groups; uniform across the warp
      uint32_t b[input_words(f)];
      load_inputs<f>(inputs[i], k, b);
      add(b, load_pair<f>(inputs[i].about + k * (kColumns / 2)), acc[i]);
    }
  };
  if constexpr (by_halves(f)) {
    uint32_t a[2][4];
    unit.halves(k, a);
    each_group([&](const uint32_t (&b)[4], const ColumnPair& x, float (&to)[4]) {
      float low[4], high[4];
      mma_halves(low, a[0], b);
      mma_halves(high, a[1], b + 2);
      for (int j = 0; j < 4; ++j) to[j] = fma(low[j] + high[j], x.scale[j % 2], to[j]);
    });
  } else {
    uint32_t a[4];
    unit.codes(k, a, grid);
    const Scales<f> scales(unit, k);
    each_group([&](const uint32_t (&b)[2], const ColumnPair& x, float (&to)[4]) {
      if constexpr (layout(f).scales == 1) add_one_scale<f>(a, code_shift(f, k), scales, b, x, to);
      else add_two_scales<f>(a, code_shift(f, k), scales, b, x, to);
    });
  }
}

// Points a lane's inputs at block `first`, a unit's first. columns: how many this thread block has.
template <Format f, int n>
PACELINE_DEVICE void begin_inputs(const Activations& input, int first_column, int columns, int first, LaneInputs (&inputs)[n]) {
  const int lane = static_cast<int>(lane_index()), g = lane / 4, t = lane % 4;
  PACELINE_UNROLL
  for (int i = 0; i < n; ++i) {
    // A column past the end reads the last one again; its sums are not stored.
    const int group = kColumns * i < columns ? i : (columns - 1) / kColumns, last = columns - 1 - kColumns * group;
    const size_t place = (static_cast<size_t>(first_column / kColumns + group) * input.blocks + first) * kColumns;
    inputs[i] = {(by_halves(f) ? input.halves : input.codes) + ((place + (g < last ? g : last)) * 4 + t) * input_words(f), input.about + place / 2 + t};
  }
}

// Adds the tiles of a unit that begins with block b; advances `inputs` past it. end: of the row's blocks, or more. load_next() loads another unit: after the first
// product, because before it all loads so far are waited for.
template <Format f, int n, class LoadNext>
PACELINE_DEVICE void add_unit(const Unit<f>& unit, int b, int end, LaneInputs (&inputs)[n], int columns, const uint32_t* grid, float (&acc)[n][4], LoadNext load_next) {
  add_tile<f, n>(unit, 0, inputs, columns, grid, acc);
  load_next();
  if (has_header(f) || b + unit_tiles(f) <= end) {  // formats with a header have full units only
    PACELINE_UNROLL
    for (int k = 1; k < unit_tiles(f); ++k) add_tile<f, n>(unit, k, inputs, columns, grid, acc);
  } else {
    PACELINE_UNROLL
    for (int k = 1; k < unit_tiles(f); ++k)
      if (b + k < end) add_tile<f, n>(unit, k, inputs, columns, grid, acc);
  }
  PACELINE_UNROLL
  for (int i = 0; i < n; ++i) {
    inputs[i].codes += unit_tiles(f) * kColumns * 4 * input_words(f);
    inputs[i].about += unit_tiles(f) * (kColumns / 2);
  }
}

template <Format f>
PACELINE_DEVICE void load_counted(Unit<f>& unit, const uint8_t* place) {
  if (lane_index() == 0) count_weights(device_unit_bytes(f));
  unit.load(place);
}

template <int n>
PACELINE_DEVICE void clear(float (&acc)[n][4]) {
  PACELINE_UNROLL
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < 4; ++j) acc[i][j] = 0.0f;
}

// The sums of `tiles` row tiles, as add_segments() has them. weights: the warp's own row tile. A unit is loaded while another is computed: `even` holds the first
// of the warp's first segment, if it has one, and after each segment that of the next: only a row's last segment may have an odd number of units.
template <Format f, int n, int tiles>
PACELINE_DEVICE void sum_tiles(const Product& product, const uint8_t* weights, const OwnColumns& own, Unit<f>& even, int kept, const uint32_t* grid, float* sums,
                               float (&total)[kOwnOutputs<kColumns * n, tiles>]) {
  add_segments<kColumns * n, tiles, tiles>(product, kept, sums, total, [&](int segment, int next, float* to) {
    constexpr int kUnit = unit_tiles(f);
    const int columns = own.end - own.first, first = segment * kSegmentBlocks, end = end_block(product, segment);
    if (next >= 0) fetch_segment<f>(weights, product.blocks, next);
    LaneInputs inputs[n];
    begin_inputs<f, n>(product.input, own.first, columns, first, inputs);
    float acc[n][4];
    clear(acc);
    const uint8_t* const next_place = next < 0 ? nullptr : segment_of<f>(weights, next);
    const uint8_t* place = segment_of<f>(weights, segment);
    const auto load_after = [&](Unit<f>& unit, int b) {
      place = b + kUnit < end ? place + device_unit_bytes(f) : next_place;
      if (place) load_counted(unit, place);
    };
    if constexpr (n > 2) {  // a unit takes long, so that copying the next one costs little
      for (int b = first; b < end; b += kUnit) {
        Unit<f> following;
        load_after(following, b);
        add_unit<f, n>(even, b, end, inputs, columns, grid, acc, [] {});
        even = following;
      }
    } else {
      Unit<f> odd;
      for (int b = first; b < end; b += 2 * kUnit) {
        add_unit<f, n>(even, b, end, inputs, columns, grid, acc, [&] { load_after(odd, b); });
        if (b + kUnit < end) add_unit<f, n>(odd, b + kUnit, end, inputs, columns, grid, acc, [&] { load_after(even, b + kUnit); });
      }
    }
    PACELINE_UNROLL
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < 4; ++j) to[place_of_sum(i, j)] = acc[i][j];
  });
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

// How many blocks of 256 threads must fit an SM's 64 Ki registers at once. With few columns they are memory-bound.
constexpr int resident_blocks(Format f, int n) { return n > 2 ? 1 : n == 1 && unit_tiles(f) == 4 ? 3 : 2; }

// Row tiles to a block.
constexpr int tiles_together(int n) { return n > 2 ? 2 : 1; }

// Loads the first unit of a warp's first segment, and prefetches the rest.
template <Format f>
PACELINE_DEVICE void load_first(const uint8_t* weights, int blocks, int segment, Unit<f>& even) {
  if (segment < 0) return;
  load_counted(even, segment_of<f>(weights, segment));
  fetch_segment<f, 1>(weights, blocks, segment);
}

template <Format f, int n>
PACELINE_KERNEL_FOR(kProductWarps * kWarp, resident_blocks(f, n)) integer_product(Product product, int kept) {
  constexpr int kMost = kColumns * n, kTiles = tiles_together(n);
  const int place = tile_place(product) * kTiles, segment = first_segment<kTiles>(product);
  const size_t row_bytes = device_row_tile_bytes(f, product.blocks);
  const auto weights_of = [&](const OwnColumns& columns) {
    const OwnTile own = own_tile(product, columns, place + own_part<kTiles>());
    return own.weights + own.tile * row_bytes;
  };
  Unit<f> even;
  begin_product(product, [&] { load_first(weights_of({}), product.blocks, segment, even); });
  const OwnColumns columns = own_columns(product, kMost);
  if (!columns.end) return;
  SharedMemory memory;
  float* const sums = memory.take<float>(static_cast<size_t>(kept) * kTiles * kTileRows * kMost);
  const uint32_t* const grid = take_grid<f>(memory);
  const uint8_t* const weights = weights_of(columns);
  if (!begins_early(product)) load_first(weights, product.blocks, segment, even);
  float total[kOwnOutputs<kMost, kTiles>];
  sum_tiles<f, n, kTiles>(product, weights, columns, even, kept, grid, sums, total);
  PACELINE_UNROLL
  for (int t = 0; t < kTiles; ++t) store_tile<kMost>(product, own_tile(product, columns, place + t), columns, total + t * kOwnOutputs<kMost, 1>);
}

// For enough columns to fill the device: a block has 64 columns of eight row tiles, a warp one of the tiles with all of its segments.
template <Format f>
PACELINE_KERNEL_FOR(kProductWarps * kWarp, 1) wide_product(Product product) {
  constexpr int n = 8;
  const int place = tile_place(product) * kProductWarps + static_cast<int>(warp_index());
  const size_t row_bytes = device_row_tile_bytes(f, product.blocks);
  begin_product(product, [&] {
    const OwnTile tile = own_tile(product, {}, place);
    fetch_segment<f>(tile.weights + tile.tile * row_bytes, product.blocks, 0);
  });
  const OwnColumns columns = own_columns(product, kColumns * n);
  if (!columns.end) return;
  SharedMemory memory;
  const uint32_t* const grid = take_grid<f>(memory);
  const OwnTile own = own_tile(product, columns, place);
  const uint8_t* const weights = own.weights + own.tile * row_bytes;
  LaneInputs inputs[n];
  begin_inputs<f, n>(product.input, columns.first, columns.end - columns.first, 0, inputs);
  float total[n][4];
  clear(total);
  for (int first = 0; first < product.blocks; first += kSegmentBlocks) {
    const int end = first + kSegmentBlocks < product.blocks ? first + kSegmentBlocks : product.blocks;
    sync_block();  // keeps the warps in step: they read the same inputs, while these are in L1
    if (end < product.blocks) fetch_segment<f>(weights, product.blocks, first / kSegmentBlocks + 1);
    float acc[n][4];
    clear(acc);
    const uint8_t* from = segment_of<f>(weights, first / kSegmentBlocks);
    for (int b = first; b < end; b += unit_tiles(f), from += device_unit_bytes(f)) {
      Unit<f> unit;
      load_counted(unit, from);
      add_unit<f, n>(unit, b, end, inputs, columns.end - columns.first, grid, acc, [] {});
    }
    PACELINE_UNROLL
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < 4; ++j) total[i][j] = total[i][j] + acc[i][j];
  }
  if (!own.out) return;
  PACELINE_UNROLL
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < 4; ++j)
      if (columns.first + column_of(i, j) < columns.end) store_output(product, own, columns.first + column_of(i, j), row_of(j), total[i][j]);
}

// Two row tiles of gate and the same two of up: 32 outputs, which make one block of activations. No sum leaves the thread block.
template <Format f, int n>
PACELINE_KERNEL_FOR(kProductWarps * kWarp, resident_blocks(f, n)) gated_product(Product product, int kept) {
  constexpr int kMost = kColumns * n, kOutputs = kTileRows * kMost;
  const int pair = tile_place(product), part = own_part<4>(), segment = first_segment<4>(product);
  const size_t row_bytes = device_row_tile_bytes(f, product.blocks);
  const auto weights_of = [&](const uint8_t* matrix) { return matrix + (2 * pair + part % 2) * row_bytes; };
  Unit<f> even;
  begin_product(product, [&] { load_first(weights_of(product.items[part / 2].weights), product.blocks, segment, even); });
  const OwnColumns columns = own_columns(product, kMost);
  if (!columns.end) return;
  SharedMemory memory;
  float* const sums = memory.take<float>(static_cast<size_t>(kept) * 4 * kOutputs);
  const uint32_t* const grid = take_grid<f>(memory);
  const OwnTile gate = tile_of(product, columns, 0, 2 * pair), up = tile_of(product, columns, 1, 2 * pair);
  const uint8_t* const weights = weights_of(part < 2 ? gate.weights : up.weights);
  if (!begins_early(product)) load_first(weights, product.blocks, segment, even);
  float total[kOwnOutputs<kMost, 4>];
  sum_tiles<f, n, 4>(product, weights, columns, even, kept, grid, sums, total);
  PACELINE_UNROLL
  for (int i = 0; i < kOwnOutputs<kMost, 4>; ++i) {
    const int output = static_cast<int>(thread_index()) + i * kProductWarps * kWarp;
    sums[output ^ (output / kOutputs % 2 * kTileRows)] = total[i] * (output < 2 * kOutputs ? gate.scale : up.scale);  // the two halves of a block in different banks
  }
  sync_block();
  const int lane = static_cast<int>(lane_index());
  for (int c = static_cast<int>(warp_index()); c < kMost && columns.first + c < columns.end; c += kProductWarps) {
    const float* const own = sums + ((lane / kTileRows * kOutputs + c * kTileRows + lane % kTileRows) ^ (lane / kTileRows * kTileRows));
    store_block(product.gated, columns.first + c, pair, gated(own[0], own[2 * kOutputs], product.gelu));
  }
}

template <Format f, int n>
void launch_integer_product(const Product& product, int most_columns, Stream stream) {
  constexpr int kMost = kColumns * n, kTiles = tiles_together(n);
  const int kept = segments_kept(product.blocks, kTiles * kMost);
  const Grid grid = grid_of(product, (all_tiles(product) + kTiles - 1) / kTiles, most_columns, kMost);
  launch("integer_product", integer_product<f, n>, grid, kProductWarps * kWarp,
         static_cast<size_t>(kept) * kTiles * kTileRows * kMost * sizeof(float) + kGridBytes<f>, stream, product, kept);
}

template <Format f>
void launch_many_columns(const Product& product, int most_columns, Stream stream) {
  const Grid grid = grid_of(product, (all_tiles(product) + kProductWarps - 1) / kProductWarps, most_columns, 64);
  if (!fills_device(product, grid, most_columns)) return launch_integer_product<f, 8>(product, most_columns, stream);
  launch("wide_product", wide_product<f>, grid, kProductWarps * kWarp, kGridBytes<f>, stream, product);
}

template <Format f, int n>
void launch_gated_product(const Product& product, int most_columns, Stream stream) {
  const int kept = segments_kept(product.blocks, 4 * kColumns * n);
  const Grid grid = grid_of(product, all_tiles(product) / 4, most_columns, kColumns * n);
  const size_t shared = static_cast<size_t>(kept) * 4 * kTileRows * kColumns * n * sizeof(float) + kGridBytes<f>;
  launch("gated_product", gated_product<f, n>, grid, kProductWarps * kWarp, shared, stream, product, kept);
}

// 8 or 16 columns per thread block, or 64 for more: a row tile is unpacked once for all columns of a block.
template <Format f>
void integer_product_of(const Product& product, int most_columns, Stream stream) {
  switch (columns_together(f, most_columns)) {
    case 8: return launch_integer_product<f, 1>(product, most_columns, stream);
    case 16: return launch_integer_product<f, 2>(product, most_columns, stream);
    default: return launch_many_columns<f>(product, most_columns, stream);
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
