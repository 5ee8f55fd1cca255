// The scales of a unit of integer weights, as they lie in it, and as floats in shared memory; and how any part of a unit is read.
#pragma once

#include "arithmetic.h"
#include "layout.h"

namespace paceline::cuda {

constexpr int32_t kMagic = 0x4b400000;  // the bits of 12582912.0f: added to an integer below 2^22, those of the sum

// Scales that are powers of two are as many times too large, so that none is subnormal; kPowerExponent subtracted from the bits of a float divides it by that.
constexpr int kPowerShift = 2;
constexpr float kPowerFactor = 1 << kPowerShift;
constexpr int32_t kPowerExponent = kPowerShift << 23;

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

// Tile k's codes are this many powers of two too large, where that saves shifting their words.
constexpr int code_shift(Format f, int k) {
  if (has_upper_codes(f)) return 8 - layout(f).low_bits - layout(f).high_bits;
  return has_table(f) || has_grid(f) || by_halves(f) || layout(f).high_bits ? 0 : layout(f).low_bits * k % 8;
}

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
    if constexpr (has_power_scales(f)) return bits_to_float(dot_bytes<false>(s.v[k / 4], 1u << 8 * (k % 4), 1) << 23);  // 4 * 2^(e - 128)
    else if constexpr (by_halves(f)) return half_to_float(static_cast<uint16_t>(both_halves(k) >> 16 * half));
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
  // UE4M3 scales 2k and 2k + 1 as halves, 2^6 times as large: those of codes, which are 2^-14 of theirs, and of inputs times kHalvesFactor. With a scale a code is exact. The
  // byte's fields in a half are 2^-8 of the scale.
  PACELINE_DEVICE uint32_t both_halves(int k) const {
    constexpr uint32_t k2To14 = 0x7400;  // as a half
    return multiply_halves<0>(permute_bytes(scales.v[k / 2], 0, k % 2 ? 0x4342u : 0x4140u) << 7, k2To14);
  }

 private:
  // d * (factor * byte + more), of signed byte `place % 4` of a word, rounded once, for a d with the bits of a half: d * 12582912 is exact then. Two instructions
  // for each byte, where a conversion takes three or a slow one. exact, with one more: zeros have the sign of d; a sum of products is the same without.
  PACELINE_DEVICE static float times_byte(float d, uint32_t word, int place, bool exact, uint32_t factor = 1, uint32_t more = 0) {
    const float biased = bits_to_float(dot_bytes<true>(word, factor << 8 * (place % 4), kMagic + more));
    return exact ? (biased - 12582912.0f) * d : fma(biased, d, d * -12582912.0f);
  }
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

}  // namespace paceline::cuda
