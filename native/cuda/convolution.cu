// A gated short convolution, as in native/cpu/step_recurrent.cpp: a warp takes 32 channels of a column. It also writes what the row leaves behind: the last inputs
// of the convolution and, for short rows, all of them, for a replay.
#include "operations.h"

namespace paceline::cuda {
namespace {

constexpr int kWarps = 4;

PACELINE_KERNEL convolve_channels(GatedConvolution g, const RowInput* rows, const Column* columns, const int* count) {
  let_next_begin();
  const int column = static_cast<int>(block_y()), lane = static_cast<int>(lane_index());
  const int block = static_cast<int>(block_x()) * kWarps + static_cast<int>(warp_index()), channel = block * kBlock + lane;
  if (column >= load_early(count) || block * kBlock >= g.width) return wait_for_earlier();
  const RowInput row = load_early(rows + (columns ? load_early(&columns[column].row) : 0));
  const RecurrentState& state = g.state;
  const int index = column - row.first_column, kept = g.taps - 1;  // index: in the row
  const bool inside = channel < g.width;
  const float* const mixed = g.mixed + static_cast<size_t>(row.first_column) * g.stride;
  const float* const past = state.conv(row.slot, row.state);
  if (lane < g.taps) fetch_ahead(g.taps_weights + static_cast<size_t>(lane) * state.channel_stride + block * kBlock);
  if (lane < kept && row.position > 0) fetch_ahead(past + static_cast<size_t>(lane) * state.channel_stride + block * kBlock);
  wait_for_earlier();
  const auto input = [&](int token) {
    if (token < 0) return row.position == 0 ? 0.0f : past[static_cast<size_t>(token + kept) * state.channel_stride + channel];
    if (!g.mixed) return state.update(row.slot, token)[channel];
    const float* const own = mixed + static_cast<size_t>(token) * g.stride + channel;
    return own[0] * own[2 * g.width];
  };
  if (g.mixed) {
    float y = 0.0f;
    for (int tap = 0; inside && tap < g.taps; ++tap) y = fma(g.taps_weights[static_cast<size_t>(tap) * state.channel_stride + channel], input(index - kept + tap), y);
    if (inside) y *= mixed[static_cast<size_t>(index) * g.stride + g.width + channel];
    store_block(g.out, column, block, y);
    if (inside && row.count > 1 && row.count <= state.replay) state.update(row.slot, index)[channel] = input(index);
  }
  if (channel >= state.channel_stride) return;
  float* const next = state.conv(row.slot, row.state ^ 1);
  for (int i = 0; i < kept; ++i) {
    const int token = row.count - kept + i;  // the padding behind the last channel is zeros
    if (token == index || (token < 0 && index == 0)) next[static_cast<size_t>(i) * state.channel_stride + channel] = inside ? input(token) : 0.0f;
  }
}

}  // namespace

void convolve_gated(const GatedConvolution& g, const RowInput* rows, const Column* columns, const int* count, int most, Stream stream) {
  const unsigned blocks = static_cast<unsigned>((g.width + kBlock - 1) / kBlock);
  launch("convolve_gated", convolve_channels, {(blocks + kWarps - 1) / kWarps, static_cast<unsigned>(most), 1}, kWarps * kWarp, 0, stream, g, rows, columns, count);
}

}  // namespace paceline::cuda
