// The products with integer weights, as templates over the format. Order of one output's sum, whatever the number of
// columns, threads or the chunk:
//
//   total = 0; for each segment of 512 inputs, ascending:
//     acc = 0; for each block of 32 inputs, ascending:
//       sum = float(isum) * d_w                       isum = sum of (code * activation code), an exact integer
//       sum = fma(m_w, sum(a), sum)                   formats with minimums only
//       or, where the halves of a block, low and high, have scales of their own:
//       sum = fma(float(isum_high), d_high, float(isum_low) * d_low)
//       sum = fma(m_high, sum(a_high), fma(m_low, sum(a_low), sum))   with minimums only
//       acc = fma(sum, d_a, acc)
//     total = total + acc
//
// d_w and m_w are exact in f32: a half times at most 8 bits. Of NVFP4 isum * d is exact too (4 bits times 15), so that a GPU may put the scales into weights
// of 16 bits. Lanes and threads split outputs, never the summed dimension.
// Up to kColumns columns share codes as soon as they are unpacked; more share a panel in cache, unpacked once,
// a few segments at a time.
#pragma once

#include <type_traits>

#include "codes.h"
#include "fetch.h"
#include "grid.h"
#include "operations.h"

#if defined(__AMX_INT8__)
#include "tiles_amx.h"
#endif

#ifndef PACELINE_PLANT_ORDER   // test_planted.py builds the core with faults planted, to see that the tests catch them
#define PACELINE_PLANT_ORDER 0
#endif
#ifndef PACELINE_PLANT_UNPACK
#define PACELINE_PLANT_UNPACK 0
#endif

namespace paceline::PACELINE_ISA {

// Sixteen accumulators need twice the registers that AVX2 has, but keeping most of them in L1 costs less than unpacking codes into it
// (docs/decisions.md). NEON's registers hold as many bytes; more columns are not measured there.
#if defined(__AVX2__)
constexpr int kColumns = kGroup;
#else
constexpr int kColumns = 4;
#endif

// f(first column, number of columns) for runs of at most `most` within a group.
template <int most = kColumns, class Function>
void each_run(int columns, Function f) {
  for (int c = 0; c < columns; c += most) f(c, columns - c < most ? columns - c : most);
}

// One row tile of `weights.blocks` tiles of an integer format times all columns -> sums [columns][16]. One file to a group
// of formats, so that they compile side by side.
void integer_tile_32(Format format, const uint8_t* tiles, int blocks, const QuantizedBlock* x, int columns, float* sums, Scratch& scratch);
void integer_tile_grid(Format format, const uint8_t* tiles, int blocks, const QuantizedBlock* x, int columns, float* sums, Scratch& scratch);
void integer_tile_256(Format format, const uint8_t* tiles, int blocks, const QuantizedBlock* x, int columns, float* sums, Scratch& scratch);

// What multiplies a panel is AMX (panel_amx.h), for formats with one scale to a block.
template <bool amx>
struct PanelRegisters {};
#if defined(__AMX_INT8__)
constexpr bool has_amx(int scales) { return scales == 1; }
template <>
struct PanelRegisters<true> : TileRegisters {
  static constexpr TileSizes sizes = block_tiles();
  PanelRegisters() : TileRegisters(sizes) {}
};
#else
constexpr bool has_amx(int) { return false; }
#endif

constexpr CodeRange codes_of(Format f) {  // some formats use only a part of it
  const int bias = layout(f).bias, bits = layout(f).low_bits + layout(f).high_bits;
  return {bias, bias ? 2 * bias - 1 : bits > 4 ? 31 : 15};
}
// A panel's codes have one of a few ranges, the least that the format's own allows; for AMX, which multiplies signed bytes, no bias.
constexpr CodeRange panel_codes(Format f) {
  const CodeRange own = codes_of(f);
  if (has_amx(layout(f).scales)) return kSignedCodes;
  if (kNarrow && layout(f).scales == 1 && own.most == 15) return own;
  if (own.bias == 0) return {0, 31};
  return own.bias <= 16 ? CodeRange{16, 31} : own;
}

// Weights to fetch from memory meanwhile, a tile for each of a panel; none where tile_bytes is 0.
struct Ahead {
  const uint8_t* tiles;
  size_t tile_bytes;
};

// panel [blocks] PanelTile: adds to sums [columns][16], or begins them; columns at most kColumns.
void panel_columns(CodeRange range, bool minimum, int scales, int columns, const uint8_t* panel, int blocks, const QuantizedBlock* x, bool begins, float* sums,
                   const Ahead& ahead);

// The plane of low bits: pairs of bits or nibbles.
template <int bits>
PACELINE_INLINE auto load_low(const uint8_t* plane) {
  if constexpr (bits == 2) return load_pairs(plane);
  else return load_nibbles(plane);
}

// Tile `block` of a row tile.
template <Format f>
struct Tile {
  static constexpr CodeRange kCodes = codes_of(f);
  static constexpr bool kMinimum = layout(f).minimum;
  static constexpr int kScales = layout(f).scales;
  static constexpr size_t kBytes = tile_bytes(f);
  const uint8_t* header;
  const uint8_t* tile;

  PACELINE_INLINE Tile(const uint8_t* tiles, int block) : header(tiles + unit_offset(f, block)), tile(header + tile_offset(f, block)) {}

  PACELINE_INLINE void fetch(const Ahead&, int) const { fetch_stream(tile, kBytes); }

  PACELINE_INLINE auto codes() const {
    if constexpr (has_grid(f)) return load_grid<f>(tile);
    else if constexpr (is_nonlinear(f)) return look_up(planes(), kNonlinear);
    else if constexpr (is_float4(f)) return look_up(planes(), kFloat4);
    else return planes();
  }
  template <int half>
  PACELINE_INLINE Lanes scale() const {
    const uint8_t* scales = tile + scale_offset(f);
    const uint8_t* own = scales + kTileRows * half;
    if constexpr (f == Format::MXFP4) return load_powers(scales);
    else if constexpr (f == Format::NVFP4) return load_small_floats(own);
    else if constexpr (layout(f).header_bytes == 0) return load_half(reinterpret_cast<const uint16_t*>(scales));
    else if constexpr (f == Format::Q5_K || f == Format::Q4_K) return first_half() * to_float(load_unsigned(scales));
    else if constexpr (f == Format::Q2_K) return first_half() * to_float(load_low_nibbles(own));
    else if constexpr (has_grid(f)) return first_half() * ((to_float(kScales == 1 ? load_folded_nibbles(scales) : half ? load_high_nibbles(scales) : load_low_nibbles(scales)) + broadcast(0.5f)) * broadcast(patterns_of(f).factor));
    else return first_half() * to_float(load_signed(own));
  }
  template <int half>
  PACELINE_INLINE Lanes minimum() const {
    const uint8_t* scales = tile + scale_offset(f);
    if constexpr (!kMinimum) return zero();
    else if constexpr (layout(f).header_bytes == 0) return load_half(reinterpret_cast<const uint16_t*>(scales + 2 * kTileRows));
    else if constexpr (f == Format::Q2_K) return zero() - second_half() * to_float(load_high_nibbles(scales + kTileRows * half));
    else return zero() - second_half() * to_float(load_unsigned(scales + kTileRows));
  }

 private:
  PACELINE_INLINE auto planes() const {
    if constexpr (layout(f).low_bits == 8) return load_codes(tile);
    else if constexpr (layout(f).high_bits == 1) return add_bits<1 << layout(f).low_bits>(load_low<layout(f).low_bits>(tile), tile + high_offset(f));
    else if constexpr (layout(f).high_bits == 2) return add_pairs(load_low<layout(f).low_bits>(tile), tile + high_offset(f));
    else return load_low<layout(f).low_bits>(tile);
  }
  PACELINE_INLINE Lanes first_half() const { return load_half(reinterpret_cast<const uint16_t*>(header)); }
  PACELINE_INLINE Lanes second_half() const { return load_half(reinterpret_cast<const uint16_t*>(header) + kTileRows); }
};

template <CodeRange range, bool with_minimum, int scales>
struct Panel {
  static constexpr CodeRange kCodes = range;
  static constexpr bool kMinimum = with_minimum;
  static constexpr int kScales = scales;
  static constexpr size_t kBytes = sizeof(PanelTile);
  const PanelTile* tile;

  PACELINE_INLINE Panel(const uint8_t* panel, int block) : tile(reinterpret_cast<const PanelTile*>(panel) + block) {}

  PACELINE_INLINE static void fetch(const Ahead& weights, int block) { fetch_far(weights.tiles + block * weights.tile_bytes, weights.tile_bytes); }

  PACELINE_INLINE auto codes() const { return load_codes(tile->codes); }
  template <int half>
  PACELINE_INLINE Lanes scale() const { return load(tile->half[half].scale); }
  template <int half>
  PACELINE_INLINE Lanes minimum() const { return load(tile->half[half].minimum); }
};

// A dot product as floats, and times the scales of 16 rows, rounded once. With AVX-512 that is one operation for each column, as the bits of a dot product are those
// of a float; AVX2 has no register for what that needs.
#if defined(__AVX512F__)
PACELINE_INLINE Lanes float_of_dot(DotLanes dot) { return raised(dot) - broadcast(kRaised); }
struct TileScales {
  Lanes scale, offset;  // offset: -kRaised * scale, exact: a scale has no more than 21 significant bits, and is finite or NaN (repack.cpp)
  PACELINE_INLINE explicit TileScales(Lanes scales) : scale(scales), offset(scales * broadcast(-kRaised)) {}
  PACELINE_INLINE Lanes times(DotLanes dot) const { return fma(raised(dot), scale, offset); }
};
#else
PACELINE_INLINE Lanes float_of_dot(DotLanes dot) { return to_float(dot); }
struct TileScales {
  Lanes scale;
  PACELINE_INLINE explicit TileScales(Lanes scales) : scale(scales) {}
  PACELINE_INLINE Lanes times(DotLanes dot) const { return to_float(dot) * scale; }
};
#endif

// What becomes of the dot products of a block.
template <class F>
struct BlockSums {
  TileScales scales;
  Lanes minimum, high_scale, high_minimum;

  PACELINE_INLINE explicit BlockSums(const F& tile) : scales(tile.template scale<0>()), minimum(tile.template minimum<0>()) {
    if constexpr (F::kScales == 2) {
      high_scale = tile.template scale<1>();
      high_minimum = tile.template minimum<1>();
    }
  }
  // acc and the sum of a column whose dot product is that of all inputs of the block, or those of its halves.
  PACELINE_INLINE Lanes add(Lanes acc, DotLanes dot, const QuantizedBlock& x) const {
    Lanes sum = scales.times(dot);
    if constexpr (F::kMinimum) sum = fma(minimum, broadcast(x.float_sum), sum);
    return fma(sum, broadcast(x.scale), acc);
  }
  PACELINE_INLINE Lanes add(Lanes acc, DotLanes low, DotLanes high, const QuantizedBlock& x) const {
    Lanes sum = fma(float_of_dot(high), high_scale, scales.times(low));
    if constexpr (F::kMinimum) {
      sum = fma(minimum, broadcast(static_cast<float>(input_sum<2, 0>(x))), sum);
      sum = fma(high_minimum, broadcast(static_cast<float>(input_sum<2, 1>(x))), sum);
    }
    return fma(sum, broadcast(x.scale), acc);
  }
};

constexpr int segment_blocks(int columns) { return PACELINE_PLANT_ORDER && columns > kColumns / 2 ? kSegmentBlocks / 2 : kSegmentBlocks; }

// Adds a segment's sums to those of `columns` columns [columns][16], or begins them.
template <int n>
PACELINE_INLINE void keep_segment(const Lanes (&acc)[n], int columns, bool begins, float* sums) {
  PACELINE_UNROLL
  for (int c = 0; c < n; ++c)
    if (c < columns) store(sums + kTileRows * c, (begins ? zero() : load(sums + kTileRows * c)) + acc[c]);
}

// tiles [blocks], x [blocks][kGroup]: adds to sums [columns][16], or begins them, segment by segment. Columns up to n are
// the padding of their group.
template <class F, int n>
void integer_sums(const uint8_t* tiles, int blocks, const QuantizedBlock* x, int columns, bool begins, float* sums, const Ahead& ahead) {
  constexpr int segment = segment_blocks(n);
  for (int first = 0; first < blocks; first += segment) {
    const int end = first + segment < blocks ? first + segment : blocks;
    Lanes acc[n];
    for (int c = 0; c < n; ++c) acc[c] = zero();
    for (int b = first; b < end; ++b) {
      const F tile(tiles, b);
      tile.fetch(ahead, b);
      const BlockSums<F> sum(tile);
      const std::conditional_t<n == 1 && F::kCodes.bias < 128, decltype(tile.codes()), Codes> codes = tile.codes();
      const QuantizedBlock* block = x + static_cast<size_t>(b) * kGroup;
      const auto add = [&]<int m>(int c) PACELINE_INLINED {
        if constexpr (F::kScales == 1) {
          const Dots<F::kCodes, 1, 0, m> dots(codes, block + c);
          PACELINE_UNROLL
          for (int k = 0; k < m; ++k) acc[c + k] = sum.add(acc[c + k], dots[k], block[c + k]);
        } else {
          const Dots<F::kCodes, 2, 1, m> high(codes, block + c);
          const Dots<F::kCodes, 2, 0, m> low(codes, block + c);
          PACELINE_UNROLL
          for (int k = 0; k < m; ++k) acc[c + k] = sum.add(acc[c + k], low[k], high[k], block[c + k]);
        }
      };
      constexpr int together = kTogether<F::kCodes>, whole = n - n % together;
      PACELINE_UNROLL
      for (int c = 0; c < whole; c += together) add.template operator()<together>(c);
      if constexpr (n > whole) add.template operator()<n - whole>(whole);
    }
    keep_segment(acc, columns, begins, sums);
    begins = false;
  }
}

// Calls sums for a number of columns that is a constant, so that the accumulators stay in registers: the next larger of
// a few, which compile in less time than all.
template <class F>
void integer_columns(int columns, const uint8_t* tiles, int blocks, const QuantizedBlock* x, bool begins, float* sums, const Ahead& ahead = {}) {
  const auto run = [=]<int n>() { integer_sums<F, n>(tiles, blocks, x, columns, begins, sums, ahead); };
  if constexpr (kColumns > 4) {
    if (columns > 12) return run.template operator()<16>();
    if (columns > 8) return run.template operator()<12>();
    if (columns > 6) return run.template operator()<8>();
    if (columns > 5) return run.template operator()<6>();
    if (columns > 4) return run.template operator()<5>();
  }
  if (columns > 3) return run.template operator()<4>();
  if (columns > 2) return run.template operator()<3>();
  if (columns > 1) return run.template operator()<2>();
  return run.template operator()<1>();
}

template <Format f>
void unpack_panel(const uint8_t* tiles, int first, int end, PanelTile* panel) {
  for (int b = first; b < end; ++b, ++panel) {
    const Tile<f> tile(tiles, b);
    Codes codes = tile.codes();
    if constexpr (panel_codes(f).bias != layout(f).bias) raise(codes, panel_codes(f).bias - layout(f).bias);
    store_codes(panel->codes, codes);
    store(panel->half[0].scale, tile.template scale<0>());
    if constexpr (Tile<f>::kMinimum) store(panel->half[0].minimum, tile.template minimum<0>());
    if constexpr (Tile<f>::kScales == 2) {
      store(panel->half[1].scale, tile.template scale<1>());
      if constexpr (Tile<f>::kMinimum) store(panel->half[1].minimum, tile.template minimum<1>());
    }
  }
}

// Sums [columns][16] of a row tile. While the first columns meet a panel, the weights of the next one come from memory.
template <Format f>
void integer_tile(const uint8_t* tiles, int blocks, const QuantizedBlock* x, int columns, float* sums, Scratch& scratch) {
  const auto input = [=](int c) { return x + static_cast<size_t>(c / kGroup) * blocks * kGroup + c % kGroup; };
  if (columns <= kColumns) {
    scratch.weight_bytes += unit_offset(f, blocks);
    return integer_columns<Tile<f>>(columns, tiles, blocks, x, true, sums);
  }
  if (PACELINE_PLANT_UNPACK) {
    return each_run(columns, [&](int c, int n) {
      scratch.weight_bytes += unit_offset(f, blocks);
      integer_columns<Tile<f>>(n, tiles, blocks, input(c), true, sums + static_cast<size_t>(c) * kTileRows);
    });
  }
  scratch.weight_bytes += unit_offset(f, blocks);
  [[maybe_unused]] const PanelRegisters<has_amx(layout(f).scales)> registers;
  for (int first = 0; first < blocks; first += kPanelBlocks) {
    const int end = first + kPanelBlocks < blocks ? first + kPanelBlocks : blocks;
    unpack_panel<f>(tiles, first, end, reinterpret_cast<PanelTile*>(scratch.panel));
    each_run(columns, [&](int c, int n) {
      panel_columns(panel_codes(f), layout(f).minimum, layout(f).scales, n, scratch.panel, end - first, input(c) + static_cast<size_t>(first) * kGroup,
                    first == 0, sums + static_cast<size_t>(c) * kTileRows, {tiles + unit_offset(f, end), c ? 0 : Tile<f>::kBytes});
    });
  }
}

}  // namespace paceline::PACELINE_ISA
