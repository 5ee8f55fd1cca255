// Products of integer weights: kernels for few columns, where a warp has segments, and for many, where it has a row tile. What they add of a unit of weights is in
// integer_tile.h, the order of segments in product.h.
#pragma once

#include "integer_tile.h"
#include "weight_stream.h"

namespace paceline::cuda {

template <int n>
PACELINE_DEVICE void clear(float (&acc)[n][4]) {
  PACELINE_UNROLL
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < 4; ++j) acc[i][j] = 0.0f;
}

// The sums of `tiles` row tiles, as add_segments() has them. add_units(segment, next, inputs, acc) adds a segment's units of the warp's own row tile.
template <Format f, int n, int tiles, class AddUnits>
PACELINE_DEVICE void sum_tiles(const Product& product, const OwnColumns& own, int kept, float* sums, float (&total)[kOwnOutputs<kColumns * n, tiles>], AddUnits add_units) {
  add_segments<kColumns * n, tiles, tiles>(product, kept, sums, total, [&](int segment, int next, float* to) {
    LaneInputs inputs[n];
    begin_inputs<f, n>(product.input, own.first, own.end - own.first, segment * kSegmentBlocks, inputs);
    float acc[n][4];
    clear(acc);
    add_units(segment, next, inputs, acc);
    PACELINE_UNROLL
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < 4; ++j) to[place_of_sum(i, j)] = acc[i][j];
  });
}

// The weights of a warp for few columns, streamed through shared memory.
template <Format f, int n, int tiles>
class TileWeights {
 public:
  PACELINE_DEVICE TileWeights(SharedMemory& memory, const Product& product, int first, int end, int step) : stream_(memory, product.blocks, first, end, step) {}
  template <class WeightsOf>
  PACELINE_DEVICE void begin(const Product&, WeightsOf weights_of) { stream_.begin(weights_of); }
  template <class WeightsOf>
  PACELINE_DEVICE void sum(const Product& product, const OwnColumns& own, int, WeightsOf weights_of, int kept, const uint32_t* grid, float* sums,
                           float (&total)[kOwnOutputs<kColumns * n, tiles>]) {
    sum_tiles<f, n, tiles>(product, own, kept, sums, total, [&](int segment, int, LaneInputs (&inputs)[n], float (&acc)[n][4]) {
      const int end = end_block(product, segment);
      PACELINE_UNROLL_BY(1)
      for (int b = segment * kSegmentBlocks; b < end; b += unit_tiles(f)) {
        Unit<f> unit;
        unit.template load<FromShared>(stream_.next(weights_of));
        add_unit<f, n>(unit, b, end, inputs, own.end - own.first, grid, acc);
      }
    });
  }

 private:
  WeightStream<f, tiles> stream_;
};

// For 64 columns, whose sums need the shared memory: loaded into registers, a unit while the one before is computed. `unit_` holds the first of the warp's first
// segment, and after each segment that of the next.
template <Format f, int tiles>
class TileWeights<f, 8, tiles> {
 public:
  PACELINE_DEVICE TileWeights(SharedMemory&, const Product& product, int first, int, int) : place_(first), segment_(first_segment<tiles>(product)) {}
  template <class WeightsOf>
  PACELINE_DEVICE void begin(const Product& product, WeightsOf weights_of) {
    if (segment_ < 0) return;
    const uint8_t* const weights = weights_of(place_);
    load_counted(unit_, segment_of<f>(weights, segment_));
    fetch_segment<f, 1>(weights, product.blocks, segment_);
  }
  template <class WeightsOf>
  PACELINE_DEVICE void sum(const Product& product, const OwnColumns& own, int place, WeightsOf weights_of, int kept, const uint32_t* grid, float* sums,
                           float (&total)[kOwnOutputs<kColumns * 8, tiles>]) {
    const uint8_t* const weights = weights_of(place);
    sum_tiles<f, 8, tiles>(product, own, kept, sums, total, [&](int segment, int next, LaneInputs (&inputs)[8], float (&acc)[8][4]) {
      const int end = end_block(product, segment);
      if (next >= 0) fetch_segment<f>(weights, product.blocks, next);
      const uint8_t* const next_place = next < 0 ? nullptr : segment_of<f>(weights, next);
      const uint8_t* at = segment_of<f>(weights, segment);
      for (int b = segment * kSegmentBlocks; b < end; b += unit_tiles(f)) {
        Unit<f> following;
        at = b + unit_tiles(f) < end ? at + device_unit_bytes(f) : next_place;
        if (at) load_counted(following, at);
        add_unit<f, 8>(unit_, b, end, inputs, own.end - own.first, grid, acc);
        unit_ = following;
      }
    });
  }

 private:
  Unit<f> unit_;
  int place_, segment_;
};

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
constexpr int resident_blocks(int n) { return n > 4 ? 1 : kStreamBlocks; }

// Row tiles to a block at a time.
constexpr int tiles_together(int n) { return n > 2 ? 2 : 1; }

// Shared memory of a block beside its sums.
template <Format f, int n>
constexpr size_t kBesideSums = kGridBytes<f> + (n > 4 ? 0 : kStreamRoom<f>);

// A block takes the row tiles, or pairs of them, at its own place and every `step` places on, below `end`.
template <Format f, int n>
PACELINE_KERNEL_FOR(kProductWarps * kWarp, resident_blocks(n)) integer_product(Product product, int kept, int end, int step) {
  constexpr int kMost = kColumns * n, kTiles = tiles_together(n);
  const int first = tile_place(product);
  const size_t row_bytes = device_row_tile_bytes(f, product.blocks);
  SharedMemory memory;
  float* const sums = memory.take<float>(static_cast<size_t>(kept) * kTiles * kTileRows * kMost);
  uint32_t* const grid = take_grid<f>(memory);
  TileWeights<f, n, kTiles> weights(memory, product, first, end, step);
  const auto weights_of = [&](const OwnColumns& columns) {
    return [&](int place) {
      const OwnTile own = own_tile(product, columns, place * kTiles + own_part<kTiles>());
      return own.weights + own.tile * row_bytes;
    };
  };
  const OwnColumns columns = begin_product(product, kMost, [&](const OwnColumns& own) {
    weights.begin(product, weights_of(own));
    fill_grid<f>(grid);
  });
  if (!columns.end) return;
  share_grid<f>();
  PACELINE_UNROLL_BY(1)
  for (int place = first; place < end; place += step) {
    float total[kOwnOutputs<kMost, kTiles>];
    weights.sum(product, columns, place, weights_of(columns), kept, grid, sums, total);
    PACELINE_UNROLL
    for (int t = 0; t < kTiles; ++t) store_tile<kMost>(product, own_tile(product, columns, place * kTiles + t), columns, total + t * kOwnOutputs<kMost, 1>);
  }
}

// For enough columns to fill the device: a block has 64 columns of eight row tiles, a warp one of the tiles with all of its segments.
template <Format f>
PACELINE_KERNEL_FOR(kProductWarps * kWarp, 1) wide_product(Product product) {
  constexpr int n = 8;
  const int place = tile_place(product) * kProductWarps + static_cast<int>(warp_index());
  const size_t row_bytes = device_row_tile_bytes(f, product.blocks);
  SharedMemory memory;
  uint32_t* const grid = take_grid<f>(memory);
  const OwnColumns columns = begin_product(product, kColumns * n, [&](const OwnColumns& own) {
    const OwnTile tile = own_tile(product, own, place);
    fetch_segment<f>(tile.weights + tile.tile * row_bytes, product.blocks, 0);
  });
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
      add_unit<f, n>(unit, b, end, inputs, columns.end - columns.first, grid, acc);
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
  constexpr size_t kBeside = kBesideSums<f, n>;
  const int kept = segments_kept(product.blocks, kTiles * kMost, kProductWarps / kTiles, kBeside), places = (all_tiles(product) + kTiles - 1) / kTiles;
  const int step = n > 4 ? places : blocks_for(product, places, (most_columns + kMost - 1) / kMost);
  launch("integer_product", integer_product<f, n>, grid_of(product, step, most_columns, kMost), kProductWarps * kWarp,
         static_cast<size_t>(kept) * kTiles * kTileRows * kMost * sizeof(float) + kBeside, stream, product, kept, places, step);
}

template <Format f>
void launch_many_columns(const Product& product, int most_columns, Stream stream) {
  const Grid grid = grid_of(product, (all_tiles(product) + kProductWarps - 1) / kProductWarps, most_columns, 64);
  if (!fills_device(product, grid, most_columns)) return launch_integer_product<f, 8>(product, most_columns, stream);
  launch("wide_product", wide_product<f>, grid, kProductWarps * kWarp, kGridBytes<f>, stream, product);
}

// 8, 16 or 32 columns per thread block, or 64 for more: a row tile is unpacked once for all columns of a block.
template <Format f>
void integer_product_of(const Product& product, int most_columns, Stream stream) {
  switch (columns_together(f, most_columns)) {
    case 8: return launch_integer_product<f, 1>(product, most_columns, stream);
    case 16: return launch_integer_product<f, 2>(product, most_columns, stream);
    case 32: return launch_integer_product<f, 4>(product, most_columns, stream);
    default: return launch_many_columns<f>(product, most_columns, stream);
  }
}

}  // namespace paceline::cuda
