// Codes of the formats with a grid: a pattern's, negated where a sign is minus, or 2 less throughout (grid_patterns.h).
#pragma once

#include <type_traits>

#include "codes.h"
#include "grid_patterns.h"

namespace paceline::PACELINE_ISA {

// The codes of each pattern as one word, none minus.
template <Format f>
struct GridCodes {
  static constexpr Patterns patterns = patterns_of(f);
  using Pattern = std::conditional_t<patterns.inputs == 8, uint64_t, uint32_t>;
  Pattern codes[patterns.count];

  constexpr GridCodes() : codes{} {
    for (int p = 0; p < patterns.count; ++p)
      for (int i = 0; i < patterns.inputs; ++i) codes[p] |= static_cast<Pattern>(layout(f).bias + grid_value(f, p, i)) << 8 * i;
  }
};
template <Format f>
constexpr GridCodes<f> kGridCodes;
template <Format f>
constexpr const auto& codes_of_patterns() { return kGridCodes<f == Format::IQ1_M ? Format::IQ1_S : f>.codes; }

constexpr int number_bits(Format f) { return layout(f).upper_bits - (has_shifted_grid(f) ? 1 : 0); }  // above eight

// Where a pattern's number is: among those of read_numbers(), or, where they have eight bits, among the bytes of the tile.
template <class Number>
constexpr int place_of(int row, int pattern) {
  return sizeof(Number) == 1 ? pattern_byte(row, pattern) : number_place(row, pattern);
}

}  // namespace paceline::PACELINE_ISA

// read_numbers(): the numbers of a tile, 16 bits each. find_codes(): their codes. negate(): 2 * bias - code where a bit is set, one to a code in the order of
// the unpacked vectors. lower(): 2 less where a pattern's bit is set.
#if defined(__AVX512F__)
#include "grid_avx512.h"
#elif defined(__AVX2__)
#include "grid_avx2.h"
#elif PACELINE_NEON
#include "grid_neon.h"
#else
#include "grid_plain.h"
#endif

namespace paceline::PACELINE_ISA {

template <Format f>
PACELINE_INLINE Codes load_grid(const uint8_t* tile) {
  Codes c;
#if defined(__AVX512F__)
  find_codes<f>(c, tile);
#else
  if constexpr (number_bits(f) == 0) {
    find_codes<f>(c, tile);
  } else {
    uint16_t numbers[64 * layout(f).low_bits];
    read_numbers<f>(tile, numbers);
    find_codes<f>(c, numbers);
  }
#endif
  if constexpr (has_signed_grid(f)) negate(c, layout(f).bias, tile + high_offset(f));
  else lower(c, tile + upper_offset(f, number_bits(f)));
  return c;
}

}  // namespace paceline::PACELINE_ISA
