// Gate and up of a feed-forward network in one kernel, whose outputs are activations.
#pragma once

#include "integer_product.h"

namespace paceline::cuda {

// Two row tiles of gate and the same two of up: 32 outputs, which make one block of activations. No sum leaves the thread block, which takes such pairs at its own
// place and every `step` places on, below `end`.
template <Format f, int n>
PACELINE_KERNEL_FOR(kProductWarps * kWarp, resident_blocks(n)) gated_product(Product product, int kept, int end, int step) {
  constexpr int kMost = kColumns * groups_of(n), kOutputs = kTileRows * kMost;
  const int first = tile_place(product), part = own_part<4>(), lane = static_cast<int>(lane_index());
  const size_t row_bytes = device_row_tile_bytes(f, product.blocks);
  SharedMemory memory;
  float* const sums = memory.take<float>(static_cast<size_t>(kept) * 4 * kOutputs);
  uint32_t* const grid = take_grid<f>(memory);
  BlockInputs<f, n> inputs(memory, product.blocks);
  TileWeights<f, n, 4> weights(memory, product, first, end, step);
  const auto weights_of = [&](const OwnColumns& columns) {
    return [&](int pair) { return tile_of(product, columns, part / 2, 2 * pair).weights + (2 * pair + part % 2) * row_bytes; };
  };
  const OwnColumns columns = begin_product(product, kMost, [&](const OwnColumns& own) {
    weights.begin(product, weights_of(own));
    fill_grid<f>(grid);
  });
  if (!columns.end) return;
  inputs.take(product, columns);
  if constexpr (has_grid(f) || n == kAlone) sync_block();
  PACELINE_UNROLL_BY(1)
  for (int pair = first; pair < end; pair += step) {
    float total[kOwnOutputs<kMost, 4>];
    weights.sum(product, columns, inputs, pair, weights_of(columns), kept, grid, sums, total);
    const OwnTile gate = tile_of(product, columns, 0, 2 * pair), up = tile_of(product, columns, 1, 2 * pair);  // here, so that they take no registers before
    PACELINE_UNROLL
    for (int i = 0; i < kOwnOutputs<kMost, 4>; ++i) {
      const int output = static_cast<int>(thread_index()) + i * kProductWarps * kWarp;
      const int half = output / kOutputs % 2;
      const float sum = output_of(output < 2 * kOutputs ? gate : up, half * kTileRows + output % kTileRows, total[i]);
      sums[output ^ (half * kTileRows)] = sum;  // the two halves of a block in different banks
    }
    sync_block();
    for (int c = static_cast<int>(warp_index()); c < kMost && columns.first + c < columns.end; c += kProductWarps) {
      const float* const own = sums + ((lane / kTileRows * kOutputs + c * kTileRows + lane % kTileRows) ^ (lane / kTileRows * kTileRows));
      store_block(product.gated, columns.first + c, pair, activated(product.activation, own[0], own[2 * kOutputs]));
    }
    sync_block();  // the next pair's sums take the same room
  }
}

template <Format f, int n>
void launch_gated_product(const Product& product, int most_columns, Stream stream) {
  constexpr int kMost = kColumns * groups_of(n);
  const size_t beside = kBesideSums<f, n> + BlockInputs<f, n>::bytes(product.blocks);
  const int kept = segments_kept(product.blocks, 4 * kMost, kProductWarps / 4, beside), pairs = all_tiles(product) / 4;
  const int step = n > 4 ? pairs : blocks_for(product, pairs, (most_columns + kMost - 1) / kMost);
  const size_t shared = static_cast<size_t>(kept) * 4 * kTileRows * kMost * sizeof(float) + beside;
  launch("gated_product", gated_product<f, n>, grid_of(product, step, most_columns, kMost), kProductWarps * kWarp, shared, stream, product, kept, pairs, step);
}

template <Format f>
void gated_product_of(const Product& product, int most_columns, Stream stream) {
  switch (columns_together(f, most_columns)) {
    case 8: return most_columns == 1 && fits_alone<f>(product) ? launch_gated_product<f, kAlone>(product, 1, stream) : launch_gated_product<f, 1>(product, most_columns, stream);
    case 16: return launch_gated_product<f, 2>(product, most_columns, stream);
    case 32: return launch_gated_product<f, 4>(product, most_columns, stream);
    default: return launch_gated_product<f, 8>(product, most_columns, stream);
  }
}

}  // namespace paceline::cuda
