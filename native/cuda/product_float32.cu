// Products of float32 weights: acc = fma(w, a, acc) input by input, in segments as in all products, so the results match the CPU's bit for bit. Such matrices
// are small: expert routers, for example.
//
// A lane computes some rows of some columns: each weight it loads serves all its columns, each input all its rows. Every instruction but an fma is overhead, and
// an SM loads only a quarter as many numbers from L1 per cycle as it can multiply. So a lane takes as many outputs as its registers hold, and a segment of a row
// tile occupies few lanes (eight in decode): a warp has several segments. Lanes exchange nothing until the segments are added.
#include <type_traits>

#include "product.h"

namespace paceline::cuda {
namespace {

constexpr int kInputs = 4;  // of one row to a load

// A lane's rows are row, row + kRowLanes, ... of a block's `tiles` row tiles; its columns column, column + kColumnLanes, ... of the `most` of a block.
template <int rows_, int columns_, int tiles_, int most_>
struct Shape {
  static constexpr int rows = rows_, columns = columns_, tiles = tiles_, most = most_;
  static constexpr int kRows = tiles * kTileRows, kRowLanes = kRows / rows, kColumnLanes = most / columns, kLanes = kRowLanes * kColumnLanes;
  static constexpr int kGroups = (most + kColumns - 1) / kColumns;   // of kColumns columns, stored together
  static constexpr bool kFew = rows == 1;
  static constexpr int kAhead = kFew ? 16 : columns <= 2 ? 4 : 2;    // loads in flight per row
  // How many bytes the L2 prefetch of a row tile's segment runs ahead of the loads: 64 KiB for an SM that works on sixteen segments, as prefetching a whole segment at
  // once would queue ahead of the first loads. Where few blocks are all there is to do, they prefetch all of it while the kernel before still runs.
  static constexpr int kFetched = kFew ? kSegmentBlocks * static_cast<int>(device_unit_bytes(Format::F32)) : 4096;
  static constexpr int kInputsAhead = rows * columns == 64 ? 1 : 3;  // and of a column, four inputs each
  static_assert(kLanes <= kWarp && kTileRows % kRowLanes == 0 && kColumns % kColumnLanes == 0);
};
template <int most>
using Decode = Shape<4, most / 2, 1, most>;
using Prefill = Shape<8, 8, 2, 64>;
// For fewer row tiles than multiprocessors, as a router has: all that counts is how soon the last of a segment's weights is there.
template <int most>
using Few = Shape<1, most / 2, 1, most>;

template <class S>
constexpr int kMostThreads = S::kFew ? 256 : S::tiles == 1 ? 128 : 256;
template <class S>
constexpr int kResident = S::tiles == 2 || S::kFew ? 1 : S::columns == 8 ? 2 : 3;  // thread blocks of that size whose registers must fit an SM at once

// Prefetches cache lines of a row tile into L2, by the lanes of one segment.
template <class S>
PACELINE_DEVICE void fetch_lines(const uint8_t* row_tile, size_t begin, size_t end) {
  constexpr size_t kLine = 128;
  for (size_t at = begin + thread_index() % S::kLanes * kLine; at < end; at += S::kLanes * kLine) fetch_ahead(row_tile + at);
}

// The sums of blocks first .. end - 1, by kLanes lanes -> to [most][kRows]. weights: the first row tile; the second is next_tile bytes on.
template <class S>
PACELINE_DEVICE void sum_segment(const uint8_t* weights, size_t next_tile, const Activations& input, const OwnColumns& columns, int first, int end, float* to) {
  constexpr int kLoads = kBlock / kInputs, kLoadBytes = 16 * kTileRows, kAhead = S::kAhead, kSteps = kAhead;
  constexpr int kBuffers = kSteps <= S::kInputsAhead ? kSteps : S::kInputsAhead + 1, kNext = kBuffers - 1, kLines = kAhead * kLoadBytes / 128;
  static_assert(kSteps % kBuffers == 0 && (S::kFew ? 2 : 1) * kLoads % kAhead == 0);  // of few, blocks come in pairs
  const int lane = static_cast<int>(thread_index()) % S::kLanes, row = lane % S::kRowLanes, column = lane / S::kRowLanes;
  const uint8_t* from[S::tiles];
  PACELINE_UNROLL
  for (int t = 0; t < S::tiles; ++t) from[t] = weights + t * next_tile + static_cast<size_t>(first) * kLoads * kLoadBytes + row * 16;
  // For a column past the end, padding or the first group of columns is read instead: its sums are never stored.
  const float* x[S::kGroups];
  PACELINE_UNROLL
  for (int g = 0; g < S::kGroups; ++g)
    x[g] = input.wide + wide_place(input.blocks, columns.first + (columns.first + g * kColumns < columns.end ? g * kColumns : 0) + column, first * kBlock);
  const uint8_t* const last = weights + lane / kLines * next_tile + static_cast<size_t>(end) * kLoads * kLoadBytes;
  const int fetched = S::kFetched + lane % kLines * 128;

  float acc[S::rows][S::columns];
  PACELINE_UNROLL
  for (int r = 0; r < S::rows; ++r)
    for (int c = 0; c < S::columns; ++c) acc[r][c] = 0.0f;
  Word4 words[kAhead][S::rows], inputs[kBuffers][S::columns];
  const auto load_words = [&](int l) {
    if (lane == 0) count_weights(S::tiles * kLoadBytes);
    PACELINE_UNROLL
    for (int r = 0; r < S::rows; ++r) {
      const int ahead = r * S::kRowLanes;
      words[l][r] = load_once(from[ahead / kTileRows] + l * kLoadBytes + ahead % kTileRows * 16);
    }
  };
  const auto load_inputs = [&](int step) {
    PACELINE_UNROLL
    for (int c = 0; c < S::columns; ++c) {
      const int ahead = c * S::kColumnLanes;
      inputs[step % kBuffers][c] = *reinterpret_cast<const Word4*>(x[ahead / kColumns] + (step * kColumns + ahead % kColumns) * 4);
    }
  };
  PACELINE_UNROLL
  for (int l = 0; l < kAhead; ++l) load_words(l);
  PACELINE_UNROLL
  for (int step = 0; step < kNext; ++step) load_inputs(step);
  // Computes what is loaded, and loads as much again but for the last time: a condition in the loop would make all of its loads late.
  const auto add_loaded = [&](auto more) {
    constexpr bool kMore = decltype(more)::value;
    PACELINE_UNROLL
    for (int t = 0; t < S::tiles; ++t) from[t] += kAhead * kLoadBytes;
    PACELINE_UNROLL
    for (int step = 0; step < kSteps; ++step) {
      if (step + kNext == kSteps) {
        PACELINE_UNROLL
        for (int g = 0; g < S::kGroups; ++g) x[g] += kSteps * 4 * kColumns;
      }
      if (kMore || step + kNext < kSteps) load_inputs((step + kNext) % kSteps);
      PACELINE_UNROLL
      for (int j = 0; j < 4; ++j)
        for (int r = 0; r < S::rows; ++r) {
          const float weight = bits_to_float(words[step][r].v[j]);
          for (int c = 0; c < S::columns; ++c) acc[r][c] = fma(weight, bits_to_float(inputs[step % kBuffers][c].v[j]), acc[r][c]);
        }
      if constexpr (kMore) load_words(step);
    }
  };
  PACELINE_UNROLL_BY(1)
  for (int left = (end - first) * kLoads; left > kAhead; left -= kAhead) {
    if (lane < S::tiles * kLines && fetched < left * kLoadBytes) fetch_ahead(last - left * kLoadBytes + fetched);
    add_loaded(std::true_type());
  }
  add_loaded(std::false_type());
  PACELINE_UNROLL
  for (int r = 0; r < S::rows; ++r)
    for (int c = 0; c < S::columns; ++c) to[(column + c * S::kColumnLanes) * S::kRows + row + r * S::kRowLanes] = acc[r][c];
}

// The row tiles of a block: the first, and how many there are.
struct OwnTiles {
  OwnTile first;
  int count;
};
template <int tiles>
PACELINE_DEVICE OwnTiles own_tiles(const Product& product, const OwnColumns& columns) {
  int tile = tile_place(product) * tiles, i = 0;
  for (; tile >= product.items[i].tiles; ++i) tile -= (product.items[i].tiles + tiles - 1) / tiles * tiles;
  const int left = product.items[i].tiles - tile;
  return {tile_of(product, columns, i, tile), left < tiles ? left : tiles};
}

// A thread block works on threads / S::kLanes segments at once. kept: how many segments' sums have room in shared memory before they are added.
template <class S>
PACELINE_KERNEL_FOR(kMostThreads<S>, kResident<S>) product_of_floats(Product product, int kept) {
  constexpr size_t kSegmentBytes = kSegmentBlocks * device_unit_bytes(Format::F32);
  constexpr int kOutputs = S::kRows * S::most;
  const size_t row_bytes = device_row_tile_bytes(Format::F32, product.blocks);
  const int segments = segments_of(product.blocks), thread = static_cast<int>(thread_index()), threads = static_cast<int>(block_threads());
  const int together = threads / S::kLanes, place = thread / S::kLanes;
  const auto fetch = [&](const OwnTiles& own, int segment) {
    const size_t begin = segment * kSegmentBytes, end = begin + S::kFetched < row_bytes ? begin + S::kFetched : row_bytes;
    for (int t = 0; t < own.count; ++t) fetch_lines<S>(own.first.weights + (own.first.tile + t) * row_bytes, begin, end);
  };
  const OwnColumns columns = begin_product(product, S::most, [&](const OwnColumns& own) { fetch(own_tiles<S::tiles>(product, own), place); });
  if (!columns.end) return;
  SharedMemory memory;
  float* const sums = memory.take<float>(static_cast<size_t>(kept) * kOutputs);
  float* const totals = memory.take<float>(kept < segments ? kOutputs : 0);
  const OwnTiles own = own_tiles<S::tiles>(product, columns);
  const uint8_t* const weights = own.first.weights + own.first.tile * row_bytes;
  const int left = columns.end - columns.first, count = left < S::most ? left : S::most, outputs = S::kRows * count;
  const size_t next_tile = own.count < S::tiles ? 0 : row_bytes;
  const auto sum_one = [&](int first, int end, float* to) {
    if constexpr (S::most > 16) {  // fewer columns: the end of a prefill, or an expert's
      if (count <= 16) return sum_segment<Shape<4, 4, 2, 16>>(weights, next_tile, product.input, columns, first, end, to);
      if (count <= 32) return sum_segment<Shape<8, 4, 2, 32>>(weights, next_tile, product.input, columns, first, end, to);
    }
    sum_segment<S>(weights, next_tile, product.input, columns, first, end, to);
  };
  for (int round = 0; round < segments; round += kept) {
    const int all = round + kept < segments ? kept : segments - round;
    for (int s = place; s < all; s += together) {
      const int first = (round + s) * kSegmentBlocks, end = first + kSegmentBlocks;
      fetch(own, round + s + together);
      sum_one(first, end < product.blocks ? end : product.blocks, sums + s * kOutputs);
    }
    sync_block();
    for (int output = thread; output < outputs; output += threads) {
      float total = round ? totals[output] : 0.0f;
      for (int s = 0; s < all; ++s) total = total + sums[s * kOutputs + output];
      if (round + all < segments) {
        totals[output] = total;
      } else if (output % S::kRows < own.count * kTileRows) {
        store_output(product, own.first, columns.first + output / S::kRows, output % S::kRows, total);
      }
    }
    sync_block();
  }
}

template <class S>
void launch_float_product(const Product& product, int most_columns, Stream stream) {
  constexpr int kMost = kMostThreads<S> / S::kLanes, kSumBytes = S::kRows * S::most * static_cast<int>(sizeof(float));
  const int segments = segments_of(product.blocks), turns = (segments + kMost - 1) / kMost, together = (segments + turns - 1) / turns;
  const int room = 48 * 1024 / kSumBytes, kept = segments < room ? segments : room < together ? together : room;
  int groups = 0;  // a group of row tiles is of one matrix
  for (int i = 0; i < product.count; ++i) groups += (product.items[i].tiles + S::tiles - 1) / S::tiles;
  launch("product_of_floats", product_of_floats<S>, grid_of(product, groups, most_columns, S::most), static_cast<unsigned>((together * S::kLanes + kWarp - 1) / kWarp * kWarp),
         static_cast<size_t>(kept < segments ? kept + 1 : kept) * kSumBytes, stream, product, kept);
}

}  // namespace

void float32_product(const Product& product, int most_columns, Stream stream) {
  const int busy = product.multiprocessors ? product.multiprocessors : multiprocessors();
  if (most_columns <= 8 && all_tiles(product) < busy && product.blocks % 2 == 0 && !product.lists) {
    if (most_columns <= 2) return launch_float_product<Few<2>>(product, most_columns, stream);
    if (most_columns <= 4) return launch_float_product<Few<4>>(product, most_columns, stream);
    return launch_float_product<Few<8>>(product, most_columns, stream);
  }
  switch (columns_together(Format::F32, most_columns)) {
    case 2: return launch_float_product<Decode<2>>(product, most_columns, stream);
    case 4: return launch_float_product<Decode<4>>(product, most_columns, stream);
    case 8: return launch_float_product<Decode<8>>(product, most_columns, stream);
    case 16: return launch_float_product<Decode<16>>(product, most_columns, stream);
    default: return launch_float_product<Prefill>(product, most_columns, stream);
  }
}

}  // namespace paceline::cuda
