// Integer weights by mma m16n8k32, or two m16n8k16 where a row has two scales. In a block of 32 the sum is an exact integer:
//   sum = float(isum) * d_w, or with two scales fma(float(isum_high), d_high, float(isum_low) * d_low); then the minimums, fma(m_w, sum(a), sum)
//   acc = fma(sum, d_a, acc)
// Codes are signed, or biased: then the accumulator starts at -bias * sum(a). Added to its start are the bits of the float 1.5 * 2^23, so that the result, read
// as a float, is 12582912 + isum. One subtraction gives float(isum), or one fma its product with a scale, where a conversion would take four times as long. With scales that
// are powers of two this fma subtracts bias * sum(a) as well, exactly.
//
// NVFP4's weights are unpacked to halves, and codes of activations are halves too. With the weights' scales included a sum of 16 products has at most 19 significant
// bits, so a floating-point mma gives isum * d without rounding, in whatever order it adds. Of up to eight columns sums are fewer than weights, and scales meet these.
#pragma once

#include <type_traits>

#include "product.h"
#include "unit.h"

namespace paceline::cuda {

PACELINE_DEVICE float float_of(int32_t biased) { return bits_to_float(static_cast<uint32_t>(biased)) - 12582912.0f; }

// Words of a lane's inputs in a block.
constexpr int input_words(Format f) { return by_halves(f) ? 4 : 2; }

template <Format f>
constexpr bool kNeedsSums = !by_halves(f) && ((device_bias(f) != 0 && !has_power_scales(f)) || (layout(f).minimum && layout(f).scales == 2));
template <Format f>
constexpr bool kNeedsFloatSums = (layout(f).minimum && layout(f).scales == 1) || has_power_scales(f);

struct alignas(8) ScalesOfOne {
  float scale, float_sum;
};
// What a format needs of a column that is alone.
template <Format f>
using AboutOne = std::conditional_t<kNeedsSums<f>, AboutColumns<1>, ScalesOfOne>;

// A lane's part of eight columns' activations, from a unit's first block on.
struct LaneInputs {
  static constexpr int kOwn = 2, kColumnsOfBlock = kColumns;  // kOwn: rows of a tile that a lane adds up, and columns
  const uint32_t* codes;    // of column g, bytes or halves
  const ColumnPair* about;  // of columns 2t and 2t + 1
};
// Of a column that is alone. All eight of the mma are this one then: a lane adds up one row of it, g + 8 * (t % 2).
template <Format f>
struct OneInput {
  static constexpr int kOwn = 1, kColumnsOfBlock = 1;
  const uint32_t* codes;
  const AboutOne<f>* about;
};

template <Format f, class Inputs>
PACELINE_DEVICE void load_inputs(const Inputs& inputs, int k, uint32_t (&b)[input_words(f)]) {
  const uint32_t* const from = inputs.codes + k * Inputs::kColumnsOfBlock * 4 * input_words(f);
  if constexpr (by_halves(f)) {
    const Word4 words = *reinterpret_cast<const Word4*>(from);
    for (int w = 0; w < 4; ++w) b[w] = words.v[w];
  } else {
    const Word2 words = *reinterpret_cast<const Word2*>(from);
    for (int w = 0; w < 2; ++w) b[w] = words.v[w];
  }
}

// What the format needs of a lane's columns, in one load or two: left to itself, the compiler makes a load of each number.
template <Format f>
PACELINE_DEVICE ColumnPair load_about(const ColumnPair* from) {
  ColumnPair pair;
  if constexpr (!kNeedsSums<f>) {
    for (int i = 0; i < 2; ++i) pair.sum[i] = pair.low_sum[i] = 0;
  } else if constexpr (layout(f).scales == 2) {
    const Word4 words = *reinterpret_cast<const Word4*>(from->sum);
    for (int i = 0; i < 2; ++i) pair.sum[i] = static_cast<int32_t>(words.v[i]), pair.low_sum[i] = static_cast<int32_t>(words.v[2 + i]);
  } else {
    const Word2 words = *reinterpret_cast<const Word2*>(from->sum);
    for (int i = 0; i < 2; ++i) pair.sum[i] = static_cast<int32_t>(words.v[i]);
  }
  if constexpr (kNeedsFloatSums<f>) {
    const Word4 words = *reinterpret_cast<const Word4*>(from->scale);
    for (int i = 0; i < 2; ++i) pair.scale[i] = bits_to_float(words.v[i]), pair.float_sum[i] = bits_to_float(words.v[2 + i]);
  } else {
    const Word2 words = *reinterpret_cast<const Word2*>(from->scale);
    for (int i = 0; i < 2; ++i) pair.scale[i] = bits_to_float(words.v[i]);
  }
  return pair;
}
template <Format f>
PACELINE_DEVICE AboutColumns<1> load_about(const AboutColumns<1>* from) {
  const Word4 words = *reinterpret_cast<const Word4*>(from);
  return {{bits_to_float(words.v[0])}, {bits_to_float(words.v[1])}, {static_cast<int32_t>(words.v[2])}, {static_cast<int32_t>(words.v[3])}};
}
template <Format f>
PACELINE_DEVICE AboutColumns<1> load_about(const ScalesOfOne* from) {
  const Word2 words = *reinterpret_cast<const Word2*>(from);
  return {{bits_to_float(words.v[0])}, {bits_to_float(words.v[1])}, {0}, {0}};
}

// Units of `rows` row tiles in registers, of whose scales `held` are there (see Unit), or all in shared memory.
template <Format f, int held, int rows = 1>
struct Units {
  Unit<f, held> unit[rows];
  const float* scales = nullptr;  // where held is 0: [rows] as in SharedScales
};

// Of a tile whose codes are 2^code_shift times too large, scales are as many times too small.
template <Format f, int own>
struct Scales {
  float scale[layout(f).scales][own], minimum[layout(f).scales][own];
  float offset[own];  // -12582912 * scale[0]

  // Those of row tile r's tile k.
  template <int held, int rows>
  PACELINE_DEVICE void take(const Units<f, held, rows>& units, int r, int k) {
    constexpr int kScales = layout(f).scales;
    if constexpr (held == 0) {
      using Shared = SharedScales<f>;
      float values[2 * Shared::kOwn];
      Shared::read(units.scales + r * Shared::kFloats, k, values);
      for (int row = 0; row < 2; ++row)
        for (int half = 0; half < kScales; ++half) {
          scale[half][row] = values[row * Shared::kOwn + half];
          minimum[half][row] = layout(f).minimum ? values[row * Shared::kOwn + kScales + half] : 0.0f;
        }
    } else {
      for (int half = 0; half < kScales; ++half)
        for (int row = 0; row < own; ++row) {
          scale[half][row] = units.unit[r].scales[row].scale(k, half, code_shift(f, k));
          minimum[half][row] = units.unit[r].scales[row].minimum(k, half);
        }
    }
    for (int row = 0; row < own; ++row) offset[row] = -12582912.0f * scale[0][row];
  }
};
// isum * scale, rounded once.
template <Format f, int own>
PACELINE_DEVICE float scaled(int32_t biased, const Scales<f, own>& w, int row) {
  return fma(bits_to_float(static_cast<uint32_t>(biased)), w.scale[0][row], w.offset[row]);
}

// A lane's sums: of column j % own of its row j / own.
template <int own>
using Sums = float[own * own];
// Which of an mma's results of a lane, two columns of two rows, that is.
template <int own, class T>
PACELINE_DEVICE T own_result(const T (&c)[4], int j) {
  if constexpr (own == 2) return c[j];
  else return lane_index() % 2 ? c[2] : c[0];
}

// A row has one scale in a block.
template <Format f, int own>
PACELINE_DEVICE void add_one_scale(const uint32_t (&a)[4], const Scales<f, own>& w, const uint32_t (&b)[2], const AboutColumns<own>& x, Sums<own>& acc) {
  constexpr int bias = device_bias(f);
  static_assert(bias == 0 || code_shift(f, 1) == 0);
  int32_t c[4];
  float origin[own];
  if constexpr (has_power_scales(f)) {
    constexpr float kPart = 1.0f / kPowerFactor;
    mma_bytes_32<has_sign(f)>(c, a, b, kMagic - kPowerExponent, kMagic - kPowerExponent);  // 1 / kPowerFactor of 12582912 + isum
    for (int i = 0; i < own; ++i) origin[i] = fma(x.float_sum[i], -bias * kPart, -12582912.0f * kPart);
  } else {
    mma_bytes_32<has_sign(f)>(c, a, b, kMagic - bias * x.sum[0], kMagic - bias * x.sum[own - 1]);
  }
  PACELINE_UNROLL
  for (int j = 0; j < own * own; ++j) {
    const int32_t result = own_result<own>(c, j);
    float sum;
    if constexpr (has_power_scales(f)) sum = fma(bits_to_float(static_cast<uint32_t>(result)), w.scale[0][j / own], origin[j % own] * w.scale[0][j / own]);
    else sum = scaled(result, w, j / own);
    if constexpr (layout(f).minimum) sum = fma(w.minimum[0][j / own], x.float_sum[j % own], sum);
    acc[j] = fma(sum, x.scale[j % own], acc[j]);
  }
}

// A row has two.
template <Format f, int own>
PACELINE_DEVICE void add_two_scales(const uint32_t (&a)[4], const Scales<f, own>& w, const uint32_t (&b)[2], const AboutColumns<own>& x, Sums<own>& acc) {
  constexpr int bias = device_bias(f);
  static_assert(bias == 0 || code_shift(f, 1) == 0);
  int32_t low[4], high[4], high_sum[own];
  for (int i = 0; i < own; ++i) high_sum[i] = x.sum[i] - x.low_sum[i];
  mma_bytes_16<has_sign(f)>(low, a, b[0], kMagic - bias * x.low_sum[0], kMagic - bias * x.low_sum[own - 1]);
  mma_bytes_16<has_sign(f)>(high, a + 2, b[1], kMagic - bias * high_sum[0], kMagic - bias * high_sum[own - 1]);
  PACELINE_UNROLL
  for (int j = 0; j < own * own; ++j) {
    float sum = fma(float_of(own_result<own>(high, j)), w.scale[1][j / own], scaled(own_result<own>(low, j), w, j / own));
    if constexpr (layout(f).minimum) {
      sum = fma(w.minimum[0][j / own], static_cast<float>(x.low_sum[j % own]), sum);
      sum = fma(w.minimum[1][j / own], static_cast<float>(high_sum[j % own]), sum);
    }
    acc[j] = fma(sum, x.scale[j % own], acc[j]);
  }
}

// Adds tile k of a unit of each of `rows` row tiles, whose inputs are loaded once for all of these.
template <Format f, int held, int rows, class Inputs, int n>
PACELINE_DEVICE void add_tile(const Units<f, held, rows>& units, int k, const Inputs (&inputs)[n], int columns, const uint32_t* grid, Sums<Inputs::kOwn> (&acc)[rows][n]) {
  constexpr int kOwn = Inputs::kOwn;
  const auto each_group = [&](auto add) {
    PACELINE_UNROLL
    for (int i = 0; i < n; ++i) {
      if (n > 2 && i > 0 && kColumns * i >= columns) continue;  // absent groups; uniform across the warp
      uint32_t b[input_words(f)];
      load_inputs<f>(inputs[i], k, b);
      const auto about = load_about<f>(inputs[i].about + k * (Inputs::kColumnsOfBlock / kOwn));
      PACELINE_UNROLL
      for (int r = 0; r < rows; ++r) add(r, b, about, acc[r][i]);
    }
  };
  if constexpr (by_halves(f)) {
    uint32_t a[rows][2][4];
    PACELINE_UNROLL
    for (int r = 0; r < rows; ++r) units.unit[r].halves(k, a[r]);
    Scales<f, kOwn> scales[rows];
    if constexpr (held != 2)
      for (int r = 0; r < rows; ++r) scales[r].take(units, r, k);
    each_group([&](int r, const uint32_t (&b)[4], const AboutColumns<kOwn>& x, Sums<kOwn>& to) {
      float low[4], high[4];
      mma_halves(low, a[r][0], b);
      mma_halves(high, a[r][1], b + 2);
      for (int j = 0; j < kOwn * kOwn; ++j) {
        float sum = own_result<kOwn>(high, j);
        if constexpr (held == 2) sum = own_result<kOwn>(low, j) + sum;
        else sum = fma(sum, scales[r].scale[1][j / kOwn], own_result<kOwn>(low, j) * scales[r].scale[0][j / kOwn]);  // as exact
        to[j] = fma(sum, x.scale[j % kOwn], to[j]);
      }
    });
  } else {
    uint32_t a[rows][4];
    Scales<f, kOwn> scales[rows];
    PACELINE_UNROLL
    for (int r = 0; r < rows; ++r) {
      units.unit[r].codes(k, a[r], grid);
      scales[r].take(units, r, k);
    }
    each_group([&](int r, const uint32_t (&b)[2], const AboutColumns<kOwn>& x, Sums<kOwn>& to) {
      if constexpr (layout(f).scales == 1) add_one_scale<f, kOwn>(a[r], scales[r], b, x, to);
      else add_two_scales<f, kOwn>(a[r], scales[r], b, x, to);
    });
  }
}

// Points a lane's inputs at block `first`, a unit's first. columns: how many this thread block has.
template <Format f, int n>
PACELINE_DEVICE void begin_inputs(const Activations& input, int first_column, int columns, int first, LaneInputs (&inputs)[n]) {
  const int lane = static_cast<int>(lane_index()), g = lane / 4, t = lane % 4;
  PACELINE_UNROLL
  for (int i = 0; i < n; ++i) {
    // A column past the end reads the last one again; its sums are not stored.
    const int group = kColumns * i < columns ? i : (columns - 1) / kColumns, last = columns - 1 - kColumns * group;
    const size_t place = (static_cast<size_t>(first_column / kColumns + group) * input.blocks + first) * kColumns;
    inputs[i] = {(by_halves(f) ? input.halves : input.codes) + ((place + (g < last ? g : last)) * 4 + t) * input_words(f), input.about + place / 2 + t};
  }
}

// Adds the tiles of units that begin with block b; advances `inputs` past them. end: of the row's blocks, or more.
template <Format f, int held, int rows, class Inputs, int n>
PACELINE_DEVICE void add_units(const Units<f, held, rows>& units, int b, int end, Inputs (&inputs)[n], int columns, const uint32_t* grid, Sums<Inputs::kOwn> (&acc)[rows][n]) {
  constexpr int kTiles = unit_tiles(f);
  if (has_header(f) || b + kTiles <= end) {  // formats with a header have full units only
    PACELINE_UNROLL
    for (int k = 0; k < kTiles; ++k) add_tile<f>(units, k, inputs, columns, grid, acc);
  } else {
    PACELINE_UNROLL
    for (int k = 0; k < kTiles; ++k)
      if (b + k < end) add_tile<f>(units, k, inputs, columns, grid, acc);
  }
  PACELINE_UNROLL
  for (int i = 0; i < n; ++i) {
    inputs[i].codes += kTiles * Inputs::kColumnsOfBlock * 4 * input_words(f);
    inputs[i].about += kTiles * (Inputs::kColumnsOfBlock / Inputs::kOwn);
  }
}

template <Format f>
PACELINE_DEVICE void load_counted(Unit<f>& unit, const uint8_t* place) {
  if (lane_index() == 0) count_weights(device_unit_bytes(f));
  unit.load(place);
}

template <int rows, int n, int sums>
PACELINE_DEVICE void clear(float (&acc)[rows][n][sums]) {
  PACELINE_UNROLL
  for (int r = 0; r < rows; ++r)
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < sums; ++j) acc[r][i][j] = 0.0f;
}

// The table of a format with a grid, in shared memory; nothing for others. It is filled with a block's first loads, and read behind a sync_block().
template <Format f>
constexpr size_t kGridBytes = has_grid(f) ? kGridWords<f> * sizeof(uint32_t) : 0;
template <Format f>
PACELINE_DEVICE uint32_t* take_grid(SharedMemory& memory) {
  if constexpr (!has_grid(f)) return nullptr;
  else return memory.take<uint32_t>(kGridWords<f>);
}
template <Format f>
PACELINE_DEVICE void fill_grid(uint32_t* grid) {
  if constexpr (has_grid(f))
    for (int i = static_cast<int>(thread_index()); i < kGridWords<f> / 4; i += kProductWarps * kWarp)
      reinterpret_cast<Word4*>(grid)[i] = reinterpret_cast<const Word4*>(device_grid<f>())[i];
}

}  // namespace paceline::cuda
