// A unit of integer weights in the registers of a warp: loaded once, unpacked tile by tile as the A operand of an mma, used for all columns.
// Lane 4g + t has rows g and g + 8 (`upper`) of inputs 4t .. 4t + 3 of both halves of a block; of a tile's four words, word w is of half w / 2 and upper w % 2.
#pragma once

#include <type_traits>

#include "arithmetic.h"
#include "grid_codes.h"
#include "layout.h"

namespace paceline::cuda {

constexpr int32_t kMagic = 0x4b400000;  // the bits of 12582912.0f: added to an integer below 2^22, those of the sum

// How a unit is read: from global memory, where each of its bytes is read once, or from shared memory.
struct FromGlobal {
  PACELINE_DEVICE static Word4 load_16(const uint8_t* p) { return load_once(p); }
  PACELINE_DEVICE static Word2 load_8(const uint8_t* p) { return load_once_8(p); }
  PACELINE_DEVICE static uint32_t load_4(const uint8_t* p) { return load_once_4(p); }
  PACELINE_DEVICE static uint16_t load_2(const uint8_t* p) { return load_once_2(p); }
};
struct FromShared {
  PACELINE_DEVICE static Word4 load_16(const uint8_t* p) { return *reinterpret_cast<const Word4*>(p); }
  PACELINE_DEVICE static Word2 load_8(const uint8_t* p) { return *reinterpret_cast<const Word2*>(p); }
  PACELINE_DEVICE static uint32_t load_4(const uint8_t* p) { return *reinterpret_cast<const uint32_t*>(p); }
  PACELINE_DEVICE static uint16_t load_2(const uint8_t* p) { return *reinterpret_cast<const uint16_t*>(p); }
};

// `bytes` bytes: 2, 4, 8 or a multiple of 16, from an address aligned to as many, at most 16.
template <int bytes>
struct Bytes {
  uint32_t v[(bytes + 3) / 4];

  template <class From>
  PACELINE_DEVICE void load(const uint8_t* p) {
    if constexpr (bytes % 16 == 0) {
      for (int i = 0; i < bytes / 16; ++i) {
        const Word4 w = From::load_16(p + 16 * i);
        for (int j = 0; j < 4; ++j) v[4 * i + j] = w.v[j];
      }
    } else if constexpr (bytes == 8) {
      const Word2 w = From::load_8(p);
      v[0] = w.v[0];
      v[1] = w.v[1];
    } else if constexpr (bytes == 4) {
      v[0] = From::load_4(p);
    } else {
      static_assert(bytes == 2);
      v[0] = From::load_2(p);
    }
  }
  PACELINE_DEVICE uint32_t byte(int i) const { return v[i / 4] >> 8 * (i % 4) & 0xff; }
  PACELINE_DEVICE uint16_t two(int i) const { return static_cast<uint16_t>(v[i / 2] >> 16 * (i % 2)); }
};
template <>
struct Bytes<0> {
  template <class From>
  PACELINE_DEVICE void load(const uint8_t*) {}
};

// The low 3 bits of each code in the lower or upper half of `codes`, for permute_bytes(): masked once for both halves, which the compiler would undo for a shift.
PACELINE_DEVICE uint32_t selector_of(uint32_t codes, int upper) {
  const uint32_t both = codes & 0x77777777u;
  return upper ? permute_bytes(both, 0, 0x4432u) : both;
}

// A table of sixteen signed bytes, as compile-time constants.
template <Format f>
struct Table {
  static constexpr uint32_t four(int i) {
    uint32_t word = 0;
    for (int j = 0; j < 4; ++j) {
      const int biased = is_nonlinear(f) ? kNonlinear[4 * i + j] : kFloat4[4 * i + j];
      word |= static_cast<uint32_t>((biased - layout(f).bias) & 0xff) << 8 * j;
    }
    return word;
  }
  static constexpr uint32_t b = four(1), d = four(3);
  uint32_t a, c;

  PACELINE_DEVICE void load() {
    a = in_register(four(0));
    c = in_register(four(2));
  }
  // Looks up four adjacent 4-bit codes from the lower or upper half of `codes`: in both halves of the table by their low 3 bits, then selects by the top bit.
  PACELINE_DEVICE uint32_t look_up(uint32_t codes, int upper) const {
    const uint32_t selector = selector_of(codes, upper);
    return permute_bytes(permute_bytes(a, b, selector), permute_bytes(c, d, selector), ((codes & 0x8888u << 16 * upper) >> (1 + 16 * upper)) + 0x3210u);
  }
};

// Tile k's codes are this many powers of two too large, where that saves shifting their words.
constexpr int code_shift(Format f, int k) {
  if (has_upper_codes(f)) return 8 - layout(f).low_bits - layout(f).high_bits;
  return has_table(f) || has_grid(f) || layout(f).high_bits ? 0 : layout(f).low_bits * k % 8;
}

// The sizes of E2M1 codes: the upper bytes, as half-precision floats, of 256 times 0, 0.5, 1, 1.5, 2, 3, 4 and 6.
template <>
struct Table<Format::NVFP4> {
  static constexpr uint32_t b = 0x66646260u;
  uint32_t a;

  PACELINE_DEVICE void load() { a = in_register(0x5e5c5800u); }
  PACELINE_DEVICE uint32_t look_up(uint32_t codes, int upper) const { return permute_bytes(a, b, selector_of(codes, upper)); }
};
struct NoTable {
  PACELINE_DEVICE void load() {}
};

// Registers that a lane has for a unit: for its codes, and for the scales of both of its rows.
constexpr int unit_words(Format f) {
  return (has_grid(f) ? unit_tiles(f) : unit_tiles(f) * layout(f).low_bits / 2) + unit_tiles(f) * layout(f).high_bits / 2 + layout(f).upper_bits;
}
constexpr int held_scale_words(Format f) { return 2 * (scale_bytes(f) + minimum_bytes(f)) / 4; }

// The scales of a row of a unit, as they lie in it: of all its tiles, or of half of them.
template <Format f, int tiles = unit_tiles(f)>
struct RowScales {
  static constexpr int kParts = unit_tiles(f) / tiles;
  Bytes<scale_bytes(f) / kParts> scales;
  Bytes<minimum_bytes(f) / kParts> minimums;
  Bytes<header_bytes(f)> header;

  template <class From>
  PACELINE_DEVICE void load(const uint8_t* unit, int row, int part = 0) {
    scales.template load<From>(unit + (row * kParts + part) * (scale_bytes(f) / kParts) + scales_begin(f));
    minimums.template load<From>(unit + (row * kParts + part) * (minimum_bytes(f) / kParts) + minimums_begin(f));
    header.template load<From>(unit + row * header_bytes(f) + header_begin(f));
  }

  // half: of inputs 0 .. 15 or 16 .. 31, where a row has two scales. Divided by 2^shift. exact: see times_byte().
  PACELINE_DEVICE float scale(int k, int half, int shift = 0, bool exact = false) const {
    const auto& s = scales;
    const float part = 1.0f / static_cast<float>(1 << shift);
    if constexpr (f == Format::MXFP4) return power_of(s.byte(k));
    else if constexpr (by_halves(f)) return half_to_float(static_cast<uint16_t>(both_halves(k) >> 16 * half));  // 256 times too small
    else if constexpr (!has_header(f)) return shift ? half_to_float(s.two(k)) * part : half_to_float(s.two(k));
    else {
      const float d = half_to_float(header.two(0)) * part;
      if constexpr (f == Format::Q5_K || f == Format::Q4_K) return times_byte(d, s.v[k / 4], k, exact);
      else if constexpr (f == Format::Q2_K) return times_byte(d, s.v[k / 2] & 0x0f0f0f0fu, 2 * k + half, exact);
      else if constexpr (has_grid(f)) {
        constexpr float factor = patterns_of(f).factor * 0.5f;
        if constexpr (layout(f).scales == 1) return times_byte(d * factor, s.v[0] >> 4 * (k % 2) & 0x0f0f0f0fu, k / 2, exact, 2, 1);
        else return times_byte(d * factor, s.v[k / 4] >> 4 * half & 0x0f0f0f0fu, k, exact, 2, 1);
      }
      else if constexpr (f == Format::IQ4_XS) return times_byte(d, s.v[k / 4], k, exact);
      else return times_byte(d, s.v[k / 2], 2 * k + half, exact);
    }
  }
  PACELINE_DEVICE float minimum(int k, int half) const {
    if constexpr (!layout(f).minimum) return 0.0f;
    else if constexpr (has_header(f)) return -below(k, half);
    else return half_to_float(minimums.two(k));
  }
  // What formats with super-blocks of 256 inputs subtract from every weight.
  PACELINE_DEVICE float below(int k, int half, bool exact = false) const {
    if constexpr (f == Format::Q2_K) return times_byte(half_to_float(header.two(1)), scales.v[k / 2] >> 4 & 0x0f0f0f0fu, 2 * k + half, exact);
    else if constexpr (has_header(f) && minimum_bytes(f) > 0) return times_byte(half_to_float(header.two(1)), minimums.v[k / 4], k, exact);
    else return 0.0f;
  }
  // Bytes 2k and 2k + 1 of UE4M3 scales, as the bits of two halves that are 256 times too small, as the table's are too large.
  PACELINE_DEVICE uint32_t both_halves(int k) const { return permute_bytes(scales.v[k / 2], 0, k % 2 ? 0x4342u : 0x4140u) << 7; }

 private:
  // d * (factor * byte + more), of signed byte `place % 4` of a word, rounded once, for a d with the bits of a half: d * 12582912 is exact then. Two instructions
  // for each byte, where a conversion takes three or a slow one. exact, with one more: zeros have the sign of d, and an infinite d makes no NaN; a sum of
  // products is the same without, but for infinities.
  PACELINE_DEVICE static float times_byte(float d, uint32_t word, int place, bool exact, uint32_t factor = 1, uint32_t more = 0) {
    const float biased = bits_to_float(dot_bytes<true>(word, factor << 8 * (place % 4), kMagic + more));
    return exact ? (biased - 12582912.0f) * d : fma(biased, d, d * -12582912.0f);
  }
  // 2^(e - 128)
  PACELINE_DEVICE static float power_of(uint32_t e) { return bits_to_float(e < 2 ? 0x200000u << e : (e - 1) << 23); }
};

// A unit's scales as floats, in shared memory: a lane converts those of half a row, a quarter of what it reads.
template <Format f>
struct SharedScales {
  static constexpr int kOwn = layout(f).scales * (layout(f).minimum ? 2 : 1);  // of a row of a tile: scales, then minimums
  static constexpr int kFloats = unit_tiles(f) * kTileRows * kOwn;             // [tiles][8][2][kOwn]: rows g and g + 8 together

  // All lanes must meet before they read, and before the next.
  PACELINE_DEVICE static void convert(const uint8_t* unit, float* to) {
    constexpr int kTiles = unit_tiles(f) / 2;
    const int lane = static_cast<int>(lane_index()), row = lane / 2, part = lane % 2;
    RowScales<f, kTiles> own;
    own.template load<FromShared>(unit, row, part);
    PACELINE_UNROLL
    for (int i = 0; i < kTiles; ++i) {
      float values[kOwn];
      for (int half = 0; half < layout(f).scales; ++half) {
        values[half] = own.scale(i, half, code_shift(f, i));
        if constexpr (layout(f).minimum) values[layout(f).scales + half] = own.minimum(i, half);
      }
      store<kOwn>(values, to + (kTiles * part + i) * (kTileRows * kOwn) + (row % 8 * 2 + row / 8) * kOwn);
    }
  }
  // Of tile k and rows g and g + 8 -> values [2][kOwn].
  PACELINE_DEVICE static void read(const float* from, int k, float (&values)[2 * kOwn]) {
    const float* const own = from + k * (kTileRows * kOwn) + static_cast<int>(lane_index()) / 4 * (2 * kOwn);
    if constexpr (kOwn == 1) {
      const Word2 two = *reinterpret_cast<const Word2*>(own);
      for (int i = 0; i < 2; ++i) values[i] = bits_to_float(two.v[i]);
    } else {
      for (int i = 0; i < 2 * kOwn; i += 4) {
        const Word4 four = *reinterpret_cast<const Word4*>(own + i);
        for (int j = 0; j < 4; ++j) values[i + j] = bits_to_float(four.v[j]);
      }
    }
  }

 private:
  template <int count>
  PACELINE_DEVICE static void store(const float (&values)[count], float* to) {
    if constexpr (count == 1) *to = values[0];
    else if constexpr (count == 2) *reinterpret_cast<Word2*>(to) = {float_to_bits(values[0]), float_to_bits(values[1])};
    else *reinterpret_cast<Word4*>(to) = {float_to_bits(values[0]), float_to_bits(values[1]), float_to_bits(values[2]), float_to_bits(values[3])};
  }
};

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
  // Without the scales of both rows, which are for sums then, they are its codes' values times 256.
  PACELINE_DEVICE void halves(int k, uint32_t a[2][4]) const {
    static_assert(by_halves(f));
    for (int upper = 0; upper < 2; ++upper) {
      const uint32_t both = rows == 2 ? scales[upper].both_halves(k) : 0;
      for (int half = 0; half < 2; ++half) {
        const uint32_t word = low.v[k / 2 * 4 + 2 * half + upper], signs = k % 2 ? word << 4 : word;
        const uint32_t bytes = table.look_up(word, k % 2) | (signs & 0x80808080u);
        for (int w = 0; w < 2; ++w) {
          const uint32_t codes = permute_bytes(bytes, 0, w ? 0x3424u : 0x1404u);
          a[half][2 * w + upper] = rows != 2 ? codes : half ? multiply_halves<1>(codes, both) : multiply_halves<0>(codes, both);
        }
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
          out[w][i] = half_to_float(static_cast<uint16_t>(a[w / 2][w % 2 + i / 2 * 2] >> 16 * (i % 2)));
    } else {
      uint32_t a[4];
      codes(k, a, grid);
      const int shift = code_shift(f, k);
      for (int w = 0; w < 4; ++w) {
        const int half = layout(f).scales == 2 ? w / 2 : 0, upper = w % 2;
        for (int i = 0; i < 4; ++i) {
          out[w][i] = scales[upper].scale(k, half, 0, true) * static_cast<float>(value(a[w] >> 8 * i & 0xff, shift));
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
