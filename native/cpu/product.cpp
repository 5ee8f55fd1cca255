// The quantized and float products. Order of one output's sum, whatever the number of columns, threads or the chunk:
//
//   total = 0; for each segment of 512 inputs, ascending:
//     acc = 0; for each block of 32 inputs, ascending:
//       acc = fma(float(isum), d_w * d_a, acc)        isum = sum of (code * activation code), an exact integer
//       acc = fma(m_w, d_a * sum(a), acc)             formats with minimums only
//     total = total + acc
//
// float weights: acc = fma(w, a, acc) input by input. Lanes and threads split outputs, never the summed dimension.
// Up to kColumns columns share codes held in registers; more share a panel in cache, unpacked once.
#include "codes.h"
#include "kernels.h"
#include "operations.h"

#ifndef PACELINE_PLANT_ORDER   // test_planted.py builds the core with faults planted, to see that the tests catch them
#define PACELINE_PLANT_ORDER 0
#endif
#ifndef PACELINE_PLANT_UNPACK
#define PACELINE_PLANT_UNPACK 0
#endif

namespace paceline::PACELINE_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int kColumns = 16;
#else
constexpr int kColumns = 4;
#endif

template <Format f>
struct Tile {
  static constexpr size_t kBytes = tile_bytes(f);
  static constexpr int kBias = code_bias(f);
  static constexpr bool kMinimum = has_minimum(f);
  static Codes codes(const uint8_t* tile) {
    if constexpr (f == Format::Q8_0) return load_codes(tile);
    Codes codes = load_nibbles(tile);
    if constexpr (has_fifth_bit(f)) add_fifth_bits(codes, tile + kFifthBits);
    if constexpr (f == Format::IQ4_NL) look_up(codes, kNonlinear);
    if constexpr (f == Format::MXFP4) look_up(codes, kFloat4);
    return codes;
  }
  static Lanes scale(const uint8_t* tile) {
    if constexpr (f == Format::MXFP4) return load_powers(tile + scale_offset(f));
    return load_half(reinterpret_cast<const uint16_t*>(tile + scale_offset(f)));
  }
  static Lanes minimum(const uint8_t* tile) {
    if constexpr (kMinimum) return load_half(reinterpret_cast<const uint16_t*>(tile + minimum_offset(f)));
    return zero();
  }
};

template <class Source>
struct Panel {
  static constexpr size_t kBytes = sizeof(PanelTile);
  static constexpr int kBias = Source::kBias;
  static constexpr bool kMinimum = Source::kMinimum;
  static const PanelTile& at(const uint8_t* tile) { return *reinterpret_cast<const PanelTile*>(tile); }
  static Codes codes(const uint8_t* tile) { return load_codes(at(tile).codes); }
  static Lanes scale(const uint8_t* tile) { return load(at(tile).scale); }
  static Lanes minimum(const uint8_t* tile) { return load(at(tile).minimum); }
};

// weights of 16 rows for input k
template <Format f>
Lanes float_weights(const uint8_t* tiles, int k) {
  const size_t place = static_cast<size_t>(k) * kTileRows;
  if constexpr (f == Format::F32) return load(reinterpret_cast<const float*>(tiles) + place);
  if constexpr (f == Format::F16) return load_half(reinterpret_cast<const uint16_t*>(tiles) + place);
  if constexpr (f == Format::BF16) return load_brain(reinterpret_cast<const uint16_t*>(tiles) + place);
}

// tiles [blocks], x [blocks][kGroup] -> sums [n][16]
template <class F, int n>
void integer_sums(const uint8_t* tiles, int blocks, const QuantizedBlock* x, float* sums) {
  constexpr int segment = PACELINE_PLANT_ORDER && n > 8 ? kSegmentBlocks / 2 : kSegmentBlocks;
  for (int c = 0; c < n; ++c) store(sums + kTileRows * c, zero());
  for (int first = 0; first < blocks; first += segment) {
    const int end = first + segment < blocks ? first + segment : blocks;
    Lanes acc[n];
    for (int c = 0; c < n; ++c) acc[c] = zero();
    for (int b = first; b < end; ++b) {
      const uint8_t* tile = tiles + static_cast<size_t>(b) * F::kBytes;
      __builtin_prefetch(tile + 2048);
      __builtin_prefetch(tile + 2048 + 64);
      __builtin_prefetch(tile + 2048 + 128);
      __builtin_prefetch(tile + 2048 + 192);
      __builtin_prefetch(tile + 2048 + 256);
      const Codes codes = F::codes(tile);
      const Lanes scale = F::scale(tile);
      const Lanes minimum = F::minimum(tile);
      const QuantizedBlock* block = x + static_cast<size_t>(b) * kGroup;
#pragma GCC unroll 16
      for (int c = 0; c < n; ++c) {
        acc[c] = fma(to_float(dot<F::kBias>(codes, block[c])), scale * broadcast(block[c].scale), acc[c]);
        if constexpr (F::kMinimum) acc[c] = fma(minimum, broadcast(block[c].scaled_sum), acc[c]);
      }
    }
    for (int c = 0; c < n; ++c) store(sums + kTileRows * c, load(sums + kTileRows * c) + acc[c]);
  }
}

// weights [inputs][16], x [inputs][kGroup] -> sums [n][16]
template <Format f, int n>
void float_sums(const uint8_t* tiles, int blocks, const float* x, float* sums) {
  for (int c = 0; c < n; ++c) store(sums + kTileRows * c, zero());
  for (int first = 0; first < blocks * kBlock; first += kSegment) {
    const int end = first + kSegment < blocks * kBlock ? first + kSegment : blocks * kBlock;
    Lanes acc[n];
    for (int c = 0; c < n; ++c) acc[c] = zero();
    for (int k = first; k < end; ++k) {
      const Lanes w = float_weights<f>(tiles, k);
#pragma GCC unroll 16
      for (int c = 0; c < n; ++c) acc[c] = fma(w, broadcast(x[static_cast<size_t>(k) * kGroup + c]), acc[c]);
    }
    for (int c = 0; c < n; ++c) store(sums + kTileRows * c, load(sums + kTileRows * c) + acc[c]);
  }
}

// Calls sums<F, n> for n = 1 .. kColumns, so that the accumulators stay in registers.
template <class F, int n = kColumns>
void integer_columns(int columns, const uint8_t* tiles, int blocks, const QuantizedBlock* x, float* sums) {
  if (columns == n) return integer_sums<F, n>(tiles, blocks, x, sums);
  if constexpr (n > 1) integer_columns<F, n - 1>(columns, tiles, blocks, x, sums);
}
template <Format f, int n = kColumns>
void float_columns(int columns, const uint8_t* tiles, int blocks, const float* x, float* sums) {
  if (columns == n) return float_sums<f, n>(tiles, blocks, x, sums);
  if constexpr (n > 1) float_columns<f, n - 1>(columns, tiles, blocks, x, sums);
}

// f(first column, number of columns) for runs of at most kColumns within a group.
template <class Function>
void each_run(int columns, Function f) {
  for (int c = 0; c < columns; c += kColumns) f(c, columns - c < kColumns ? columns - c : kColumns);
}

template <class F>
void integer_tile(const uint8_t* tiles, int blocks, const QuantizedBlock* x, int columns, float* sums, Scratch& scratch) {
  const auto input = [=](int c) { return x + static_cast<size_t>(c / kGroup) * blocks * kGroup + c % kGroup; };
  if (columns <= kColumns) {
    scratch.weight_bytes += static_cast<uint64_t>(blocks) * F::kBytes;
    return integer_columns<F>(columns, tiles, blocks, x, sums);
  }
  if (PACELINE_PLANT_UNPACK) {
    return each_run(columns, [&](int c, int n) {
      scratch.weight_bytes += static_cast<uint64_t>(blocks) * F::kBytes;
      integer_columns<F>(n, tiles, blocks, input(c), sums + static_cast<size_t>(c) * kTileRows);
    });
  }
  PanelTile* panel = reinterpret_cast<PanelTile*>(scratch.panel);
  for (int b = 0; b < blocks; ++b) {
    const uint8_t* tile = tiles + static_cast<size_t>(b) * F::kBytes;
    store_codes(panel[b].codes, F::codes(tile));
    store(panel[b].scale, F::scale(tile));
    store(panel[b].minimum, F::minimum(tile));
  }
  scratch.weight_bytes += static_cast<uint64_t>(blocks) * F::kBytes;
  each_run(columns, [&](int c, int n) {
    integer_columns<Panel<F>>(n, scratch.panel, blocks, input(c), sums + static_cast<size_t>(c) * kTileRows);
  });
}

template <Format f>
void float_tile(const uint8_t* tiles, int blocks, const float* x, int columns, float* sums, Scratch& scratch) {
  scratch.weight_bytes += static_cast<uint64_t>(blocks) * tile_bytes(f);
  if (columns <= kColumns) return float_columns<f>(columns, tiles, blocks, x, sums);
  if (f != Format::F32) {  // an F32 tile is its own panel
    float* panel = reinterpret_cast<float*>(scratch.panel);
    for (int k = 0; k < blocks * kBlock; ++k) store(panel + static_cast<size_t>(k) * kTileRows, float_weights<f>(tiles, k));
    tiles = scratch.panel;
  }
  each_run(columns, [&](int c, int n) {
    const float* input = x + static_cast<size_t>(c / kGroup) * blocks * kBlock * kGroup + c % kGroup;
    float_columns<Format::F32>(n, tiles, blocks, input, sums + static_cast<size_t>(c) * kTileRows);
  });
}

// Row tile `t` of `weights` times all columns -> sums [columns][16]
void tile_sums(const Matrix& weights, int t, const Activations& input, int columns, float* sums, Scratch& scratch) {
  const uint8_t* tiles = weights.row_tile(t);
  const auto integer = [&](auto tile) { integer_tile<decltype(tile)>(tiles, weights.blocks, input.quantized, columns, sums, scratch); };
  switch (weights.format) {
    case Format::F32: return float_tile<Format::F32>(tiles, weights.blocks, input.wide, columns, sums, scratch);
    case Format::F16: return float_tile<Format::F16>(tiles, weights.blocks, input.wide, columns, sums, scratch);
    case Format::BF16: return float_tile<Format::BF16>(tiles, weights.blocks, input.wide, columns, sums, scratch);
    case Format::Q8_0: return integer(Tile<Format::Q8_0>());
    case Format::Q5_1: return integer(Tile<Format::Q5_1>());
    case Format::Q5_0: return integer(Tile<Format::Q5_0>());
    case Format::Q4_1: return integer(Tile<Format::Q4_1>());
    case Format::Q4_0: return integer(Tile<Format::Q4_0>());
    case Format::IQ4_NL: return integer(Tile<Format::IQ4_NL>());
    case Format::MXFP4: return integer(Tile<Format::MXFP4>());
  }
}

}  // namespace

void product(const Matrix& weights, int tile, const Activations& input, int columns, Epilogue epilogue, float* out, size_t stride,
             Scratch& scratch) {
  tile_sums(weights, tile, input, columns, scratch.sums, scratch);
  for (int c = 0; c < columns; ++c) {
    float* destination = out + static_cast<size_t>(c) * stride + static_cast<size_t>(kTileRows) * tile;
    const Lanes sum = load(scratch.sums + static_cast<size_t>(kTileRows) * c);
    store(destination, epilogue == Epilogue::Add ? load(destination) + sum : sum);
  }
}

void gated_product(const Matrix& gate, const Matrix& up, int pair, const Activations& input, int columns, const Activations& output,
                   int output_blocks, Scratch& scratch) {
  const size_t size = static_cast<size_t>(columns) * kTileRows;
  for (int half = 0; half < 2; ++half) {
    tile_sums(gate, 2 * pair + half, input, columns, scratch.sums + size * (2 * half), scratch);
    tile_sums(up, 2 * pair + half, input, columns, scratch.sums + size * (2 * half + 1), scratch);
  }
  for (int c = 0; c < columns; ++c) {
    float y[kBlock];
    for (int half = 0; half < 2; ++half) {
      const Lanes g = load(scratch.sums + size * (2 * half) + kTileRows * c);
      const Lanes u = load(scratch.sums + size * (2 * half + 1) + kTileRows * c);
      store(y + kTileRows * half, g / (broadcast(1.0f) + exponential(zero() - g)) * u);
    }
    quantize(y, pair, 1, c, output_blocks, output);
  }
}

}  // namespace paceline::PACELINE_ISA
