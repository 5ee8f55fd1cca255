// Products: outputs of some matrices that share inputs and format, for any number of columns (tokens). The summation order of one output is the CPU's
// (native/cpu/integer_product.h), whatever the number of columns, blocks and warps:
//
//   total = 0; for each segment of 512 inputs, ascending: total = total + (the segment's own sum from zero, blocks ascending)
//
// A thread block computes a row tile (16 outputs) of up to 8 * N columns at a time. Its warps take segments in turn; a warp reads its weights once, keeps further
// loads in flight while it computes, and leaves the sums of its segments in shared memory, where they are added in ascending order. So a matrix of 4096 x 4096 keeps
// 2048 warps busy for a single column. With few columns a block takes row tiles in turn, one to eight at a time, and their integer weights stream through shared
// memory; for up to 16 columns a warp may have two of these (few_columns.h). With many it owns two row tiles, and where there are enough columns to fill most of the
// device, eight or sixteen: each warp then has one or two tiles and all of their segments. For then most of what a block reads is activations, and its warps read the
// same ones at the same time.
//
// For experts, a block's columns are those of one expert, from a list built on the device (experts.cu).
#pragma once

#include "activations.h"
#include "layout.h"

namespace paceline::cuda {

constexpr int kProductWarps = 8;
constexpr int kMostItems = 4;
constexpr int kAloneBlocks = 256;  // of inputs: a column that is alone fits into shared memory, whatever the format

struct ExpertWeights {
  const uint8_t* weights;
  const float* bias;
  float scale;
};

// Columns first .. end - 1 are an expert's; first is a multiple of kColumns.
struct ExpertColumns {
  int expert, first, end;
};

struct ProductItem {
  const uint8_t* weights = nullptr;  // [tiles] row tiles
  float* out = nullptr;              // [columns][stride], this matrix's outputs from here
  float scale = 1.0f;
  int tiles = 0;
  const ExpertWeights* experts = nullptr;  // [experts] in place of weights, bias and scale, on the device
  const float* bias = nullptr;             // [16 * tiles], added to the outputs; null: none
};

// Inputs that are an RMSNorm of a column that is alone, which each block then computes for itself: x [size] / rms(x) * weight.
struct InputNorm {
  const float* x = nullptr;      // null: the inputs are activations as they are
  const float* weight = nullptr;
  float epsilon = 0.0f;
  int size = 0;
};

struct Product {
  ProductItem items[kMostItems];
  int count = 0;                 // of items; all have `blocks` blocks of 32 inputs
  int blocks = 0;
  Activations input;
  // Of one column, and of integer matrices of kAloneBlocks blocks at most:
  InputNorm norm;                // in place of `input`
  bool one_input = false;        // for experts: `input` is that column, not at its places
  const int* columns = nullptr;  // their number, on the device; for experts, the number of lists
  const ExpertColumns* lists = nullptr;  // for experts: the columns of a block, at most experts_together() each
  int most_lists = 0;
  int stride = 0;                // floats from one column's outputs to the next's
  bool add = false;              // the outputs are added to what `out` holds
  int multiprocessors = 0;       // to plan for; 0: the device's own
  Activation activation = Activation::Silu;  // of gated products, whose items are gate and up
  Activations gated;             // the output of gated products
};

// One source file per group of formats, so that they compile in parallel. most_columns: how many columns the grid is sized for.
void integer_product_32(Format format, const Product& product, int most_columns, Stream stream);
void integer_product_256(Format format, const Product& product, int most_columns, Stream stream);
void integer_product_grid(Format format, const Product& product, int most_columns, Stream stream);
void float16_product(Format format, const Product& product, int most_columns, Stream stream);
void float32_product(const Product& product, int most_columns, Stream stream);
// The activation of gate and up, as inputs of the next product; both matrices must have the same integer format.
void gated_product_32(Format format, const Product& product, int most_columns, Stream stream);
void gated_product_256(Format format, const Product& product, int most_columns, Stream stream);
void gated_product_grid(Format format, const Product& product, int most_columns, Stream stream);

inline void run_product(Format format, const Product& product, int most_columns, Stream stream) {
  if (format == Format::F32) float32_product(product, most_columns, stream);
  else if (by_brains(format)) float16_product(format, product, most_columns, stream);
  else if (has_grid(format)) integer_product_grid(format, product, most_columns, stream);
  else if (layout(format).header_bytes) integer_product_256(format, product, most_columns, stream);
  else integer_product_32(format, product, most_columns, stream);
}

inline void run_gated_product(Format format, const Product& product, int most_columns, Stream stream) {
  if (has_grid(format)) gated_product_grid(format, product, most_columns, stream);
  else if (layout(format).header_bytes) gated_product_256(format, product, most_columns, stream);
  else gated_product_32(format, product, most_columns, stream);
}

constexpr int segments_of(int blocks) { return (blocks + kSegmentBlocks - 1) / kSegmentBlocks; }

// How many segments' sums a block keeps in shared memory: all, or what fits, then a multiple of `step`. columns: of all row tiles of a block; beside: bytes of
// shared memory for other things; most: for the sums.
constexpr size_t kMostSums = 48 << 10;
constexpr int segments_kept(int blocks, int columns, int step, size_t beside, size_t most) {
  const int segments = segments_of(blocks), size = kTileRows * columns * static_cast<int>(sizeof(float));
  const int room = static_cast<int>(most + beside <= kMostShared ? most : kMostShared - beside) / size;
  return segments <= room ? segments : room / step * step;
}
// Large sums: a block has its SM to itself, and its warps should have equal work.
constexpr int segments_kept(int blocks, int columns, int step, size_t beside = 0) { return segments_kept(blocks, columns, step, beside, columns > 64 ? 64 << 10 : kMostSums); }

// Columns per block: a row tile is unpacked once for all of them.
constexpr int columns_together(Format format, int most_columns) {
  if (format == Format::F32 && most_columns <= 4) return most_columns <= 2 ? 2 : 4;
  return most_columns <= 8 ? 8 : most_columns <= 16 ? 16 : most_columns <= 32 && format != Format::F32 ? 32 : 64;
}

// Columns per list of an expert: a multiple of kColumns, no more than a block of any format takes.
constexpr int experts_together(int most_columns) { return columns_together(Format::Q8_0, most_columns); }

// Blocks of one row tile are adjacent in launch order, so that its weights come from memory once; for experts, with weights per list, those of a list.
PACELINE_DEVICE int tile_place(const Product& product) { return static_cast<int>(product.lists ? block_x() : block_y()); }
PACELINE_DEVICE int column_place(const Product& product) { return static_cast<int>(product.lists ? block_y() : block_x()); }

// This block's columns, and their expert. end 0: none.
struct OwnColumns {
  int expert = 0, first = 0, end = 0;
};
PACELINE_DEVICE OwnColumns own_columns(const Product& product, int most) {  // of the step's input
  const int first = column_place(product) * most, end = load_early(product.columns);
  if (first >= end) return {};
  return {0, first, end};
}
PACELINE_DEVICE OwnColumns listed_columns(const Product& product) {  // as a kernel has written them
  const int place = column_place(product);
  if (place >= *product.columns) return {};
  const ExpertColumns list = product.lists[place];
  return {list.expert, list.first, list.end};
}

// A row tile of an item.
struct OwnTile {
  const uint8_t* weights;  // the item's
  float* out;              // null: results are discarded
  const float* bias;       // the item's, or null
  float scale;
  int tile;
};
PACELINE_DEVICE OwnTile tile_of(const Product& product, const OwnColumns& columns, int item_index, int tile) {
  const ProductItem& item = product.items[item_index];
  if (!product.lists) return {item.weights, item.out, item.bias, item.scale, tile};
  const ExpertWeights expert = item.experts[columns.expert];
  return {expert.weights, item.out, expert.bias, expert.scale, tile};
}
// The place-th tile over all items. Past the end: the last tile again, with its results discarded.
PACELINE_DEVICE OwnTile own_tile(const Product& product, const OwnColumns& columns, int place) {
  int i = 0;
  while (i + 1 < product.count && place >= product.items[i].tiles) place -= product.items[i++].tiles;
  const int last = product.items[i].tiles - 1;
  OwnTile own = tile_of(product, columns, i, place < last ? place : last);
  if (place > last) own.out = nullptr;
  return own;
}

template <int most, int tiles>
constexpr int kOwnOutputs = (tiles * kTileRows * most + kProductWarps * kWarp - 1) / (kProductWarps * kWarp);  // of a thread

// Where a segment's sum is in shared memory, of [columns][16]: the lanes of a warp write an accumulator of their mma to 32 banks, and read 32 sums in a row from
// as many.
PACELINE_DEVICE int spread_over_banks(int sum) { return sum ^ (sum >> 2 & 24); }

// Where a segment ends.
PACELINE_DEVICE int end_block(const Product& product, int segment) {
  const int end = (segment + 1) * kSegmentBlocks;
  return end < product.blocks ? end : product.blocks;
}

// All segments of a warp are of one of a block's `parts` sets of row tiles.
template <int parts>
PACELINE_DEVICE int own_part() {
  static_assert(kProductWarps % parts == 0);
  return static_cast<int>(warp_index()) % parts;
}
// Its first segment; -1 where there are not so many.
template <int parts>
PACELINE_DEVICE int first_segment(const Product& product) {
  const int segment = static_cast<int>(warp_index()) / parts;
  return segment < segments_of(product.blocks) ? segment : -1;
}

// Sums `tiles` row tiles of up to `most` columns -> total: the thread's outputs thread, thread + 256, ... of [tiles][most][16]. sums: room for `kept` segments
// of all of them. sum_segment(segment, next, sums) computes a segment's sums of the warp's own `tiles / parts` row tiles, by all of its lanes, to where
// place_of_sum() has them; next: the warp's next one, or -1.
template <int most, int tiles, int parts, class SumSegment>
PACELINE_DEVICE void add_segments(const Product& product, int kept, float* sums, float (&total)[kOwnOutputs<most, tiles>], SumSegment sum_segment) {
  constexpr int kOutputs = kTileRows * most, kAll = tiles * kOutputs, kThreads = kProductWarps * kWarp, kOwn = kOwnOutputs<most, tiles>;
  const int segments = segments_of(product.blocks), thread = static_cast<int>(thread_index()), place = spread_over_banks(thread);
  const int begun = static_cast<int>(warp_index()) / parts;
  static_assert(kThreads % 128 == 0 && kOutputs % 128 == 0);  // adding multiples of it changes no bit that is swapped
  PACELINE_UNROLL
  for (int i = 0; i < kOwn; ++i) total[i] = 0.0f;
  for (int round = 0; round < segments; round += kept) {
    const int end = round + kept < segments ? round + kept : segments;
    for (int s = round + begun; s < end; s += kProductWarps / parts) {
      const int next = s + kProductWarps / parts < end ? s + kProductWarps / parts : end + begun;
      sum_segment(s, next < segments ? next : -1, sums + (s - round) * kAll + own_part<parts>() * (kAll / parts));
    }
    sync_block();
    PACELINE_UNROLL
    for (int i = 0; i < kOwn; ++i)
      if (thread + i * kThreads < kAll)
        for (int s = round; s < end; ++s) total[i] = total[i] + sums[(s - round) * kAll + place + i * kThreads];
    sync_block();
  }
}

// With more of 64 columns, all groups of eight are added, the absent ones in vain.
constexpr int kMostlyPresent = 40;

// The row of the tile and the column of a lane's accumulator i, j, in the layout of an mma.
PACELINE_DEVICE int row_of(int j) { return static_cast<int>(lane_index()) / 4 + 8 * (j / 2); }
PACELINE_DEVICE int column_of(int i, int j) { return kColumns * i + static_cast<int>(lane_index()) % 4 * 2 + j % 2; }
// And where the sum is.
PACELINE_DEVICE int place_of_sum(int i, int j) {
  return kColumns * kTileRows * i + (spread_over_banks(kTileRows * column_of(0, 0) + row_of(0)) ^ (kTileRows * (j % 2) + 8 * (j / 2)));
}

// Whether a block takes weights before its inputs are ready: not of experts, which are not known yet, and only the first of a row tile's blocks, which alone is
// sure to have columns.
PACELINE_DEVICE bool begins_early(const Product& product) { return !product.lists && column_place(product) == 0; }

// Begins a product's kernel -> the block's columns, up to `most`. begin(columns) loads or prefetches the first of its weights, perhaps long before its inputs are
// ready; without columns it is not called.
template <class Begin>
PACELINE_DEVICE OwnColumns begin_product(const Product& product, int most, Begin begin) {
  let_next_begin();
  const bool early = begins_early(product);
  OwnColumns columns;
  if (!product.lists) columns = own_columns(product, most);
  if (early && columns.end) begin(columns);
  wait_for_earlier();
  if (product.lists) columns = listed_columns(product);
  if (!early && columns.end) begin(columns);
  return columns;
}

// row: counted from the tile's first, may be in a tile that follows it.
PACELINE_DEVICE float output_of(const OwnTile& own, int row, float total) {
  const float output = total * own.scale;
  return own.bias ? output + own.bias[kTileRows * own.tile + row] : output;
}
PACELINE_DEVICE void store_output(const Product& product, const OwnTile& own, int column, int row, float total) {
  float* const to = own.out + static_cast<size_t>(column) * product.stride + kTileRows * own.tile + row;
  const float sum = output_of(own, row, total);
  *to = product.add ? *to + sum : sum;
}

// total: the thread's outputs of a block's `tiles` row tiles, as add_segments has them; own_of(i): the i-th of these.
template <int most, int tiles, class OwnOf>
PACELINE_DEVICE void store_tiles(const Product& product, const OwnColumns& columns, const float (&total)[kOwnOutputs<most, tiles>], OwnOf own_of) {
  constexpr int kOutputs = kTileRows * most;
  PACELINE_UNROLL
  for (int i = 0; i < kOwnOutputs<most, tiles>; ++i) {
    const int output = static_cast<int>(thread_index()) + i * kProductWarps * kWarp, column = columns.first + output % kOutputs / kTileRows;
    if (output >= tiles * kOutputs || column >= columns.end) continue;
    const OwnTile own = own_of(output / kOutputs);
    if (own.out) store_output(product, own, column, output % kTileRows, total[i]);
  }
}

// Where a segment of a row tile begins.
template <Format f>
constexpr int kSegmentBytes = kSegmentBlocks / unit_tiles(f) * static_cast<int>(device_unit_bytes(f));
template <Format f>
PACELINE_DEVICE const uint8_t* segment_of(const uint8_t* row_tile, int segment) { return row_tile + static_cast<size_t>(segment) * kSegmentBytes<f>; }

// Prefetches one segment of a row tile's weights into L2, by a warp, but for `loaded` units of it.
template <Format f, int loaded = 0>
PACELINE_DEVICE void fetch_segment(const uint8_t* row_tile, int blocks, int segment) {
  constexpr int kLine = 128, kUnits = kSegmentBlocks / unit_tiles(f), kUnit = static_cast<int>(device_unit_bytes(f));
  const int left = static_cast<int>(device_units(f, blocks)) - kUnits * segment, own = static_cast<int>(lane_index()) * kLine;
  const int bytes = left < kUnits ? left * kUnit : kSegmentBytes<f>;
  const uint8_t* const from = segment_of<f>(row_tile, segment) + own;
  PACELINE_UNROLL
  for (int at = loaded * kUnit / kLine * kLine; at < kSegmentBytes<f>; at += kWarp * kLine)
    if (own + at < bytes) fetch_ahead(from + at);
}

// Blocks for `tiles` row tiles or groups of them, of up to `columns` columns each.
inline Grid grid_of(const Product& product, int tiles, int most_columns, int columns) {
  const unsigned x = static_cast<unsigned>(tiles), y = static_cast<unsigned>(product.lists ? product.most_lists : (most_columns + columns - 1) / columns);
  return product.lists ? Grid{x, y, 1} : Grid{y, x, 1};
}
inline int all_tiles(const Product& product) {
  int tiles = 0;
  for (int i = 0; i < product.count; ++i) tiles += product.items[i].tiles;
  return tiles;
}

// Whether blocks that run one at a time on each multiprocessor keep three quarters of the device busy. Never for experts: their lists are too short, and loading
// one list's weights should overlap computing another.
inline bool fills_device(const Product& product, const Grid& grid, int most_columns) {
  const int busy = product.multiprocessors ? product.multiprocessors : multiprocessors(), blocks = static_cast<int>(grid.x * grid.y);
  const int rounds = (blocks + busy - 1) / busy;
  return most_columns > 64 && !product.lists && 4 * blocks >= 3 * busy * rounds;
}

}  // namespace paceline::cuda
