// Products of a panel by AMX: one instruction multiplies a tile's codes, as signed bytes, with a block of sixteen columns and leaves their dot products in a
// register of 16 x 16 integers. These are exact, so what is summed of them has the bits of all other kernels. For formats with one scale to a block: two instructions
// of 16 inputs each gain little or lose (docs/decisions.md).
#pragma once

#include "integer_product.h"

namespace paceline::PACELINE_ISA {

// Dot products of a block's sixteen columns, in memory, since no instruction moves them from those registers to others.
struct alignas(64) TileDots {
  int32_t of[kGroup * kTileRows];

  // An odd block has other registers than an even one, so that it need not wait for that.
  template <bool odd>
  PACELINE_INLINE void compute(const PanelTile& tile, const QuantizedBlock* x) {
    constexpr int kInputs = sizeof(QuantizedBlock), kRow = 4 * kTileRows;  // bytes from one to the next
    if constexpr (odd) {
      _tile_zero(1);
      _tile_loadd(3, x->codes, kInputs);
      _tile_loadd(5, tile.codes, kRow);
      _tile_dpbssd(1, 3, 5);
      _tile_stored(1, of, kRow);
    } else {
      _tile_zero(0);
      _tile_loadd(2, x->codes, kInputs);
      _tile_loadd(4, tile.codes, kRow);
      _tile_dpbssd(0, 2, 4);
      _tile_stored(0, of, kRow);
    }
  }
  // As the bits of floats (codes_avx512.h).
  PACELINE_INLINE DotLanes column(int c) const {
    return {_mm512_add_epi32(_mm512_load_si512(of + c * kTileRows), _mm512_castps_si512(_mm512_set1_ps(kRaised)))};
  }
};

// As integer_sums(), within the life of PanelRegisters. A block's dot products are on their way while those of the block before it are summed.
template <class F, int n>
void amx_sums(const uint8_t* panel, int blocks, const QuantizedBlock* x, int columns, bool begins, float* sums, const Ahead& ahead) {
  constexpr int segment = segment_blocks(n);
  const PanelTile* const tiles = reinterpret_cast<const PanelTile*>(panel);
  TileDots dots[2];  // of even blocks and of odd ones
  asm volatile("" : : : "memory");  // GCC is not told that _tile_loadd reads memory: all of the panel is written before
  dots[0].compute<false>(tiles[0], x);
  for (int first = 0; first < blocks; first += segment) {
    const int end = first + segment < blocks ? first + segment : blocks;
    Lanes acc[n];
    for (int c = 0; c < n; ++c) acc[c] = zero();
    for (int b = first; b < end; ++b) {
      const QuantizedBlock* block = x + static_cast<size_t>(b) * kGroup;
      if (b + 1 < blocks) {
        if (b % 2) dots[0].compute<false>(tiles[b + 1], block + kGroup);
        else dots[1].compute<true>(tiles[b + 1], block + kGroup);
      }
      const F tile(panel, b);
      tile.fetch(ahead, b);
      const BlockSums<F> sum(tile);
      const TileDots& own = dots[b % 2];
      PACELINE_UNROLL
      for (int c = 0; c < n; ++c) acc[c] = sum.add(acc[c], own.column(c), block[c]);
    }
    keep_segment(acc, columns, begins, sums);
    begins = false;
  }
}

template <class F>
void amx_columns(int columns, const uint8_t* panel, int blocks, const QuantizedBlock* x, bool begins, float* sums, const Ahead& ahead) {
  const auto run = [=]<int n>() { amx_sums<F, n>(panel, blocks, x, columns, begins, sums, ahead); };
  if (columns > 12) return run.template operator()<16>();
  if (columns > 8) return run.template operator()<12>();
  if (columns > 4) return run.template operator()<8>();
  return run.template operator()<4>();
}

}  // namespace paceline::PACELINE_ISA
