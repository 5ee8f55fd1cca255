// Products of float weights: acc = fma(w, a, acc) input by input, segments as everywhere, so that they too give the CPU's bits.
// A lane has some rows of some columns: each weight and each input that it loads serves more than one fma, since an SM loads a quarter as many numbers from
// its L1 cache in a cycle as it multiplies. At 16 columns the arithmetic, not memory, is the bound of this form (docs/cuda.md).
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

// A lane's rows are row, row + kRowLanes, ...; its columns group, group + kColumnLanes, ...
template <int rows, int columns>
struct Lanes {
  static constexpr int kRowLanes = kTileRows / rows, kColumnLanes = kWarp / kRowLanes, kMost = columns * kColumnLanes;
};

template <Format f, int rows, int n>
PACELINE_KERNEL_FOR(kProductWarps * kWarp, rows == 1 ? 4 : 2) product_of_floats(Product product, int kept) {
  using L = Lanes<rows, n>;
  const size_t row_bytes = device_row_tile_bytes(f, product.blocks);
  begin_product(product, [&] {
    const OwnTile tile = own_tile(product, {});
    fetch_segment<f>(tile.weights + tile.tile * row_bytes, product.blocks, static_cast<int>(warp_index()));
  });
  const OwnColumns columns = own_columns(product, L::kMost);
  if (!columns.end) return;
  SharedMemory memory;
  float* const sums = memory.take<float>(static_cast<size_t>(kept) * kTileRows * L::kMost);
  const OwnTile own = own_tile(product, columns);
  const int lane = static_cast<int>(lane_index()), row = lane % L::kRowLanes, group = lane / L::kRowLanes;
  const uint8_t* const row_tile = own.weights + own.tile * row_bytes;
  const uint8_t* const weights = row_tile + row * 16;
  // A column that is not there is the last one again, and nobody's output.
  const float* wide[n];
  PACELINE_UNROLL
  for (int c = 0; c < n; ++c) {
    const int column = columns.first + group + c * L::kColumnLanes;
    wide[c] = product.input.wide + wide_place(product.input.blocks, column < columns.end ? column : columns.end - 1, 0);
  }
  float total[kOwnOutputs<L::kMost, 1>];
  add_segments<L::kMost, 1>(product, kept, sums, total, [&](int, int first, int end, float* to) {
    constexpr int kLoads = kBlock / kInputs<f>, kAhead = kLoads * rows <= 8 ? kLoads : 8 / rows;  // loads of a row on their way
    float acc[rows][n];
    PACELINE_UNROLL
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < n; ++c) acc[r][c] = 0.0f;
    const uint8_t* from = weights + static_cast<size_t>(first) * kLoads * 256;
    const float* x[n];
    PACELINE_UNROLL
    for (int c = 0; c < n; ++c) x[c] = wide[c] + static_cast<size_t>(first) * kBlock * kColumns;
    const auto load = [&](int l, int r) { return load_once(from + l * 256 + r * L::kRowLanes * 16); };
    Word4 words[kAhead][rows];
    PACELINE_UNROLL
    for (int l = 0; l < kAhead; ++l)
      for (int r = 0; r < rows; ++r) words[l][r] = load(l, r);
    PACELINE_UNROLL_BY(1)
    for (int left = (end - first) * kLoads; left > 0; left -= kAhead) {
      from += kAhead * 256;
      PACELINE_UNROLL
      for (int l = 0; l < kAhead; ++l) {
        PACELINE_UNROLL
        for (int i = 0; i < kInputs<f>; i += 4) {
          PACELINE_UNROLL
          for (int c = 0; c < n; ++c) {
            const Word4 four = *reinterpret_cast<const Word4*>(x[c] + (l * kInputs<f> + i) * kColumns);
            PACELINE_UNROLL
            for (int j = 0; j < 4; ++j)
              for (int r = 0; r < rows; ++r) acc[r][c] = fma(weight_of<f>(words[l][r], i + j), bits_to_float(four.v[j]), acc[r][c]);
          }
        }
        if (left > kAhead) {
          PACELINE_UNROLL
          for (int r = 0; r < rows; ++r) words[l][r] = load(l, r);
        }
      }
      PACELINE_UNROLL
      for (int c = 0; c < n; ++c) x[c] += kAhead * kInputs<f> * kColumns;
    }
    PACELINE_UNROLL
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < n; ++c) to[(group + c * L::kColumnLanes) * kTileRows + row + r * L::kRowLanes] = acc[r][c];
  }, [&](int, int segment) { fetch_segment<f>(row_tile, product.blocks, segment); });
  store_tile<L::kMost>(product, own, columns, total);
}

template <Format f, int rows, int n>
void launch_float_product(const Product& product, int most_columns, Stream stream) {
  constexpr int kMost = Lanes<rows, n>::kMost;
  const int kept = segments_kept(product.blocks, kMost);
  launch("product_of_floats", product_of_floats<f, rows, n>, product_grid(product, most_columns, kMost), kProductWarps * kWarp,
         static_cast<size_t>(kept) * kTileRows * kMost * sizeof(float), stream, product, kept);
}

template <Format f>
void float_product_of(const Product& product, int most_columns, Stream stream) {
  switch (columns_together(f, most_columns)) {
    case 2: return launch_float_product<f, 1, 1>(product, most_columns, stream);
    case 8: return launch_float_product<f, 2, 2>(product, most_columns, stream);
    default: return launch_float_product<f, 4, 2>(product, most_columns, stream);
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
