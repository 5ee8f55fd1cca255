// Sixteen rows x 32 inputs of 8-bit weight codes in registers, and their exact integer dot product with 32 activations.
// Integer sums have no rounding, so each instruction set may order them as it likes.
#pragma once

#include "simd.h"
#include "tile.h"

namespace paceline::PACELINE_ISA {

typedef int32_t __attribute__((may_alias)) FourCodes;  // four activations, broadcast as one word

// Codes are at most `most`, and stand for themselves less the bias.
struct CodeRange {
  int bias, most;
  bool operator==(const CodeRange&) const = default;
};
constexpr CodeRange kSignedCodes = {0, 255};  // of AMX's panels: bytes with a sign

// sum(x) over all inputs of a block, or over one of its two halves
template <int halves, int half>
PACELINE_INLINE int32_t input_sum(const QuantizedBlock& x) {
  return halves == 1 ? x.sum : half == 0 ? x.low_sum : x.sum - x.low_sum;
}

}  // namespace paceline::PACELINE_ISA

// load_…(), add_…(), look_up(): the codes of a tile, or with what a plane adds to them, or what a table has for them, each returned. raise() changes its own.
// Dots: the dot products of some columns.
#if defined(__AVX512F__)
#include "codes_avx512.h"
#elif defined(__AVX2__)
#include "codes_avx2.h"
#elif PACELINE_NEON
#include "codes_neon.h"
#else
#include "codes_plain.h"
#endif

namespace paceline::PACELINE_ISA {

#if !defined(__AVX512F__)
using DotLanes = IntLanes;
#endif

// kTogether: how many columns share what it takes of the codes. kNarrow: sums have 16 bits, so that it matters whether codes are below 16 or below 32.
#if defined(__AVX2__) && !defined(__AVX512F__) && !defined(__AVXVNNI__)
template <CodeRange range>
constexpr int kTogether = range.bias == 128 ? kGroup : 2;
constexpr bool kNarrow = true;
#elif PACELINE_NEON
template <CodeRange>
constexpr int kTogether = kGroup;
constexpr bool kNarrow = false;
#else
template <CodeRange>
constexpr int kTogether = 1;
constexpr bool kNarrow = false;

// The dot products of a block's first n columns.
template <CodeRange range, int halves, int half, int n>
struct Dots {
  DotLanes sums[n];

  template <class Vectors>
  PACELINE_INLINE Dots(const Vectors& c, const QuantizedBlock* x) {
    PACELINE_UNROLL
    for (int k = 0; k < n; ++k) sums[k] = dot<range, halves, half>(c, x[k]);
  }
  PACELINE_INLINE DotLanes operator[](int column) const { return sums[column]; }
};
#endif

}  // namespace paceline::PACELINE_ISA
