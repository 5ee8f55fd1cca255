// A unit of integer weights in the registers of a warp: loaded once, unpacked tile by tile as the A operand of an mma, used for all columns.
// Lane 4g + t has rows g and g + 8 (`upper`) of inputs 4t .. 4t + 3 of both halves of a block; of a tile's four words, word w is of half w / 2 and upper w % 2.
#pragma once

#include <type_traits>

#include "grid_codes.h"
#include "unit_scales.h"

namespace paceline::cuda {

// A table of sixteen bytes, signed or biased, as compile-time constants.
template <Format f>
struct Table {
  static constexpr uint32_t four(int i) {
    uint32_t word = 0;
    for (int j = 0; j < 4; ++j) {
      const int biased = is_nonlinear(f) ? kNonlinear[4 * i + j] : kFloat4[4 * i + j];
      word |= static_cast<uint32_t>((biased - layout(f).bias + device_bias(f)) & 0xff) << 8 * j;
    }
    return word;
  }
  static constexpr uint32_t b = four(1), d = four(3);
  uint32_t a, c;

  PACELINE_DEVICE void load() {
    a = in_register(four(0));
    c = in_register(four(2));
  }
  // Looks up four adjacent 4-bit codes from the lower or upper half of `codes`.
  PACELINE_DEVICE uint32_t look_up(uint32_t codes, int upper) const {
    if constexpr (device_bias(f)) {
      static_assert(((four(0) | b | four(2) | d) & 0x80808080u) == 0);
      // In the half of the table that does not have it, a code finds a sign, which is 0.
      const uint32_t others = codes ^ 0x88888888u;
      return permute_or_signs(a, b, codes >> 16 * upper) + permute_or_signs(c, d, others >> 16 * upper);
    } else {  // in both halves by their low 3 bits, then selects by the top bit
      const uint32_t selector = selector_of(codes, upper);
      return permute_bytes(permute_bytes(a, b, selector), permute_bytes(c, d, selector), ((codes & 0x8888u << 16 * upper) >> (1 + 16 * upper)) + 0x3210u);
    }
  }

 private:
  // The low 3 bits of each code in that half, for permute_bytes(): masked once for both halves, which the compiler would undo for a shift.
  PACELINE_DEVICE static uint32_t selector_of(uint32_t codes, int upper) {
    const uint32_t both = codes & 0x77777777u;
    return upper ? permute_bytes(both, 0, 0x4432u) : both;
  }
};
struct NoTable {
  PACELINE_DEVICE void load() {}
};

// Codes `code` of both halves of a word of NVFP4 (layout.h): 2^-14 of their values, as exponents of E2M1 have a bias of 1 and those of halves of 15. Zero is its own, and 0.5
// a subnormal half.
PACELINE_DEVICE uint32_t float4_halves(uint32_t word, int code) {
  const uint32_t sizes = word << float4_shift(code);
  if (float4_sign_shift(code) == float4_shift(code)) return sizes & 0x8e008e00u;
  return (sizes & 0x0e000e00u) | (word << float4_sign_shift(code) & 0x80008000u);
}

// Registers that a lane has for a unit: for its codes, and for the scales of both of its rows.
constexpr int unit_words(Format f) {
  return (has_grid(f) ? unit_tiles(f) : unit_tiles(f) * layout(f).low_bits / 2) + unit_tiles(f) * layout(f).high_bits / 2 + layout(f).upper_bits;
}
constexpr int held_scale_words(Format f) { return 2 * (scale_bytes(f) + minimum_bytes(f)) / 4; }

// rows: of whose scales a lane has: both of its rows, one, row g + 8 * (t % 2), or none.
template <Format f, int rows = 2>
struct Unit {
  static constexpr int kTiles = unit_tiles(f);
  static constexpr int kLow = layout(f).low_bits, kHigh = layout(f).high_bits, kUpper = layout(f).upper_bits;

  std::conditional_t<has_table(f), Table<f>, NoTable> table;
  Bytes<has_grid(f) ? 4 * kTiles : 2 * kTiles * kLow> low;
  Bytes<2 * kTiles * kHigh> high;
  Bytes<4 * kUpper> upper_bits;  // of patterns' numbers
  RowScales<f> scales[rows ? rows : 1];

  template <class From = FromGlobal>
  PACELINE_DEVICE void load(const uint8_t* unit) {
    const int lane = static_cast<int>(lane_index()), g = lane / 4;
    table.load();
    // The lane-dependent part first, then constants: so an address is one register and an immediate offset.
    const uint8_t* const own = unit + lane * 16;  // a plane is [groups][32 lanes] of 16 bytes
    if constexpr (has_grid(f)) {
      const int from = lane * grid_lanes(f) / kWarp;
      for (int i = 0; i < kTiles / 4; ++i) load_plane<From>(low, i, unit + from * 16, grid_lanes(f));
      upper_bits.template load<From>(unit + from * 4 * kUpper + upper_begin(f));
    } else {
      for (int i = 0; i < 2 * kTiles * kLow / 16; ++i) load_plane<From>(low, i, own);
    }
    if constexpr (kHigh > 0)
      for (int i = 0; i < 2 * kTiles * kHigh / 16; ++i) load_plane<From>(high, i, own + high_begin(f));
    const int row = rows == 2 ? g : g + 8 * (lane % 2);
    for (int i = 0; i < rows; ++i) scales[i].template load<From>(unit, row + 8 * i);
  }

  // Tile k's codes times 2^code_shift, signed or biased (device_bias). grid: the format's own (device_grid).
  PACELINE_DEVICE void codes(int k, uint32_t a[4], const uint32_t* grid) const {
    for (int w = 0; w < 4; ++w) {
      if constexpr (has_grid(f)) {
        a[w] = pattern(k, w, grid);
        if constexpr (has_signed_grid(f)) a[w] = grid_signed(a[w], high.v[w] << (7 - k));
      } else if constexpr (has_table(f)) {
        a[w] = table.look_up(low.v[k / 2 * 4 + w], k % 2);
      } else {
        if constexpr (has_upper_codes(f)) a[w] = field_at<kLow, 8 - kHigh - kLow>(low, k, w) | field_at<kHigh, 8 - kHigh>(high, k, w);
        else if constexpr (kHigh > 0) a[w] = field<kLow>(low, k, w) | field<kHigh>(high, k, w) << kLow;
        else if constexpr (kLow == 8) a[w] = low.v[4 * k + w];
        else a[w] = low.v[k / (8 / kLow) * 4 + w] & ((1u << kLow) - 1) * 0x01010101u << code_shift(f, k);
      }
    }
  }
  // Tile k's weights in half precision, an A operand of mma_halves for each half of the block: exact, as a scale has 4 significant bits and an E2M1 code 2.
  // They are 2^-8 of what they should be; without the scales of both rows, which are for sums then, 2^-14 of the codes' values.
  PACELINE_DEVICE void halves(int k, uint32_t a[2][4]) const {
    static_assert(by_halves(f));
    for (int upper = 0; upper < 2; ++upper) {
      const uint32_t both = rows == 2 ? scales[upper].both_halves(k) : 0;
      for (int half = 0; half < 2; ++half)
        for (int w = 0; w < 2; ++w) {
          const uint32_t codes = float4_halves(low.v[k / 2 * 4 + 2 * half + upper], k % 2 * 2 + w);
          a[half][2 * w + upper] = rows != 2 ? codes : half ? multiply_halves<1>(codes, both) : multiply_halves<0>(codes, both);
        }
    }
  }

  // Tile k's weights as floats.
  PACELINE_DEVICE void weights(int k, float out[4][4], const uint32_t* grid) const {
    if constexpr (by_halves(f)) {
      uint32_t a[2][4];
      halves(k, a);
      for (int w = 0; w < 4; ++w)
        for (int i = 0; i < 4; ++i)
          out[w][i] = half_to_float(static_cast<uint16_t>(a[w / 2][w % 2 + i / 2 * 2] >> 16 * (i % 2))) * kHalvesFactor;
    } else {
      uint32_t a[4];
      codes(k, a, grid);
      const int shift = code_shift(f, k);
      for (int w = 0; w < 4; ++w) {
        const int half = layout(f).scales == 2 ? w / 2 : 0, upper = w % 2;
        for (int i = 0; i < 4; ++i) {
          out[w][i] = scales[upper].scale(k, half, 0, true) * static_cast<float>(value(a[w] >> 8 * i & 0xff, shift));
          if constexpr (has_power_scales(f)) out[w][i] = out[w][i] * (1.0f / kPowerFactor);
          if constexpr (has_header(f) && layout(f).minimum) out[w][i] = out[w][i] - scales[upper].below(k, half, true);
          else if constexpr (layout(f).minimum) out[w][i] = out[w][i] + scales[upper].minimum(k, half);
        }
      }
    }
  }

 private:
  // The four inputs of tile k's word w, none minus.
  PACELINE_DEVICE uint32_t pattern(int k, int w, const uint32_t* grid) const {
    constexpr uint32_t kMask = static_cast<uint32_t>(patterns_of(f).count) / 256 - 1, kFours = patterns_of(f).inputs / 4;
    const uint32_t half = kFours == 2 ? lane_index() % 2 : 0;  // of two lanes with a pattern, each has four inputs
    const uint32_t place = dot_bytes<false>(low.v[k / 4 * 4 + w], kFours << 8 * (k % 4), half);
    if constexpr (kUpper == 0) {
      return grid[place];
    } else {
      const uint32_t bits = upper_bits.v[kUpper * k / 8] >> (4 * kUpper * k % 32 + kUpper * w);
      const uint32_t codes = grid[place | (bits & kMask) * (256 * kFours)];
      return has_shifted_grid(f) ? codes - (bits >> (kUpper - 1) & 1) * 0x02020202u : codes;
    }
  }
  // The integer value of a code that is 2^shift times too large.
  PACELINE_DEVICE static int value(uint32_t code, int shift) { return has_sign(f) ? static_cast<int8_t>(code) >> shift : static_cast<int>(code >> shift) - layout(f).bias; }
  template <class From, class Plane>
  PACELINE_DEVICE static void load_plane(Plane& plane, int i, const uint8_t* own, int lanes = kWarp) {
    const Word4 w = From::load_16(own + i * lanes * 16);
    for (int j = 0; j < 4; ++j) plane.v[4 * i + j] = w.v[j];
  }
  template <int bits, class Plane>
  PACELINE_DEVICE static uint32_t field(const Plane& plane, int k, int w) {
    if constexpr (bits == 8) return plane.v[4 * k + w];
    else return plane.v[k / (8 / bits) * 4 + w] >> bits * (k % (8 / bits)) & ((1u << bits) - 1) * 0x01010101u;
  }
  // The same at bit `to` of each byte.
  template <int bits, int to, class Plane>
  PACELINE_DEVICE static uint32_t field_at(const Plane& plane, int k, int w) {
    if constexpr (bits == 0) return 0;
    else {
      const uint32_t word = plane.v[k / (8 / bits) * 4 + w];
      const int from = bits * (k % (8 / bits));
      return (from < to ? word << (to - from) : word >> (from - to)) & ((1u << bits) - 1) * 0x01010101u << to;
    }
  }
};

}  // namespace paceline::cuda
