// Elementwise gating, with the results stored as activations. A warp takes a block of 32 inputs.
#include "operations.h"

namespace paceline::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / kWarp;

PACELINE_KERNEL quantize_column(const float* x, int stride, int size, const float* gates, int gate_stride, const int* count, Activations out) {
  begin_kernel();
  const int column = static_cast<int>(block_y()), block = static_cast<int>(block_x()) * kWarps + static_cast<int>(warp_index());
  if (column >= *count || block >= out.blocks) return;
  const int i = block * kBlock + static_cast<int>(lane_index());
  float y = i < size ? x[static_cast<size_t>(column) * stride + i] : 0.0f;
  if (gates && i < size) y = y * sigmoid(gates[static_cast<size_t>(column) * gate_stride + i]);
  store_block(out, column, block, y);
}

PACELINE_KERNEL quantize_heads_of_column(const float* x, int stride, int size, HeadGates gates, const int* count, Activations out) {
  begin_kernel();
  const int column = static_cast<int>(block_y()), block = static_cast<int>(block_x()) * kWarps + static_cast<int>(warp_index());
  if (column >= *count || block >= out.blocks) return;
  const int i = block * kBlock + static_cast<int>(lane_index());
  const float y = i < size ? x[static_cast<size_t>(column) * stride + i] * gate_of_head(gates, column, i / gates.size) : 0.0f;
  store_block(out, column, block, y);
}

PACELINE_KERNEL gate_column(Gate g) {
  begin_kernel();
  const int index = static_cast<int>(block_x()), block = static_cast<int>(block_y()) * kWarps + static_cast<int>(warp_index());
  if (index / g.used >= *g.count || block >= g.out.blocks) return;
  const int column = g.choices ? g.choices[index].place : index, i = block * kBlock + static_cast<int>(lane_index());
  float y = 0.0f;
  if (i < g.size) {
    const float gate = g.gate[static_cast<size_t>(column) * g.stride + i];
    y = g.curve ? xielu(g.curve, gate) : activated(g.activation, gate, g.up[static_cast<size_t>(column) * g.up_stride + i]);
  }
  store_block(g.out, column, block, y);
}

Grid grid_of(int blocks, int most) { return {static_cast<unsigned>((blocks + kWarps - 1) / kWarps), static_cast<unsigned>(most), 1}; }

}  // namespace

void quantize(const float* x, int stride, int size, const float* gates, int gate_stride, const int* count, const Activations& out, int most, Stream stream) {
  launch("quantize", quantize_column, grid_of(out.blocks, most), kThreads, 0, stream, x, stride, size, gates, gate_stride, count, out);
}

void quantize_gated_heads(const float* x, int stride, int size, const HeadGates& gates, const int* count, const Activations& out, int most, Stream stream) {
  launch("quantize_gated_heads", quantize_heads_of_column, grid_of(out.blocks, most), kThreads, 0, stream, x, stride, size, gates, count, out);
}

void gate(const Gate& g, int most, Stream stream) {
  const Grid grid = {static_cast<unsigned>(most * g.used), static_cast<unsigned>((g.out.blocks + kWarps - 1) / kWarps), 1};
  launch("gate", gate_column, grid, kThreads, 0, stream, g);
}

}  // namespace paceline::cuda
