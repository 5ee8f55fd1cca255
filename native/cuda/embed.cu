// Embedding lookup. A thread block takes a column; its warps take units of the token's row tile, and store one row of each.
#include "operations.h"
#include "unit.h"

namespace paceline::cuda {
namespace {

constexpr unsigned kThreads = 128;

// Where the step before predicted none, any will do: nobody reads what comes of it. To be called by all threads of the column's block.
PACELINE_DEVICE int token_of(const Column& column, const int* predicted) {
  if (column.token >= 0) return column.token;
  const int found = predicted[-1 - column.token], token = found < 0 ? 0 : found;
  sync_block();
  if (thread_index() == 0) const_cast<Column&>(column).token = token;
  return token;
}

template <Format f>
PACELINE_KERNEL embed_integers(ProductItem embedding, int blocks, int width, float scale, StepInput input, const int* predicted, float* x, int stride) {
  begin_kernel();
  const int column = static_cast<int>(block_x());
  if (column >= input.counts->columns) return;
  const int row = token_of(input.columns[column], predicted), within = row % kTileRows;
  const uint8_t* const weights = embedding.weights + row / kTileRows * device_row_tile_bytes(f, blocks);
  float* const out = x + static_cast<size_t>(column) * stride;
  const int lane = static_cast<int>(lane_index()), t = lane % 4;
  for (int first = static_cast<int>(warp_index()) * unit_tiles(f); first < blocks; first += static_cast<int>(kThreads) / kWarp * unit_tiles(f)) {
    Unit<f> unit;
    unit.load(weights + first / unit_tiles(f) * device_unit_bytes(f));
    PACELINE_UNROLL
    for (int k = 0; k < unit_tiles(f); ++k) {
      float weights_of[4][4];
      unit.weights(k, weights_of, device_grid<f>());
      PACELINE_UNROLL
      for (int w = 0; w < 4; ++w) {
        if (lane / 4 != within % 8 || w % 2 != within / 8) continue;
        for (int i = 0; i < 4; ++i) {
          const int at = (first + k) * kBlock + 16 * (w / 2) + 4 * t + i;
          if (at < width) out[at] = weights_of[w][i] * embedding.scale * scale;
        }
      }
    }
  }
}

template <Format f>
PACELINE_KERNEL embed_floats(ProductItem embedding, int blocks, int width, float scale, StepInput input, const int* predicted, float* x, int stride) {
  begin_kernel();
  const int column = static_cast<int>(block_x());
  if (column >= input.counts->columns) return;
  const int row = token_of(input.columns[column], predicted);
  const uint8_t* const weights = embedding.weights + row / kTileRows * device_row_tile_bytes(f, blocks);
  for (int i = static_cast<int>(thread_index()); i < width; i += static_cast<int>(kThreads)) {
    const uint8_t* const from = weights + float_place(f, row % kTileRows, i);
    float weight;
    if constexpr (f == Format::F32) weight = *reinterpret_cast<const float*>(from);
    else if constexpr (f == Format::F16) weight = half_to_float(*reinterpret_cast<const uint16_t*>(from));
    else weight = brain_to_float(*reinterpret_cast<const uint16_t*>(from));
    x[static_cast<size_t>(column) * stride + i] = weight * embedding.scale * scale;
  }
}

}  // namespace

void embed(Format format, const ProductItem& embedding, int blocks, int width, float scale, const StepInput& input, const int* predicted, float* x, int stride, int most, Stream stream) {
  const Grid grid = {static_cast<unsigned>(most), 1, 1};
  switch (format) {
#define FLOATS(name) case Format::name: return launch("embed", embed_floats<Format::name>, grid, kThreads, 0, stream, embedding, blocks, width, scale, input, predicted, x, stride);
    FLOATS(F32) FLOATS(F16) FLOATS(BF16)
#undef FLOATS
#define INTEGERS(name) case Format::name: return launch("embed", embed_integers<Format::name>, grid, kThreads, 0, stream, embedding, blocks, width, scale, input, predicted, x, stride);
    INTEGERS(Q8_0) INTEGERS(Q5_1) INTEGERS(Q5_0) INTEGERS(Q4_1) INTEGERS(Q4_0) INTEGERS(IQ4_NL) INTEGERS(MXFP4) INTEGERS(NVFP4)
    INTEGERS(Q6_K) INTEGERS(Q5_K) INTEGERS(Q4_K) INTEGERS(IQ4_XS) INTEGERS(Q3_K) INTEGERS(Q2_K)
    INTEGERS(IQ3_S) INTEGERS(IQ3_XXS) INTEGERS(IQ2_S) INTEGERS(IQ2_XS) INTEGERS(IQ2_XXS) INTEGERS(IQ1_M) INTEGERS(IQ1_S)
#undef INTEGERS
  }
}

}  // namespace paceline::cuda
