// Products of integer weights: kernels for few columns, where a warp has segments, and for many, where it has a row tile. What they add of a unit of weights is in
// integer_tile.h, the order of segments in product.h.
#pragma once

#include "integer_tile.h"
#include "weight_stream.h"

namespace paceline::cuda {

template <int n, int sums>
PACELINE_DEVICE void clear(float (&acc)[n][sums]) {
  PACELINE_UNROLL
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < sums; ++j) acc[i][j] = 0.0f;
}

// In place of a number of groups of columns: a column that is alone.
constexpr int kAlone = 0;
constexpr int groups_of(int n) { return n == kAlone ? 1 : n; }

// A block's inputs: groups of eight columns in global memory, which the warps read from L1 in the layout of the mma.
template <Format f, int n>
struct BlockInputs {
  using Lane = LaneInputs;
  static constexpr size_t bytes(int) { return 0; }  // of shared memory
  PACELINE_DEVICE BlockInputs(SharedMemory&, int) {}
  PACELINE_DEVICE void take(const Product&, const OwnColumns&) {}
  PACELINE_DEVICE void begin(const Product& product, const OwnColumns& own, int segment, Lane (&inputs)[n]) const {
    begin_inputs<f, n>(product.input, own.first, own.end - own.first, segment * kSegmentBlocks, inputs);
  }
};

// One column, in shared memory: all of it is on its way at once, where warps that read a segment after the other would wait for L2 at each; and in the layout for
// eight columns it would take as many lines of L1 as eight do.
template <Format f>
struct BlockInputs<f, kAlone> {
  using Lane = OneInput<f>;
  static constexpr int kWords = 4 * input_words(f);  // of a block's codes
  static constexpr size_t bytes(int blocks) { return (static_cast<size_t>(blocks) * (kWords * sizeof(uint32_t) + sizeof(AboutOne<f>)) + 15) / 16 * 16; }
  PACELINE_DEVICE BlockInputs(SharedMemory& memory, int blocks) : codes(memory.take<uint32_t>(static_cast<size_t>(blocks) * kWords)), about(memory.take<AboutOne<f>>(blocks)) {}

  // By all threads of the block, which must meet before they read.
  PACELINE_DEVICE void take(const Product& product, const OwnColumns& own) {
    const Activations& input = product.input;
    const size_t first = product.one_input ? 0 : static_cast<size_t>(own.first / kColumns) * input.blocks;
    const uint32_t* const from = (by_halves(f) ? input.halves : input.codes) + first * kColumns * kWords;
    PACELINE_UNROLL_BY(4)
    for (int i = static_cast<int>(thread_index()); i < input.blocks * (kWords / 4); i += kProductWarps * kWarp)
      reinterpret_cast<Word4*>(codes)[i] = *reinterpret_cast<const Word4*>(from + i / (kWords / 4) * kColumns * kWords + i % (kWords / 4) * 4);
    PACELINE_UNROLL_BY(2)
    for (int i = static_cast<int>(thread_index()); i < input.blocks; i += kProductWarps * kWarp) {
      const ColumnPair* const pair = input.about + (first + i) * (kColumns / 2);
      const Word4 scales = *reinterpret_cast<const Word4*>(pair->scale);
      if constexpr (kNeedsSums<f>) {
        const Word4 sums = *reinterpret_cast<const Word4*>(pair->sum);
        reinterpret_cast<Word4*>(about)[i] = {scales.v[0], scales.v[2], sums.v[0], sums.v[2]};
      } else {
        reinterpret_cast<Word2*>(about)[i] = {scales.v[0], scales.v[2]};
      }
    }
  }
  PACELINE_DEVICE void begin(const Product&, const OwnColumns&, int segment, Lane (&inputs)[1]) const {
    const int first = segment * kSegmentBlocks;
    inputs[0] = {codes + first * kWords + static_cast<int>(lane_index()) % 4 * input_words(f), about + first};
  }

  uint32_t* codes;          // [blocks][kWords]
  AboutOne<f>* about;       // [blocks]
};

// The sums of `tiles` row tiles, as add_segments() has them. add_units(segment, next, lane's inputs, acc) adds a segment's units of the warp's own row tile.
template <Format f, int n, int tiles, class AddUnits>
PACELINE_DEVICE void sum_tiles(const Product& product, const OwnColumns& own, const BlockInputs<f, n>& block, int kept, float* sums,
                               float (&total)[kOwnOutputs<kColumns * groups_of(n), tiles>], AddUnits add_units) {
  constexpr int kGroups = groups_of(n), kOwn = BlockInputs<f, n>::Lane::kOwn;
  add_segments<kColumns * kGroups, tiles, tiles>(product, kept, sums, total, [&](int segment, int next, float* to) {
    typename BlockInputs<f, n>::Lane inputs[kGroups];
    block.begin(product, own, segment, inputs);
    Sums<kOwn> acc[kGroups];
    clear(acc);
    add_units(segment, next, inputs, acc);
    if constexpr (kOwn == 1) {
      const int lane = static_cast<int>(lane_index());
      if (lane % 4 < 2) to[spread_over_banks(lane / 4 + 8 * (lane % 2))] = acc[0][0];
    } else {
      PACELINE_UNROLL
      for (int i = 0; i < kGroups; ++i)
        for (int j = 0; j < kOwn * kOwn; ++j) to[place_of_sum(i, j)] = acc[i][j];
    }
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
  PACELINE_DEVICE void sum(const Product& product, const OwnColumns& own, const BlockInputs<f, n>& block, int, WeightsOf weights_of, int kept, const uint32_t* grid, float* sums,
                           float (&total)[kOwnOutputs<kColumns * groups_of(n), tiles>]) {
    sum_tiles<f, n, tiles>(product, own, block, kept, sums, total, [&](int segment, int, auto& inputs, auto& acc) {
      const int end = end_block(product, segment);
      PACELINE_UNROLL_BY(1)
      for (int b = segment * kSegmentBlocks; b < end; b += unit_tiles(f)) {
        Unit<f, BlockInputs<f, n>::Lane::kOwn> unit;
        unit.template load<FromShared>(stream_.next(weights_of));
        add_unit<f>(unit, b, end, inputs, own.end - own.first, grid, acc);
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
  PACELINE_DEVICE void sum(const Product& product, const OwnColumns& own, const BlockInputs<f, 8>& block, int place, WeightsOf weights_of, int kept, const uint32_t* grid,
                           float* sums, float (&total)[kOwnOutputs<kColumns * 8, tiles>]) {
    const uint8_t* const weights = weights_of(place);
    sum_tiles<f, 8, tiles>(product, own, block, kept, sums, total, [&](int segment, int next, auto& inputs, auto& acc) {
      const int end = end_block(product, segment);
      if (next >= 0) fetch_segment<f>(weights, product.blocks, next);
      const uint8_t* const next_place = next < 0 ? nullptr : segment_of<f>(weights, next);
      const uint8_t* at = segment_of<f>(weights, segment);
      for (int b = segment * kSegmentBlocks; b < end; b += unit_tiles(f)) {
        Unit<f> following;
        at = b + unit_tiles(f) < end ? at + device_unit_bytes(f) : next_place;
        if (at) load_counted(following, at);
        add_unit<f>(unit_, b, end, inputs, own.end - own.first, grid, acc);
        unit_ = following;
      }
    });
  }

 private:
  Unit<f> unit_;
  int place_, segment_;
};

// The table of a format with a grid, in shared memory; nothing for others. It is filled with a block's first loads, and read behind a sync_block().
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
// How many blocks of 256 threads must fit an SM's 64 Ki registers at once. With few columns they are memory-bound.
constexpr int resident_blocks(int n) { return n > 4 ? 1 : kStreamBlocks; }

// Row tiles to a block at a time. Experts' matrices are many and often have so few segments that one row tile would not be work for all warps.
constexpr int tiles_together(int n, bool lists) { return n > 2 ? 2 : lists ? 4 : 1; }

// Shared memory of a block beside its sums.
template <Format f, int n>
constexpr size_t kBesideSums = kGridBytes<f> + (n > 4 ? 0 : kStreamRoom<f>);

// A block takes the row tiles, or pairs of them, at its own place and every `step` places on, below `end`.
template <Format f, int n, int kTiles>
PACELINE_KERNEL_FOR(kProductWarps * kWarp, resident_blocks(n)) integer_product(Product product, int kept, int end, int step) {
  constexpr int kMost = kColumns * groups_of(n);
  const int first = tile_place(product);
  const size_t row_bytes = device_row_tile_bytes(f, product.blocks);
  SharedMemory memory;
  float* const sums = memory.take<float>(static_cast<size_t>(kept) * kTiles * kTileRows * kMost);
  uint32_t* const grid = take_grid<f>(memory);
  BlockInputs<f, n> inputs(memory, product.blocks);
  TileWeights<f, n, kTiles> weights(memory, product, first, end, step);
  const auto weights_of = [&](const OwnColumns& columns) {
    return [&](int place) {
      const OwnTile own = own_tile(product, columns, place * kTiles + own_part<kTiles>());
      return n <= 4 && !own.out ? nullptr : own.weights + own.tile * row_bytes;
    };
  };
  const OwnColumns columns = begin_product(product, kMost, [&](const OwnColumns& own) {
    weights.begin(product, weights_of(own));
    fill_grid<f>(grid);
  });
  if (!columns.end) return;
  inputs.take(product, columns);
  if constexpr (has_grid(f) || n == kAlone) sync_block();
  PACELINE_UNROLL_BY(1)
  for (int place = first; place < end; place += step) {
    float total[kOwnOutputs<kMost, kTiles>];
    weights.sum(product, columns, inputs, place, weights_of(columns), kept, grid, sums, total);
    store_tiles<kMost, kTiles>(product, columns, total, [&](int t) { return own_tile(product, columns, place * kTiles + t); });
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
  if constexpr (has_grid(f)) sync_block();
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
      add_unit<f>(unit, b, end, inputs, columns.end - columns.first, grid, acc);
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

// Shared memory beside the sums: whether there is room for a column's inputs and the sums of a segment for each warp.
template <Format f>
bool fits_alone(const Product& product) {
  constexpr size_t kSums = static_cast<size_t>(kProductWarps) * kTileRows * kColumns * sizeof(float);
  static_assert(kBesideSums<f, kAlone> + BlockInputs<f, kAlone>::bytes(kAloneBlocks) + kSums <= kMostShared);
  return kBesideSums<f, kAlone> + BlockInputs<f, kAlone>::bytes(product.blocks) + kSums <= kMostShared;
}

template <Format f, int n, int kTiles>
void launch_tiles(const Product& product, int most_columns, Stream stream) {
  constexpr int kMost = kColumns * groups_of(n);
  const size_t beside = kBesideSums<f, n> + BlockInputs<f, n>::bytes(product.blocks);
  const int kept = segments_kept(product.blocks, kTiles * kMost, kProductWarps / kTiles, beside), places = (all_tiles(product) + kTiles - 1) / kTiles;
  const int step = n > 4 ? places : blocks_for(product, places, (most_columns + kMost - 1) / kMost);
  launch("integer_product", integer_product<f, n, kTiles>, grid_of(product, step, most_columns, kMost), kProductWarps * kWarp,
         static_cast<size_t>(kept) * kTiles * kTileRows * kMost * sizeof(float) + beside, stream, product, kept, places, step);
}

template <Format f, int n>
void launch_integer_product(const Product& product, int most_columns, Stream stream) {
  if (product.lists) launch_tiles<f, n, tiles_together(n, true)>(product, most_columns, stream);
  else launch_tiles<f, n, tiles_together(n, false)>(product, most_columns, stream);
}

template <Format f>
void launch_many_columns(const Product& product, int most_columns, Stream stream) {
  const Grid grid = grid_of(product, (all_tiles(product) + kProductWarps - 1) / kProductWarps, most_columns, 64);
  if (!fills_device(product, grid, most_columns)) return launch_integer_product<f, 8>(product, most_columns, stream);
  launch("wide_product", wide_product<f>, grid, kProductWarps * kWarp, kGridBytes<f>, stream, product);
}

// 1, 8, 16 or 32 columns per thread block, or 64 for more: a row tile is unpacked once for all columns of a block.
template <Format f>
void integer_product_of(const Product& product, int most_columns, Stream stream) {
  switch (columns_together(f, most_columns)) {
    case 8: return most_columns == 1 && fits_alone<f>(product) ? launch_integer_product<f, kAlone>(product, 1, stream) : launch_integer_product<f, 1>(product, most_columns, stream);
    case 16: return launch_integer_product<f, 2>(product, most_columns, stream);
    case 32: return launch_integer_product<f, 4>(product, most_columns, stream);
    default: return launch_many_columns<f>(product, most_columns, stream);
  }
}

}  // namespace paceline::cuda
