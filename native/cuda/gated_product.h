// Gate and up of a feed-forward network in one kernel, whose outputs are activations.
#pragma once

#include "integer_product.h"

namespace paceline::cuda {

// Two row tiles of gate and the same two of up: 32 outputs, which make one block of activations. No sum leaves the thread block.
constexpr int kGatedTiles = 4;

PACELINE_DEVICE const uint8_t* gated_weights(const Product& product, const OwnColumns& columns, int pair, int part, size_t row_bytes) {
  return tile_of(product, columns, part / 2, 2 * pair).weights + (2 * pair + part % 2) * row_bytes;
}

// Outputs of a pair, [4][most][16], with their scales and biases -> to, each at its kept_place().
template <int most>
PACELINE_DEVICE void keep_output(const Product& product, const OwnColumns& columns, int pair, int output, float total, float* to) {
  constexpr int kOutputs = kTileRows * most;
  const int half = output / kOutputs % 2;
  to[kept_place<most>(output)] = output_of(tile_of(product, columns, output / (2 * kOutputs), 2 * pair), half * kTileRows + output % kTileRows, total);
}
// The activation of what all threads have kept; a warp takes a column.
template <int most>
PACELINE_DEVICE void store_activated(const Product& product, const OwnColumns& columns, int pair, const float* kept) {
  constexpr int kOutputs = kTileRows * most;
  const int lane = static_cast<int>(lane_index());
  for (int c = static_cast<int>(warp_index()); c < most && columns.first + c < columns.end; c += kProductWarps) {
    const float* const own = kept + ((lane / kTileRows * kOutputs + c * kTileRows + lane % kTileRows) ^ (lane / kTileRows * kTileRows));
    store_block(product.gated, columns.first + c, pair, activated(product.activation, own[0], own[2 * kOutputs]));
  }
}

template <Format f, int n>
PACELINE_KERNEL_FOR(kProductWarps * kWarp, kStreamBlocks) gated_product(Product product, Turns turns) {
  using Few = FewColumns<f, n, most_rows<f, n>()>;
  const size_t row_bytes = device_row_tile_bytes(f, product.blocks);
  SharedMemory memory;
  Few few(memory, product, turns);
  const auto weights_of = [&](const OwnColumns& columns) {
    return [&](int pair, const uint8_t* (&weights)[Few::kRows]) {
      weights[0] = gated_weights(product, columns, pair, few.own_tile(), row_bytes);
      if constexpr (Few::kRows == 2) weights[1] = weights[0] + row_bytes;
    };
  };
  const OwnColumns columns = begin_product(product, Few::kMost, [&](const OwnColumns& own) { few.begin(product, weights_of(own)); });
  if (!columns.end) return;
  few.take_inputs(product, columns);
  PACELINE_UNROLL_BY(1)
  for (int pair = tile_place(product); pair < turns.places; pair += turns.step) {
    few.sum(product, columns, weights_of(columns), [&](int output, float total) { keep_output<Few::kMost>(product, columns, pair, output, total, few.totals()); });
    store_activated<Few::kMost>(product, columns, pair, few.totals());
  }
}

template <Format f, int n>
void launch_gated_product(const Product& product, int most_columns, Stream stream) {
  constexpr int kRows = most_rows<f, n>();
  const Turns turns = turns_for<f, n, kRows>(product, kGatedTiles, all_tiles(product) / kGatedTiles, most_columns);
  launch("gated_product", gated_product<f, n>, grid_of(product, turns.step, most_columns, FewColumns<f, n, kRows>::kMost), kProductWarps * kWarp,
         shared_bytes<f, n, kRows>(product, turns.tiles, turns.kept), stream, product, turns);
}

template <Format f>
PACELINE_KERNEL_FOR(kProductWarps * kWarp, 1) gated_product_of_64(Product product, int kept) {
  constexpr int kMost = 64;
  const int pair = tile_place(product);
  const size_t row_bytes = device_row_tile_bytes(f, product.blocks);
  SharedMemory memory;
  float* const sums = memory.take<float>(static_cast<size_t>(kept) * kGatedTiles * kTileRows * kMost);
  uint32_t* const grid = take_grid<f>(memory);
  Units<f, 2> unit;
  const OwnColumns columns = begin_product(product, kMost, [&](const OwnColumns& own) {
    begin_tiles<f, kGatedTiles>(product, gated_weights(product, own, pair, own_part<kGatedTiles>(), row_bytes), unit);
    fill_grid<f>(grid);
  });
  if (!columns.end) return;
  if constexpr (has_grid(f)) sync_block();
  float total[kOwnOutputs<kMost, kGatedTiles>];
  sum_tiles<f, kGatedTiles>(product, columns, gated_weights(product, columns, pair, own_part<kGatedTiles>(), row_bytes), kept, grid, unit, sums, total);
  PACELINE_UNROLL
  for (int i = 0; i < kOwnOutputs<kMost, kGatedTiles>; ++i)
    keep_output<kMost>(product, columns, pair, static_cast<int>(thread_index()) + i * kProductWarps * kWarp, total[i], sums);
  sync_block();
  store_activated<kMost>(product, columns, pair, sums);
}

// For enough columns to fill the device: a block has 64 columns of two or four pairs, a warp one of their row tiles, or one of gate and the same of up.
template <Format f>
PACELINE_KERNEL_FOR(kProductWarps * kWarp, 1) wide_gated_product(Product product, int pairs) {
  constexpr int kMost = 64, kRows = kWideRows<f>, kWarps = kGatedTiles / kRows, kPairs = kProductWarps / kWarps, kOutputs = kGatedTiles * kTileRows * kMost;
  static_assert(kPairs * kOutputs * sizeof(float) == OwnTotals<kRows>::kBytes);
  const int warp = static_cast<int>(warp_index()), first = tile_place(product) * kPairs, pair = first + warp / kWarps;
  const auto part_of = [&](int r) { return warp % kWarps + r * (kGatedTiles / 2); };
  const size_t row_bytes = device_row_tile_bytes(f, product.blocks);
  SharedMemory memory;
  float* const kept = memory.take<float>(kPairs * kOutputs);
  OwnTotals<kRows> totals(kept);
  uint32_t* const grid = take_grid<f>(memory);
  const auto weights_of = [&](const OwnColumns& columns, int r) { return pair < pairs ? gated_weights(product, columns, pair, part_of(r), row_bytes) : nullptr; };
  const OwnColumns columns = sum_row_tiles<f>(product, weights_of, grid, totals);
  if (!columns.end) return;
  float total[kRows][8][4];
  if (pair < pairs) {
    PACELINE_UNROLL
    for (int r = 0; r < kRows; ++r)
      for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 4; ++j) total[r][i][j] = totals.get(r, i, j);
  }
  sync_block();  // all totals have been read, so the outputs take their place
  if (pair < pairs) {
    PACELINE_UNROLL
    for (int r = 0; r < kRows; ++r)
      for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 4; ++j)
          keep_output<kMost>(product, columns, pair, (part_of(r) * kMost + column_of(i, j)) * kTileRows + row_of(j), total[r][i][j], kept + (pair - first) * kOutputs);
  }
  sync_block();
  for (int p = 0; p < kPairs && first + p < pairs; ++p) store_activated<kMost>(product, columns, first + p, kept + p * kOutputs);
}

template <Format f>
void launch_gated_64(const Product& product, int most_columns, Stream stream) {
  constexpr int kMost = 64, kPairs = kProductWarps * kWideRows<f> / kGatedTiles;
  const int pairs = all_tiles(product) / kGatedTiles;
  const Grid wide = grid_of(product, (pairs + kPairs - 1) / kPairs, most_columns, kMost);
  if (fills_device(product, wide, most_columns))
    return launch("wide_gated_product", wide_gated_product<f>, wide, kProductWarps * kWarp, OwnTotals<kWideRows<f>>::kBytes + kGridBytes<f>, stream, product, pairs);
  const int kept = segments_kept(product.blocks, kGatedTiles * kMost, kProductWarps / kGatedTiles, kGridBytes<f>);
  launch("gated_product_of_64", gated_product_of_64<f>, grid_of(product, pairs, most_columns, kMost), kProductWarps * kWarp,
         static_cast<size_t>(kept) * kGatedTiles * kTileRows * kMost * sizeof(float) + kGridBytes<f>, stream, product, kept);
}

template <Format f>
void gated_product_of(const Product& product, int most_columns, Stream stream) {
  switch (columns_together(f, most_columns)) {
    case 8: return most_columns == 1 && fits_alone<f>(product) ? launch_gated_product<f, kAlone>(product, 1, stream) : launch_gated_product<f, 1>(product, most_columns, stream);
    case 16: return launch_gated_product<f, 2>(product, most_columns, stream);
    case 32: return launch_gated_product<f, 4>(product, most_columns, stream);
    default: return launch_gated_64<f>(product, most_columns, stream);
  }
}

}  // namespace paceline::cuda
