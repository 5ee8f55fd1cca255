// Gate and up of a feed-forward network in one kernel, whose outputs are activations.
#pragma once

#include "integer_product.h"

namespace paceline::cuda {

// Two row tiles of gate and the same two of up: 32 outputs, which make one block of activations. No sum leaves the thread block.
template <Format f, int n>
PACELINE_KERNEL_FOR(kProductWarps * kWarp, resident_blocks(f, n)) gated_product(Product product, int kept) {
  constexpr int kMost = kColumns * n, kOutputs = kTileRows * kMost;
  const int pair = tile_place(product), part = own_part<4>(), segment = first_segment<4>(product);
  const size_t row_bytes = device_row_tile_bytes(f, product.blocks);
  const auto weights_of = [&](const uint8_t* matrix) { return matrix + (2 * pair + part % 2) * row_bytes; };
  SharedMemory memory;
  float* const sums = memory.take<float>(static_cast<size_t>(kept) * 4 * kOutputs);
  uint32_t* const grid = take_grid<f>(memory);
  Unit<f> even;
  const auto begin = [&](const uint8_t* weights) {
    load_first(weights, product.blocks, segment, even);
    fill_grid<f>(grid);
  };
  begin_product(product, [&] { begin(weights_of(product.items[part / 2].weights)); });
  const OwnColumns columns = own_columns(product, kMost);
  if (!columns.end) return;
  const uint8_t* const weights = weights_of(tile_of(product, columns, part / 2, 2 * pair).weights);
  if (!begins_early(product)) begin(weights);
  share_grid<f>();
  float total[kOwnOutputs<kMost, 4>];
  sum_tiles<f, n, 4>(product, weights, columns, even, kept, grid, sums, total);
  const OwnTile gate = tile_of(product, columns, 0, 2 * pair), up = tile_of(product, columns, 1, 2 * pair);  // here, so that they take no registers before
  PACELINE_UNROLL
  for (int i = 0; i < kOwnOutputs<kMost, 4>; ++i) {
    const int output = static_cast<int>(thread_index()) + i * kProductWarps * kWarp;
    const int half = output / kOutputs % 2;
    const float sum = output_of(output < 2 * kOutputs ? gate : up, half * kTileRows + output % kTileRows, total[i]);
    sums[output ^ (half * kTileRows)] = sum;  // the two halves of a block in different banks
  }
  sync_block();
  const int lane = static_cast<int>(lane_index());
  for (int c = static_cast<int>(warp_index()); c < kMost && columns.first + c < columns.end; c += kProductWarps) {
    const float* const own = sums + ((lane / kTileRows * kOutputs + c * kTileRows + lane % kTileRows) ^ (lane / kTileRows * kTileRows));
    store_block(product.gated, columns.first + c, pair, activated(product.activation, own[0], own[2 * kOutputs]));
  }
}

template <Format f, int n>
void launch_gated_product(const Product& product, int most_columns, Stream stream) {
  const int kept = segments_kept(product.blocks, 4 * kColumns * n);
  const Grid grid = grid_of(product, all_tiles(product) / 4, most_columns, kColumns * n);
  const size_t shared = static_cast<size_t>(kept) * 4 * kTileRows * kColumns * n * sizeof(float) + kGridBytes<f>;
  launch("gated_product", gated_product<f, n>, grid, kProductWarps * kWarp, shared, stream, product, kept);
}

template <Format f>
void gated_product_of(const Product& product, int most_columns, Stream stream) {
  switch (columns_together(f, most_columns)) {
    case 8: return launch_gated_product<f, 1>(product, most_columns, stream);
    case 16: return launch_gated_product<f, 2>(product, most_columns, stream);
    default: return launch_gated_product<f, 8>(product, most_columns, stream);
  }
}

}  // namespace paceline::cuda
