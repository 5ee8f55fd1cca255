// The products: what becomes of a row tile's sums, and the sums of float weights, acc = fma(w, a, acc) input by input in
// segments. Those of integer weights, and the order of theirs, are in integer_product.h.
#include "activated.h"
#include "integer_product.h"
#include "kernels.h"

namespace paceline::PACELINE_ISA {
namespace {

// weights of 16 rows for input k
template <Format f>
Lanes float_weights(const uint8_t* tiles, int k) {
  const size_t place = static_cast<size_t>(k) * kTileRows;
  if constexpr (f == Format::F32) return load(reinterpret_cast<const float*>(tiles) + place);
  if constexpr (f == Format::F16) return load_half(reinterpret_cast<const uint16_t*>(tiles) + place);
  if constexpr (f == Format::BF16) return load_brain(reinterpret_cast<const uint16_t*>(tiles) + place);
}

template <Format f>
constexpr size_t kInputBytes = kTileRows * (f == Format::F32 ? 4 : 2);
#if defined(__AVX512F__)
constexpr int kFloatColumns = kGroup;
#else
constexpr int kFloatColumns = 4;  // a sum that is not in a register would be loaded and stored for every input
#endif

// weights [inputs][16], x [inputs][together]: adds to sums [n][16] segment by segment.
template <Format f, int n>
void float_sums(const uint8_t* tiles, int blocks, const float* x, int together, float* sums) {
  for (int first = 0; first < blocks * kBlock; first += kSegment) {
    const int end = first + kSegment < blocks * kBlock ? first + kSegment : blocks * kBlock;
    Lanes acc[n];
    for (int c = 0; c < n; ++c) acc[c] = zero();
    for (int k = first; k < end; ++k) {
      const Lanes w = float_weights<f>(tiles, k);
      fetch_stream(tiles + static_cast<size_t>(k) * kInputBytes<f>, kInputBytes<f>);
      PACELINE_UNROLL
      for (int c = 0; c < n; ++c) acc[c] = fma(w, broadcast(x[static_cast<size_t>(k) * together + c]), acc[c]);
    }
    for (int c = 0; c < n; ++c) store(sums + kTileRows * c, load(sums + kTileRows * c) + acc[c]);
  }
}

// Calls sums<f, n> for n = 1 .. kFloatColumns, so that the accumulators stay in registers.
template <Format f, int n = kFloatColumns>
void float_columns(int columns, const uint8_t* tiles, int blocks, const float* x, int together, float* sums) {
  if (columns == n) return float_sums<f, n>(tiles, blocks, x, together, sums);
  if constexpr (n > 1) float_columns<f, n - 1>(columns, tiles, blocks, x, together, sums);
}

template <Format f>
void float_tile(const uint8_t* tiles, int blocks, const Activations& input, int columns, float* sums, Scratch& scratch) {
  scratch.weight_bytes += static_cast<uint64_t>(blocks) * tile_bytes(f);
  std::memset(sums, 0, sizeof(float) * kTileRows * columns);
  if (columns <= kFloatColumns) return float_columns<f>(columns, tiles, blocks, input.wide, input.wide_columns, sums);
  for (int first = 0; first < blocks; first += kPanelBlocks) {
    const int end = first + kPanelBlocks < blocks ? first + kPanelBlocks : blocks;
    const uint8_t* part = tiles + first * tile_bytes(f);
    if (f != Format::F32) {  // F32 tiles are their own panel
      float* panel = reinterpret_cast<float*>(scratch.panel);
      for (int k = 0; k < (end - first) * kBlock; ++k) {
        fetch_stream(part + static_cast<size_t>(k) * kInputBytes<f>, kInputBytes<f>);
        store(panel + static_cast<size_t>(k) * kTileRows, float_weights<f>(part, k));
      }
      part = scratch.panel;
    }
    each_run<kFloatColumns>(columns, [&](int c, int n) {
      const float* const x = input.wide + input.wide_place(blocks, c, first * kBlock);
      float_columns<Format::F32>(n, part, end - first, x, input.wide_columns, sums + static_cast<size_t>(c) * kTileRows);
    });
  }
}

// Row tile `t` of `weights` times all columns -> sums [columns][16]
void tile_sums(const Matrix& weights, int t, const Activations& input, int columns, float* sums, Scratch& scratch) {
  const uint8_t* tiles = weights.row_tile(t);
  switch (weights.format) {
    case Format::F32: return float_tile<Format::F32>(tiles, weights.blocks, input, columns, sums, scratch);
    case Format::F16: return float_tile<Format::F16>(tiles, weights.blocks, input, columns, sums, scratch);
    case Format::BF16: return float_tile<Format::BF16>(tiles, weights.blocks, input, columns, sums, scratch);
    default: break;
  }
  const auto integer_tile = has_grid(weights.format) ? integer_tile_grid : layout(weights.format).header_bytes ? integer_tile_256 : integer_tile_32;
  integer_tile(weights.format, tiles, weights.blocks, input.quantized, columns, sums, scratch);
}

// Outputs of row tile `tile` from its sums
Lanes outputs_of(const Matrix& weights, int tile, const float* sums) {
  const Lanes outputs = load(sums) * broadcast(weights.scale);
  return weights.bias ? outputs + load(weights.bias + static_cast<size_t>(kTileRows) * tile) : outputs;
}

}  // namespace

void product(const Matrix& weights, int tile, const Activations& input, int columns, Epilogue epilogue, float* out, size_t stride,
             Scratch& scratch) {
  tile_sums(weights, tile, input, columns, scratch.sums, scratch);
  for (int c = 0; c < columns; ++c) {
    float* destination = out + static_cast<size_t>(c) * stride + static_cast<size_t>(kTileRows) * tile;
    const Lanes sum = outputs_of(weights, tile, scratch.sums + static_cast<size_t>(kTileRows) * c);
    store(destination, epilogue == Epilogue::Add ? load(destination) + sum : sum);
  }
}

void gated_product(const Matrix& gate, const Matrix& up, Curve curve, int pair, const Activations& input, int columns, const Activations& output,
                   int output_blocks, Scratch& scratch) {
  const size_t size = static_cast<size_t>(columns) * kTileRows;
  const bool gates = gate.data;
  for (int half = 0; half < 2; ++half) {
    if (gates) tile_sums(gate, 2 * pair + half, input, columns, scratch.sums + size * (2 * half), scratch);
    tile_sums(up, 2 * pair + half, input, columns, scratch.sums + size * (2 * half + 1), scratch);
  }
  for (int c = 0; c < columns; ++c) {
    float y[kBlock];
    for (int half = 0; half < 2; ++half) {
      const Lanes u = outputs_of(up, 2 * pair + half, scratch.sums + size * (2 * half + 1) + kTileRows * c);
      if (!gates) {
        store(y + kTileRows * half, ungated(curve, u));
        continue;
      }
      const Lanes g = outputs_of(gate, 2 * pair + half, scratch.sums + size * (2 * half) + kTileRows * c);
      store(y + kTileRows * half, activated(curve.activation, g, u));
    }
    quantize(y, pair, 1, c, output_blocks, output);
  }
}

}  // namespace paceline::PACELINE_ISA
