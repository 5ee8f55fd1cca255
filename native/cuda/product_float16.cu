// Products of 16-bit float weights, by bfloat16 mma m16n8k16 at any number of columns. An fma per weight and column, as for float32 (product_float32.cu), would
// be the bottleneck from 16 columns on, and dominate a prefill (docs/cuda.md).
//
// An input is split into two bfloat16, x = first + rest, with a relative error of at most 2^-17. An F16 weight is split likewise but without loss, two weights
// of a register at a time; the product of the two rests is omitted, at most 2^-16 of the full product. In steps of 16 inputs, ascending; which inputs form a
// step is given by the layout (layout.h), the same for all rows and columns:
//
//   acc = mma(w, rest, acc); acc = mma(w, first, acc)           and for F16 before them acc = mma(rest of w, first, acc)
//
// Segments as in all products. How an mma rounds internally is undocumented, so the bits differ from the CPU's; but an output's bits depend only on its own row
// and column, wherever these are in a tile.
#include "own_totals.h"

namespace paceline::cuda {
namespace {

constexpr int kTileBytes = kTileRows * kBlock * 2;
static_assert(kTileBytes == device_unit_bytes(Format::BF16) && kTileBytes == device_unit_bytes(Format::F16));

// A lane's weights of one block of a row tile, as stored (layout.h).
struct Words {
  Word4 mma[2];
  PACELINE_DEVICE void load(const uint8_t* p) {
    mma[0] = load_once(p);
    mma[1] = load_once(p + kTileBytes / 2);
  }
};

// The A operands of a block's two mma.
template <Format f>
struct Operands {
  Word4 first[2], rest[f == Format::F16 ? 2 : 1];

  PACELINE_DEVICE explicit Operands(const Words& words) {
    PACELINE_UNROLL
    for (int m = 0; m < 2; ++m) {
      if constexpr (f == Format::BF16) {
        first[m] = words.mma[m];
      } else {
        PACELINE_UNROLL
        for (int w = 0; w < 4; ++w) {
          const uint32_t two = words.mma[m].v[w];
          const TwoBrains parts = split_two(half_to_float(static_cast<uint16_t>(two)), half_to_float(static_cast<uint16_t>(two >> 16)));
          first[m].v[w] = parts.first;
          rest[m].v[w] = parts.rest;
        }
      }
    }
  }
};

template <Format f>
PACELINE_DEVICE void add_block(const Operands<f>& a, const Word4& first, const Word4& rest, float (&acc)[4]) {
  PACELINE_UNROLL
  for (int m = 0; m < 2; ++m) {
    if constexpr (f == Format::F16) mma_brains(acc, a.rest[m].v, first.v + 2 * m);
    mma_brains(acc, a.first[m].v, rest.v + 2 * m);
    mma_brains(acc, a.first[m].v, first.v + 2 * m);
  }
}

// A lane's inputs of all groups of eight columns, from block `first` on. For columns past the end others are read, or none's (kSpareColumns): their sums are not stored.
struct LaneInputs {
  const uint32_t* x;
  size_t next_group;  // words

  PACELINE_DEVICE LaneInputs(const Activations& input, const OwnColumns& columns, int first) {
    x = input.brains + brain_place(input.blocks, columns.first, first) + lane_index() * 4;
    next_group = columns.end - columns.first > kColumns ? static_cast<size_t>(input.blocks) * kColumns * kBlock : 0;
  }
};

// Adds a block of `tiles` row tiles to the sums of all columns; advances `inputs` past it. load_next() loads other blocks: after the first products, because before
// them all loads so far are waited for.
template <Format f, int n, int tiles, class LoadNext>
PACELINE_DEVICE void add_blocks(const Words (&words)[tiles], LaneInputs& inputs, int columns, float (&acc)[tiles][n][4], LoadNext load_next) {
  const auto each_group = [&](const Operands<f>* a) {
    PACELINE_UNROLL
    for (int i = 0; i < n; ++i) {
      if (n <= 2 || i == 0 || kColumns * i < columns) {  // absent groups; uniform across the warp
        const uint32_t* const from = inputs.x + i * inputs.next_group;
        const Word4 first = *reinterpret_cast<const Word4*>(from), rest = *reinterpret_cast<const Word4*>(from + kBrainRests);
        PACELINE_UNROLL
        for (int t = 0; t < tiles; ++t) add_block<f>(a[t], first, rest, acc[t][i]);
      }
      if (i == 0) load_next();
    }
  };
  if constexpr (tiles == 1) {
    const Operands<f> a[1] = {Operands<f>(words[0])};
    each_group(a);
  } else {
    const Operands<f> a[2] = {Operands<f>(words[0]), Operands<f>(words[1])};
    each_group(a);
  }
  inputs.x += kColumns * kBlock;
}

// Sums a segment of `tiles` row tiles, by one warp; advances `inputs` to the next. weights: each tile's, from the segment's first block. Blocks are loaded in two
// batches in turn: one is on its way while the other is computed.
template <Format f, int n, int tiles, int batch>
PACELINE_DEVICE void sum_segment(const uint8_t* const (&weights)[tiles], LaneInputs& inputs, int columns, int blocks, float (&acc)[tiles][n][4]) {
  const size_t own = lane_index() * 16;
  Words words[2][batch][tiles];
  const auto load = [&](int turn, int first) {
    PACELINE_UNROLL
    for (int l = 0; l < batch; ++l) {
      if (first + l >= blocks) continue;
      if (lane_index() == 0) count_weights(tiles * kTileBytes);
      for (int t = 0; t < tiles; ++t) words[turn][l][t].load(weights[t] + static_cast<size_t>(first + l) * kTileBytes + own);
    }
  };
  PACELINE_UNROLL
  for (int t = 0; t < tiles; ++t)
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < 4; ++j) acc[t][i][j] = 0.0f;
  load(0, 0);
  const auto add = [&](int present) {
    PACELINE_UNROLL_BY(1)
    for (int first = 0; first < blocks; first += 2 * batch) {
      PACELINE_UNROLL
      for (int l = 0; l < 2 * batch; ++l) {
        if (first + l >= blocks) continue;
        const int turn = l / batch;
        add_blocks<f>(words[turn][l % batch], inputs, present, acc, [&] {
          if (l % batch == 0) load(1 - turn, first + l + batch);
        });
      }
    }
  };
  if (n == 8 && columns > kMostlyPresent) add(kColumns * n);  // without branches between groups, inputs are loaded ahead
  else add(columns);
}

// The row tiles of a warp or a block; past the end, the last tile again with its results discarded.
template <int tiles>
struct OwnTiles {
  OwnTile own[tiles];
  const uint8_t* weights[tiles];

  PACELINE_DEVICE OwnTiles(const Product& product, const OwnColumns& columns, int place) {
    PACELINE_UNROLL
    for (int t = 0; t < tiles; ++t) {
      own[t] = own_tile(product, columns, place + t);
      weights[t] = own[t].weights + static_cast<size_t>(own[t].tile) * product.blocks * kTileBytes;
    }
  }
  // Without a dynamic index, for which the compiler would need local memory.
  PACELINE_DEVICE const uint8_t* at(int t) const { return tiles == 2 && t ? weights[tiles - 1] : weights[0]; }
};

// Row tiles per block: one, or two for many columns. A warp takes `at_once` of them: both where there are enough segments for all warps, so that inputs are
// loaded once for two tiles.
constexpr int tiles_of_block(int n) { return n > 2 ? 2 : 1; }
constexpr int resident_blocks(int n) { return n > 4 ? 1 : 2; }

template <Format f, int n, int at_once>
PACELINE_KERNEL_FOR(kProductWarps * kWarp, resident_blocks(n)) product_of_16_bits(Product product, int kept) {
  constexpr int kMost = kColumns * n, kTiles = tiles_of_block(n), kParts = kTiles / at_once, kBatch = at_once == 1 ? 2 : 1;
  const int place = tile_place(product) * kTiles;
  const int own = own_part<kParts>() * at_once;
  const auto fetch = [&](const OwnTiles<kTiles>& tiles, int segment) {
    PACELINE_UNROLL
    for (int t = 0; t < at_once; ++t) fetch_segment<f>(tiles.at(own + t), product.blocks, segment);
  };
  const OwnColumns columns = begin_product(product, kMost, [&](const OwnColumns& own_columns) {
    const int segment = first_segment<kParts>(product);
    if (segment >= 0) fetch(OwnTiles<kTiles>(product, own_columns, place), segment);
  });
  if (!columns.end) return;
  SharedMemory memory;
  float* const sums = memory.take<float>(static_cast<size_t>(kept) * kTiles * kTileRows * kMost);
  const OwnTiles<kTiles> tiles(product, columns, place);
  float total[kOwnOutputs<kMost, kTiles>];
  add_segments<kMost, kTiles, kParts>(product, kept, sums, total, [&](int segment, int next, float* to) {
    if (next >= 0) fetch(tiles, next);
    const int first = segment * kSegmentBlocks;
    const uint8_t* weights[at_once];
    PACELINE_UNROLL
    for (int t = 0; t < at_once; ++t) weights[t] = segment_of<f>(tiles.at(own + t), segment);
    LaneInputs inputs(product.input, columns, first);
    float acc[at_once][n][4];
    sum_segment<f, n, at_once, kBatch>(weights, inputs, columns.end - columns.first, end_block(product, segment) - first, acc);
    PACELINE_UNROLL
    for (int t = 0; t < at_once; ++t)
      for (int i = 0; i < n; ++i)
        for (int j = 0; j < 4; ++j) to[t * kMost * kTileRows + place_of_sum(i, j)] = acc[t][i][j];
  });
  store_tiles<kMost, kTiles>(product, columns, total, [&](int t) { return tiles.own[t]; });
}

// For enough columns to fill the device: a block has 64 columns of sixteen row tiles, a warp two of the tiles with all of their segments.
template <Format f>
PACELINE_KERNEL_FOR(kProductWarps * kWarp, 1) wide_product_of_16_bits(Product product) {
  constexpr int n = 8, kTiles = 2;
  const int place = (tile_place(product) * kProductWarps + static_cast<int>(warp_index())) * kTiles;
  const auto fetch = [&](const OwnTiles<kTiles>& tiles, int segment) {
    PACELINE_UNROLL
    for (int t = 0; t < kTiles; ++t) fetch_segment<f>(tiles.weights[t], product.blocks, segment);
  };
  const OwnColumns columns = begin_product(product, kColumns * n, [&](const OwnColumns& own) { fetch(OwnTiles<kTiles>(product, own, place), 0); });
  if (!columns.end) return;
  const OwnTiles<kTiles> tiles(product, columns, place);
  LaneInputs inputs(product.input, columns, 0);
  SharedMemory memory;
  OwnTotals<kTiles> totals(memory);
  PACELINE_UNROLL_BY(1)
  for (int first = 0; first < product.blocks; first += kSegmentBlocks) {
    const int end = first + kSegmentBlocks < product.blocks ? first + kSegmentBlocks : product.blocks;
    sync_block();  // keeps the warps in step: they read the same inputs, while these are in L1
    if (!tiles.own[0].out) continue;
    if (end < product.blocks) fetch(tiles, first / kSegmentBlocks + 1);
    const uint8_t* weights[kTiles];
    PACELINE_UNROLL
    for (int t = 0; t < kTiles; ++t) weights[t] = tiles.weights[t] + static_cast<size_t>(first) * kTileBytes;
    float acc[kTiles][n][4];
    sum_segment<f, n, kTiles, 1>(weights, inputs, columns.end - columns.first, end - first, acc);
    totals.add(acc, first == 0);
  }
  PACELINE_UNROLL
  for (int t = 0; t < kTiles; ++t) {
    if (!tiles.own[t].out) continue;
    PACELINE_UNROLL
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < 4; ++j)
        if (columns.first + column_of(i, j) < columns.end) store_output(product, tiles.own[t], columns.first + column_of(i, j), row_of(j), totals.get(t, i, j));
  }
}

template <Format f, int n, int at_once>
void launch_product(const Product& product, int most_columns, Stream stream) {
  constexpr int kMost = kColumns * n, kTiles = tiles_of_block(n);
  const int kept = segments_kept(product.blocks, kTiles * kMost, kProductWarps * at_once / kTiles);
  const Grid grid = grid_of(product, (all_tiles(product) + kTiles - 1) / kTiles, most_columns, kMost);
  launch("product_of_16_bits", product_of_16_bits<f, n, at_once>, grid, kProductWarps * kWarp,
         static_cast<size_t>(kept) * kTiles * kTileRows * kMost * sizeof(float), stream, product, kept);
}

template <Format f>
void product_of(const Product& product, int most_columns, Stream stream) {
  switch (columns_together(f, most_columns)) {
    case 8: return launch_product<f, 1, 1>(product, most_columns, stream);
    case 16: return launch_product<f, 2, 1>(product, most_columns, stream);
    case 32:
      if (segments_of(product.blocks) < kProductWarps) return launch_product<f, 4, 1>(product, most_columns, stream);
      return launch_product<f, 4, 2>(product, most_columns, stream);
    default: break;
  }
  constexpr int kTiles = 2 * kProductWarps;
  const Grid grid = grid_of(product, (all_tiles(product) + kTiles - 1) / kTiles, most_columns, 64);
  if (fills_device(product, grid, most_columns))
    return launch("wide_product_of_16_bits", wide_product_of_16_bits<f>, grid, kProductWarps * kWarp, OwnTotals<2>::kBytes, stream, product);
  if (segments_of(product.blocks) < kProductWarps) return launch_product<f, 8, 1>(product, most_columns, stream);
  launch_product<f, 8, 2>(product, most_columns, stream);
}

}  // namespace

void float16_product(Format format, const Product& product, int most_columns, Stream stream) {
  if (format == Format::F16) product_of<Format::F16>(product, most_columns, stream);
  else product_of<Format::BF16>(product, most_columns, stream);
}

}  // namespace paceline::cuda
