// Products of integer weights: kernels for few columns, where a warp has segments, and for many, where it has a row tile. What they add of a unit of weights is in
// integer_tile.h, the order of segments in product.h.
#pragma once

#include "few_columns.h"
#include "own_totals.h"

namespace paceline::cuda {

template <Format f, int n, int rows>
PACELINE_KERNEL_FOR(kProductWarps * kWarp, kStreamBlocks) integer_product(Product product, Turns turns) {
  using Few = FewColumns<f, n, rows>;
  const size_t row_bytes = device_row_tile_bytes(f, product.blocks);
  SharedMemory memory;
  Few few(memory, product, turns);
  const auto weights_of = [&](const OwnColumns& columns) {
    return [&](int place, const uint8_t* (&weights)[Few::kRows]) {
      PACELINE_UNROLL
      for (int r = 0; r < Few::kRows; ++r) {
        const OwnTile own = own_tile(product, columns, place * turns.tiles + few.own_tile() + r);
        weights[r] = own.out ? own.weights + own.tile * row_bytes : nullptr;
      }
    };
  };
  const OwnColumns columns = begin_product(product, Few::kMost, [&](const OwnColumns& own) { few.begin(product, weights_of(own)); });
  if (!columns.end) return;
  few.take_inputs(product, columns);
  PACELINE_UNROLL_BY(1)
  for (int place = tile_place(product); place < turns.places; place += turns.step)
    few.sum(product, columns, weights_of(columns), [&](int output, float total) {
      const int column = columns.first + output % Few::kOutputs / kTileRows;
      if (column >= columns.end) return;
      const OwnTile own = own_tile(product, columns, place * turns.tiles + output / Few::kOutputs);
      if (own.out) store_output(product, own, column, output % kTileRows, total);
    });
}

template <Format f, int n, int rows>
void launch_few_columns(const Product& product, int tiles, int most_columns, Stream stream) {
  const Turns turns = turns_for<f, n, rows>(product, tiles, (all_tiles(product) + tiles - 1) / tiles, most_columns);
  launch("integer_product", integer_product<f, n, rows>, grid_of(product, turns.step, most_columns, FewColumns<f, n, rows>::kMost), kProductWarps * kWarp,
         shared_bytes<f, n, rows>(product, turns.tiles, turns.kept), stream, product, turns);
}

// Two row tiles to a warp take it fewer instructions, so many in place of one (sm_90a). With few row tiles they would leave too many warps idle; of 16 columns the inputs,
// shared, matter more.
constexpr double kTimeOfTwo = 0.88;

template <Format f, int n>
void launch_few_columns(const Product& product, int most_columns, Stream stream) {
  constexpr int kRows = most_rows<f, n>();
  const Together together = tiles_together<f, n, kRows>(product, most_columns);
  if constexpr (kRows == 2 && n == 1) {
    const Together apart = tiles_together<f, n, 1>(product, most_columns);
    if (apart.time < kTimeOfTwo * together.time) return launch_few_columns<f, n, 1>(product, apart.tiles, most_columns, stream);
  }
  launch_few_columns<f, n, kRows>(product, together.tiles, most_columns, stream);
}

// The sums of `tiles` row tiles of up to 64 columns, as add_segments() has them. Their sums need the shared memory, so weights are loaded into registers, a unit while the
// one before is computed: `unit` is the first of the warp's first segment. weights: of the warp's row tile.
template <Format f, int tiles>
PACELINE_DEVICE void sum_tiles(const Product& product, const OwnColumns& own, const uint8_t* weights, int kept, const uint32_t* grid, Units<f, 2>& unit, float* sums,
                               float (&total)[kOwnOutputs<64, tiles>]) {
  constexpr int n = 8;
  add_segments<kColumns * n, tiles, tiles>(product, kept, sums, total, [&](int segment, int next, float* to) {
    LaneInputs inputs[n];
    begin_inputs<f, n>(product.input, own.first, own.end - own.first, segment * kSegmentBlocks, inputs);
    float acc[1][n][4];
    clear(acc);
    const int end = end_block(product, segment);
    if (next >= 0) fetch_segment<f>(weights, product.blocks, next);
    const uint8_t* const next_place = next < 0 ? nullptr : segment_of<f>(weights, next);
    const uint8_t* at = segment_of<f>(weights, segment);
    const auto add = [&](int columns) {
      PACELINE_UNROLL_BY(1)
      for (int b = segment * kSegmentBlocks; b < end; b += unit_tiles(f)) {
        Units<f, 2> following;
        at = b + unit_tiles(f) < end ? at + device_unit_bytes(f) : next_place;
        if (at) load_counted(following.unit[0], at);
        add_units<f>(unit, b, end, inputs, columns, grid, acc);
        unit = following;
      }
    };
    if (own.end - own.first > kMostlyPresent) add(kColumns * n);  // without branches between groups, inputs are loaded ahead
    else add(own.end - own.first);
    PACELINE_UNROLL
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < 4; ++j) to[place_of_sum(i, j)] = acc[0][i][j];
  });
}
// Loads that first unit, and prefetches what follows it.
template <Format f, int tiles>
PACELINE_DEVICE void begin_tiles(const Product& product, const uint8_t* weights, Units<f, 2>& unit) {
  const int segment = first_segment<tiles>(product);
  if (segment < 0) return;
  load_counted(unit.unit[0], segment_of<f>(weights, segment));
  fetch_segment<f, 1>(weights, product.blocks, segment);
}

// Up to 64 columns of two row tiles, whose warps read the same inputs at the same time.
template <Format f>
PACELINE_KERNEL_FOR(kProductWarps * kWarp, 1) product_of_64(Product product, int kept) {
  constexpr int kMost = 64, kTiles = 2;
  const int first = tile_place(product) * kTiles;
  const size_t row_bytes = device_row_tile_bytes(f, product.blocks);
  SharedMemory memory;
  float* const sums = memory.take<float>(static_cast<size_t>(kept) * kTiles * kTileRows * kMost);
  uint32_t* const grid = take_grid<f>(memory);
  const auto weights_of = [&](const OwnColumns& columns) {
    const OwnTile own = own_tile(product, columns, first + own_part<kTiles>());
    return own.weights + own.tile * row_bytes;
  };
  Units<f, 2> unit;
  const OwnColumns columns = begin_product(product, kMost, [&](const OwnColumns& own) {
    begin_tiles<f, kTiles>(product, weights_of(own), unit);
    fill_grid<f>(grid);
  });
  if (!columns.end) return;
  if constexpr (has_grid(f)) sync_block();
  float total[kOwnOutputs<kMost, kTiles>];
  sum_tiles<f, kTiles>(product, columns, weights_of(columns), kept, grid, unit, sums, total);
  store_tiles<kMost, kTiles>(product, columns, total, [&](int t) { return own_tile(product, columns, first + t); });
}

template <Format f>
void launch_64_columns(const Product& product, int most_columns, Stream stream) {
  constexpr int kMost = 64, kTiles = 2;
  const int kept = segments_kept(product.blocks, kTiles * kMost, kProductWarps / kTiles, kGridBytes<f>);
  launch("product_of_64", product_of_64<f>, grid_of(product, (all_tiles(product) + kTiles - 1) / kTiles, most_columns, kMost), kProductWarps * kWarp,
         static_cast<size_t>(kept) * kTiles * kTileRows * kMost * sizeof(float) + kGridBytes<f>, stream, product, kept);
}

// For enough columns to fill the device: a block has 64 columns of eight or sixteen row tiles, a warp one or two of these with all of their segments. Two share the inputs that
// are loaded; a unit of 24 words for each leaves too few registers.
template <Format f>
constexpr int kWideRows = unit_words(f) > 20 ? 1 : 2;

// The sums of a warp's own row tiles of up to 64 columns, of all their segments -> the block's columns, if there are any. weights_of(columns, r): the r-th one's; null: none, if
// it is for the first. A block's warps take their segments in step.
template <Format f, int rows, class WeightsOf>
PACELINE_DEVICE OwnColumns sum_row_tiles(const Product& product, WeightsOf weights_of, uint32_t* grid, OwnTotals<rows>& totals) {
  constexpr int n = 8;
  const OwnColumns columns = begin_product(product, kColumns * n, [&](const OwnColumns& own) {
    for (int r = 0; r < rows && weights_of(own, 0); ++r) fetch_segment<f>(weights_of(own, r), product.blocks, 0);
  });
  if (!columns.end) return columns;
  fill_grid<f>(grid);
  if constexpr (has_grid(f)) sync_block();
  const uint8_t* weights[rows];
  for (int r = 0; r < rows; ++r) weights[r] = weights_of(columns, r);
  LaneInputs inputs[n];
  begin_inputs<f, n>(product.input, columns.first, columns.end - columns.first, 0, inputs);
  for (int first = 0; first < product.blocks; first += kSegmentBlocks) {
    const int end = first + kSegmentBlocks < product.blocks ? first + kSegmentBlocks : product.blocks, segment = first / kSegmentBlocks;
    sync_block();  // keeps the warps in step: they read the same inputs, while these are in L1
    if (!weights[0]) continue;
    if (end < product.blocks)
      for (int r = 0; r < rows; ++r) fetch_segment<f>(weights[r], product.blocks, segment + 1);
    float acc[rows][n][4];
    clear(acc);
    const auto add = [&](int present) {
      size_t from = static_cast<size_t>(segment) * kSegmentBytes<f>;
      PACELINE_UNROLL_BY(1)
      for (int b = first; b < end; b += unit_tiles(f), from += device_unit_bytes(f)) {
        Units<f, 2, rows> units;
        PACELINE_UNROLL
        for (int r = 0; r < rows; ++r) load_counted(units.unit[r], weights[r] + from);
        add_units<f>(units, b, end, inputs, present, grid, acc);
      }
    };
    if (columns.end - columns.first > kMostlyPresent) add(kColumns * n);
    else add(columns.end - columns.first);
    totals.add(acc, first == 0);
  }
  return columns;
}

template <Format f>
PACELINE_KERNEL_FOR(kProductWarps * kWarp, 1) wide_product(Product product) {
  constexpr int kRows = kWideRows<f>;
  const int place = (tile_place(product) * kProductWarps + static_cast<int>(warp_index())) * kRows;
  const size_t row_bytes = device_row_tile_bytes(f, product.blocks);
  SharedMemory memory;
  OwnTotals<kRows> totals(memory);
  uint32_t* const grid = take_grid<f>(memory);
  const auto weights_of = [&](const OwnColumns& columns, int r) -> const uint8_t* {
    const OwnTile own = own_tile(product, columns, place + r);
    return own.out || r ? own.weights + own.tile * row_bytes : nullptr;  // past the end the last one again, beside one that is there
  };
  const OwnColumns columns = sum_row_tiles<f>(product, weights_of, grid, totals);
  if (!columns.end) return;
  for (int r = 0; r < kRows; ++r) {
    const OwnTile own = own_tile(product, columns, place + r);  // again, so that nothing of it takes registers meanwhile
    if (!own.out) return;
    PACELINE_UNROLL
    for (int i = 0; i < 8; ++i)
      for (int j = 0; j < 4; ++j)
        if (columns.first + column_of(i, j) < columns.end) store_output(product, own, columns.first + column_of(i, j), row_of(j), totals.get(r, i, j));
  }
}

template <Format f>
void launch_many_columns(const Product& product, int most_columns, Stream stream) {
  constexpr int kTiles = kProductWarps * kWideRows<f>;
  const Grid grid = grid_of(product, (all_tiles(product) + kTiles - 1) / kTiles, most_columns, 64);
  if (!fills_device(product, grid, most_columns)) return launch_64_columns<f>(product, most_columns, stream);
  launch("wide_product", wide_product<f>, grid, kProductWarps * kWarp, OwnTotals<kWideRows<f>>::kBytes + kGridBytes<f>, stream, product);
}

// 1, 8, 16 or 32 columns per thread block, or 64 for more: a row tile is unpacked once for all columns of a block.
template <Format f>
void integer_product_of(const Product& product, int most_columns, Stream stream) {
  switch (columns_together(f, most_columns)) {
    case 8: return most_columns == 1 && fits_alone<f>(product) ? launch_few_columns<f, kAlone>(product, 1, stream) : launch_few_columns<f, 1>(product, most_columns, stream);
    case 16: return launch_few_columns<f, 2>(product, most_columns, stream);
    case 32: return launch_few_columns<f, 4>(product, most_columns, stream);
    default: return launch_many_columns<f>(product, most_columns, stream);
  }
}

}  // namespace paceline::cuda
