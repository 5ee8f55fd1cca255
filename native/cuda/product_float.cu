// Products of float weights: acc = fma(w, a, acc) input by input, segments as everywhere, so that they too give the CPU's bits.
// Lanes 0 .. 15 have the 16 rows of even columns, lanes 16 .. 31 those of odd ones: both halves read the same weights, 16 bytes a
// lane. At 16 columns the arithmetic, not memory, is the bound of this form (docs/cuda.md).
#include "product.h"

namespace paceline::cuda {
namespace {

template <Format f>
constexpr int kInputs = 16 / layout(f).file_bytes;  // of one row to a load

template <Format f>
PACELINE_DEVICE float weight_of(const Word4& words, int i) {
  if constexpr (f == Format::F32) return bits_to_float(words.v[i]);
  const uint16_t bits = static_cast<uint16_t>(words.v[i / 2] >> 16 * (i % 2));
  return f == Format::F16 ? half_to_float(bits) : brain_to_float(bits);
}

// n: columns of each half of the warp.
template <Format f, int n>
PACELINE_KERNEL_FOR(kProductWarps * kWarp, n == 1 ? 4 : n == 4 && f != Format::F32 ? 3 : 2) product_of_floats(Product product, int kept) {
  const size_t row_bytes = device_row_tile_bytes(f, product.blocks);
  begin_product(product, [&] {
    const OwnTile tile = own_tile(product, {});
    fetch_segment<f>(tile.weights + tile.tile * row_bytes, product.blocks, static_cast<int>(warp_index()));
  });
  const OwnColumns columns = own_columns(product, 2 * n);
  if (!columns.end) return;
  SharedMemory memory;
  float* const sums = memory.take<float>(static_cast<size_t>(kept) * kTileRows * 2 * n);
  const OwnTile own = own_tile(product, columns);
  const int lane = static_cast<int>(lane_index()), row = lane % kTileRows, odd = lane / kTileRows;
  const size_t inputs = static_cast<size_t>(product.input.blocks) * kBlock;
  const uint8_t* const row_tile = own.weights + own.tile * row_bytes;
  const uint8_t* const weights = row_tile + row * 16;
  // Columns of this half; one that is not there is another's again, and nobody's output.
  const int mine = (columns.end - columns.first - odd + 1) / 2;
  const float* wide[n];
  PACELINE_UNROLL
  for (int c = 0; c < n; ++c) wide[c] = product.input.wide + (columns.first + odd + 2 * (c < mine ? c : mine > 0 ? mine - 1 : 0)) * inputs;
  float total[kOwnOutputs<2 * n, 1>];
  add_segments<2 * n, 1>(product, kept, sums, total, [&](int, int first, int end, float* to) {
    constexpr int kLoads = kBlock / kInputs<f>;  // of a block, all on their way while the block before is worked on
    float acc[n];
    PACELINE_UNROLL
    for (int c = 0; c < n; ++c) acc[c] = 0.0f;
    Word4 words[kLoads];
    PACELINE_UNROLL
    for (int l = 0; l < kLoads; ++l) words[l] = load_once(weights + (static_cast<size_t>(first) * kLoads + l) * 256);
    PACELINE_UNROLL_BY(1)
    for (int block = first; block < end; ++block) {
      PACELINE_UNROLL
      for (int l = 0; l < kLoads; ++l) {
        const Word4 own = words[l];
        if (block + 1 < end) words[l] = load_once(weights + (static_cast<size_t>(block + 1) * kLoads + l) * 256);
        PACELINE_UNROLL
        for (int i = 0; i < kInputs<f>; i += 4) {
          PACELINE_UNROLL
          for (int c = 0; c < n; ++c) {
            const Word4 x = *reinterpret_cast<const Word4*>(wide[c] + block * kBlock + l * kInputs<f> + i);
            PACELINE_UNROLL
            for (int j = 0; j < 4; ++j) acc[c] = fma(weight_of<f>(own, i + j), bits_to_float(x.v[j]), acc[c]);
          }
        }
      }
    }
    PACELINE_UNROLL
    for (int c = 0; c < n; ++c) to[(2 * c + odd) * kTileRows + row] = acc[c];
  }, [&](int, int segment) { fetch_segment<f>(row_tile, product.blocks, segment); });
  store_tile<2 * n>(product, own, columns, total);
}

template <Format f, int n>
void launch_float_product(const Product& product, int most_columns, Stream stream) {
  const int kept = segments_kept(product.blocks, 2 * n);
  launch("product_of_floats", product_of_floats<f, n>, product_grid(product, most_columns, 2 * n), kProductWarps * kWarp,
         static_cast<size_t>(kept) * kTileRows * 2 * n * sizeof(float), stream, product, kept);
}

template <Format f>
void float_product_of(const Product& product, int most_columns, Stream stream) {
  switch (columns_together(f, most_columns)) {
    case 2: return launch_float_product<f, 1>(product, most_columns, stream);
    case 8: return launch_float_product<f, 4>(product, most_columns, stream);
    default: return launch_float_product<f, 8>(product, most_columns, stream);
  }
}

}  // namespace

void float_product(Format format, const Product& product, int most_columns, Stream stream) {
  switch (format) {
    case Format::F32: return float_product_of<Format::F32>(product, most_columns, stream);
    case Format::F16: return float_product_of<Format::F16>(product, most_columns, stream);
    case Format::BF16: return float_product_of<Format::BF16>(product, most_columns, stream);
    default: return;
  }
}

}  // namespace paceline::cuda
