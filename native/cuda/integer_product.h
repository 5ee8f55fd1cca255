// Products of integer weights: kernels for few columns, where a warp has segments, and for many, where it has a row tile. What they add of a unit of weights is in
// integer_tile.h, the order of segments in product.h.
#pragma once

#include "integer_tile.h"

namespace paceline::cuda {

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

// The table of a format with a grid, in shared memory; nothing for others. It is filled with a block's first loads, and read behind share_grid().
template <Format f>
constexpr size_t kGridBytes = has_grid(f) ? kGridWords<f> * sizeof(uint32_t) : 0;
template <Format f>
PACELINE_DEVICE uint32_t* take_grid(SharedMemory& memory) {
  if constexpr (!has_grid(f)) return nullptr;
  else return memory.take<uint32_t>(kGridWords<f>);
}
template <Format f>
PACELINE_DEVICE void fill_grid(uint32_t* grid) {
  if constexpr (has_grid(f))
    for (int i = static_cast<int>(thread_index()); i < kGridWords<f> / 4; i += kProductWarps * kWarp)
      reinterpret_cast<Word4*>(grid)[i] = reinterpret_cast<const Word4*>(device_grid<f>())[i];
}
template <Format f>
PACELINE_DEVICE void share_grid() {
  if constexpr (has_grid(f)) sync_block();
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
  SharedMemory memory;
  float* const sums = memory.take<float>(static_cast<size_t>(kept) * kTiles * kTileRows * kMost);
  uint32_t* const grid = take_grid<f>(memory);
  Unit<f> even;
  const auto begin = [&](const uint8_t* weights) {
    load_first(weights, product.blocks, segment, even);
    fill_grid<f>(grid);
  };
  begin_product(product, [&] { begin(weights_of({})); });
  const OwnColumns columns = own_columns(product, kMost);
  if (!columns.end) return;
  const uint8_t* const weights = weights_of(columns);
  if (!begins_early(product)) begin(weights);
  share_grid<f>();
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
  SharedMemory memory;
  uint32_t* const grid = take_grid<f>(memory);
  begin_product(product, [&] {
    const OwnTile tile = own_tile(product, {}, place);
    fetch_segment<f>(tile.weights + tile.tile * row_bytes, product.blocks, 0);
  });
  const OwnColumns columns = own_columns(product, kColumns * n);
  if (!columns.end) return;
  fill_grid<f>(grid);
  share_grid<f>();
  const OwnTile first_tile = own_tile(product, columns, place);
  const uint8_t* const weights = first_tile.weights + first_tile.tile * row_bytes;
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
  const OwnTile own = own_tile(product, columns, place);  // again, so that nothing of it takes registers meanwhile
  if (!own.out) return;
  PACELINE_UNROLL
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < 4; ++j)
      if (columns.first + column_of(i, j) < columns.end) store_output(product, own, columns.first + column_of(i, j), row_of(j), total[i][j]);
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

// 8 or 16 columns per thread block, or 64 for more: a row tile is unpacked once for all columns of a block.
template <Format f>
void integer_product_of(const Product& product, int most_columns, Stream stream) {
  switch (columns_together(f, most_columns)) {
    case 8: return launch_integer_product<f, 1>(product, most_columns, stream);
    case 16: return launch_integer_product<f, 2>(product, most_columns, stream);
    default: return launch_many_columns<f>(product, most_columns, stream);
  }
}

}  // namespace paceline::cuda
