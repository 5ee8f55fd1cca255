// Products of integer weights for few columns: what a thread block does with row tiles, `tiles` of them at a time. A warp has segments of one of these, or of two, and their weights
// stream through shared memory (weight_stream.h). What becomes of the outputs is the kernels' own (integer_product.h, gated_product.h).
#pragma once

#include "block_inputs.h"
#include "weight_stream.h"

namespace paceline::cuda {

// Row tiles of a warp, at most: two, which share each input that it reads, where registers have room for the units of both. A column that is alone is too little work
// for that, of 32 there are too many sums.
template <Format f, int n>
constexpr int most_rows() {
  const int words = unit_words(f) + (has_header(f) ? 0 : held_scale_words(f));
  return (n == 1 && words <= 24) || (n == 2 && words <= 20) ? 2 : 1;
}

// How the blocks of a product take its row tiles.
struct Turns {
  int places, step;  // of `tiles` row tiles each: a block takes its own one, and every step-th on
  int tiles;         // 1, 2, 4 or 8
  int kept;          // how many segments' sums have room in shared memory
};

// Where an output of [tiles][most][16] is kept: the two row tiles of a block of 32 outputs in different banks.
template <int most>
PACELINE_DEVICE int kept_place(int output) { return output ^ (output / (kTileRows * most) % 2 * kTileRows); }

// A block's inputs, its warps' weights, and the sums of their segments. rows: row tiles of a warp.
template <Format f, int n, int rows>
class FewColumns {
 public:
  static constexpr int kGroups = groups_of(n), kMost = kColumns * kGroups, kOutputs = kTileRows * kMost;  // of a row tile
  static constexpr int kRows = rows;
  static constexpr int kHeld = n == kAlone ? 1 : has_header(f) || (by_halves(f) && n == 1) ? 0 : 2;  // rows whose scales a lane holds
  static constexpr int kScaleFloats = kHeld ? 0 : kRows * SharedScales<f>::kFloats;  // of a warp
  static constexpr size_t kRoom = kStreamRoom<f, kRows> + kGridBytes<f> + static_cast<size_t>(kProductWarps) * kScaleFloats * sizeof(float);
  static constexpr int kMostTiles = n <= 1 ? 4 * rows : 4;  // of a block
  // The sums of a segment for each warp and the totals of all row tiles have room.
  static_assert(kRoom + (kProductWarps * kRows + kMostTiles) * kOutputs * sizeof(float) <= kMostShared);

  PACELINE_DEVICE FewColumns(SharedMemory& memory, const Product& product, const Turns& turns)
      : blocks_(product.blocks),
        tiles_(turns.tiles),
        kept_(turns.kept),
        sums_(memory.take<float>(static_cast<size_t>(turns.kept) * turns.tiles * kOutputs)),
        totals_(memory.take<float>(turns.tiles * kOutputs)),
        grid_(take_grid<f>(memory)),
        scales_(memory.take<float>(kProductWarps * kScaleFloats) + warp_index() * kScaleFloats),
        inputs_(memory, product.blocks),
        stream_(memory, product.blocks, turns.tiles, tile_place(product), turns.places, turns.step) {}

  // The first of the row tiles of a place that are the warp's.
  PACELINE_DEVICE int own_tile() const { return static_cast<int>(warp_index()) % (tiles_ / kRows) * kRows; }

  // Before the inputs are there. weights_of(place, weights): those of the row tiles of a place that are the warp's; null where there is none.
  template <class WeightsOf>
  PACELINE_DEVICE void begin(const Product& product, WeightsOf weights_of) {
    stream_.begin(weights_of);
    fill_grid<f>(grid_);
    if (n == kAlone && product.norm.x && warp_index() == 0) fetch_floats(product.norm.weight, product.norm.size);
  }
  PACELINE_DEVICE void take_inputs(const Product& product, const OwnColumns& own) {
    inputs_.take(product, own);
    if constexpr (has_grid(f) || n == kAlone) sync_block();
  }

  // The sums of the next place's row tiles, of all their segments in order -> finish(output, total), by the thread of each output; these are [tiles][kMost][16].
  template <class WeightsOf, class Finish>
  PACELINE_DEVICE void sum(const Product& product, const OwnColumns& own, WeightsOf weights_of, Finish finish) {
    const int segments = segments_of(blocks_), outputs = tiles_ * kOutputs, warp = static_cast<int>(warp_index()), thread = static_cast<int>(thread_index());
    const int sharers = tiles_ / kRows;  // warps of a segment
    for (int round = 0; round < segments; round += kept_) {
      const int end = round + kept_ < segments ? round + kept_ : segments;
      PACELINE_UNROLL_BY(1)
      for (int s = round + warp / sharers; s < end; s += kProductWarps / sharers)
        sum_segment(product, own, s, weights_of, sums_ + (s - round) * outputs + own_tile() * kOutputs);
      sync_block();
      PACELINE_UNROLL_BY(1)
      for (int output = thread; output < outputs; output += kProductWarps * kWarp) {
        const float* const own_sums = sums_ + spread_over_banks(output);
        float& kept = totals_[kept_place<kMost>(output)];
        float total = round ? kept : 0.0f;
        for (int s = round; s < end; ++s) total = total + own_sums[(s - round) * outputs];
        if (end < segments) kept = total;
        else finish(output, total);
      }
      sync_block();
    }
  }

  // Room for the outputs of a place, each at its kept_place(), for finish() to write to; the next sum() only does so once all threads have called it. Until then an output's
  // own place has its running total, so a thread must write to no other.
  PACELINE_DEVICE float* totals() const { return totals_; }

 private:
  template <class WeightsOf>
  PACELINE_DEVICE void sum_segment(const Product& product, const OwnColumns& own, int segment, WeightsOf weights_of, float* to) {
    constexpr int kOwn = BlockInputs<f, n>::Lane::kOwn;
    typename BlockInputs<f, n>::Lane inputs[kGroups];
    inputs_.begin(product, own, segment, inputs);
    Sums<kOwn> acc[kRows][kGroups];
    clear(acc);
    const int end = end_block(product, segment);
    PACELINE_UNROLL_BY(1)
    for (int b = segment * kSegmentBlocks; b < end; b += unit_tiles(f)) {
      Units<f, kHeld, kRows> units;
      units.scales = scales_;
      stream_.take(weights_of, [&](int r, const uint8_t* unit) {
        units.unit[r].template load<FromShared>(unit);
        if constexpr (kHeld == 0) SharedScales<f>::convert(unit, scales_ + r * SharedScales<f>::kFloats);
      });
      add_units<f>(units, b, end, inputs, own.end - own.first, grid_, acc);
    }
    if constexpr (kOwn == 1) {
      const int lane = static_cast<int>(lane_index());
      if (lane % 4 < 2) to[spread_over_banks(lane / 4 + 8 * (lane % 2))] = acc[0][0][0];
    } else {
      PACELINE_UNROLL
      for (int r = 0; r < kRows; ++r)
        for (int i = 0; i < kGroups; ++i)
          for (int j = 0; j < kOwn * kOwn; ++j) to[r * kOutputs + place_of_sum(i, j)] = acc[r][i][j];
    }
  }

  int blocks_, tiles_, kept_;
  float *sums_, *totals_;
  uint32_t* grid_;
  float* scales_;
  BlockInputs<f, n> inputs_;
  WeightStream<f, kRows> stream_;
};

// Shared memory of such a block, but for the sums of segments.
template <Format f, int n, int rows>
size_t bytes_beside_sums(const Product& product, int tiles) {
  using Few = FewColumns<f, n, rows>;
  return static_cast<size_t>(tiles) * Few::kOutputs * sizeof(float) + BlockInputs<f, n>::bytes(product.blocks) + Few::kRoom;
}

// Whether there is room for a column's inputs and, of four row tiles, the sums of a segment for each warp.
template <Format f>
bool fits_alone(const Product& product) {
  using Few = FewColumns<f, kAlone, 1>;
  constexpr size_t kSums = static_cast<size_t>(kProductWarps) * Few::kOutputs * sizeof(float);
  constexpr size_t kLeast = kSums / 2 + Few::kRoom;  // with four row tiles
  static_assert(kLeast + kSums + BlockInputs<f, kAlone>::bytes(kAloneBlocks) <= kMostShared);
  return kLeast + kSums + BlockInputs<f, kAlone>::bytes(product.blocks) <= kMostShared;
}

template <Format f, int n, int rows>
size_t shared_bytes(const Product& product, int tiles, int kept) {
  return static_cast<size_t>(kept) * tiles * FewColumns<f, n, rows>::kOutputs * sizeof(float) + bytes_beside_sums<f, n, rows>(product, tiles);
}

// Shared memory of a block, if it can do with as little: two of these on a multiprocessor leave 92 KiB of an H100's L1 for inputs.
constexpr size_t kBlockBytes = 80 << 10;

template <Format f, int n, int rows>
Turns turns_for(const Product& product, int tiles, int places, int most_columns) {
  constexpr int kMost = FewColumns<f, n, rows>::kMost;
  const int step = kProductWarps * rows / tiles;  // segments at a time
  const size_t beside = bytes_beside_sums<f, n, rows>(product, tiles), least = static_cast<size_t>(step) * tiles * kTileRows * kMost * sizeof(float);
  const size_t most = n == kAlone ? kMostSums : beside + least < kBlockBytes ? kBlockBytes - beside : least;
  const int kept = segments_kept(product.blocks, tiles * kMost, step, beside, most);
  return {places, blocks_for(product, places, (most_columns + kMost - 1) / kMost, shared_bytes<f, n, rows>(product, tiles, kept)), tiles, kept};
}

// As few row tiles to a block as read their inputs at the same time, so that these are fewer bytes from L2 than the weights are from memory.
template <Format f, int n, int rows>
constexpr int fewest_tiles() {
  return n > 2 || (n == 2 && by_halves(f)) ? 2 * rows : rows;
}

// Row tiles to a block at a time: as many as let the last warp end soonest, or the last multiprocessor, if each loads as fast as the others. 5120 inputs are ten segments,
// for eight warps as long as sixteen; those of four row tiles are five for each. Of experts, whose blocks are many, as many as leave the fewest warps idle.
struct Together {
  int tiles;
  double time;  // in segments of a warp
};
template <Format f, int n, int rows>
Together tiles_together(const Product& product, int most_columns) {
  constexpr int kFewest = fewest_tiles<f, n, rows>();
  const auto rounds = [](int items, int takers) { return (items + takers - 1) / takers; };
  const int busy = product.multiprocessors ? product.multiprocessors : multiprocessors(), segments = segments_of(product.blocks);
  Together best = {};
  for (int tiles = kFewest; tiles <= FewColumns<f, n, rows>::kMostTiles; tiles *= 2) {
    const int places = rounds(all_tiles(product), tiles), each = rounds(segments, kProductWarps * rows / tiles) * rows;
    const double last_warp = rounds(places, turns_for<f, n, rows>(product, tiles, places, most_columns).step) * each;
    const double last_multiprocessor = rounds(places, busy) * tiles * segments / static_cast<double>(kStreamBlocks * kProductWarps);
    const double time = product.lists ? each / static_cast<double>(tiles) : last_warp > last_multiprocessor ? last_warp : last_multiprocessor;
    if (tiles == kFewest || time < best.time) best = {tiles, time};
  }
  return best;
}

}  // namespace paceline::cuda
