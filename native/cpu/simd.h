// Sixteen virtual lanes of float32, with one meaning on every instruction set.
//
// Kernels are written once against `Lanes` and compiled once for each (PACELINE_ISA is plain, avx2, avxvnni, avx512 or amx, or on ARM neon or dotprod).
// Each operation is exactly rounded or exact, so the builds give the same bits by construction:
// AVX-512 holds the lanes in one register, AVX2 (with VNNI or without) in two, NEON in four, plain C++ in an array. No other float type, no other
// reduction than `fold` (lane i with i+8, then i+4, i+2, i+1), and no libm: `exponential` is our own.
#pragma once

#include <cstdint>
#include <cstring>

#include "half.h"

// Before a loop over an array of accumulators. Unrolled before all else, the array is registers; GCC 12 otherwise keeps those but writes each of them to
// the stack, too, in every turn of the loop around it: attention took 1.5 times as long.
#define PACELINE_UNROLL _Pragma("GCC unroll 32")

// All of a kernel is one loop: a call in it would write its registers to memory.
#define PACELINE_INLINE [[gnu::always_inline]] inline
#define PACELINE_INLINED __attribute__((always_inline))  // behind a lambda's parameters

namespace paceline::PACELINE_ISA {
constexpr int kLanes = 16;
}

#if defined(__AVX2__)
#include "lanes_x86.h"
#elif PACELINE_NEON
#include "lanes_neon.h"
#else
#include "lanes_plain.h"
#endif

namespace paceline::PACELINE_ISA {

#if !defined(__AVX2__)
// Past the caches, to a multiple of 64 bytes: for what is read again when much else has been read. Before another thread reads it there has to be an end_streams.
inline void stream(float* p, Lanes a) { store(p, a); }
inline void end_streams() {}
#endif

// The one reduction order: lane i with i+8, then i+4, i+2, i+1.
inline float fold_sum(Lanes a) {
  a = a + lowered<8>(a);
  a = a + lowered<4>(a);
  a = a + lowered<2>(a);
  return first(a + lowered<1>(a));
}

inline float fold_larger(Lanes a) {
  a = larger(a, lowered<8>(a));
  a = larger(a, lowered<4>(a));
  a = larger(a, lowered<2>(a));
  return first(larger(a, lowered<1>(a)));
}

// e^x = 2^n (1 + r p) for x in [-87, 88]: x = n ln 2 + r with |r| <= ln2/2, Taylor series to degree 7 (error below 1 ulp).
struct PowerOfE {
  IntLanes n;
  Lanes r, p;
};
inline PowerOfE series_of_e(Lanes x) {
  const IntLanes n = nearest(x * broadcast(1.44269504f));
  const Lanes nf = to_float(n);
  Lanes r = fma(nf, broadcast(-0.693359375f), x);       // ln 2 in two parts, so that r is exact to the last bit
  r = fma(nf, broadcast(2.12194440e-4f), r);
  Lanes p = broadcast(1.0f / 5040.0f);
  p = fma(p, r, broadcast(1.0f / 720.0f));
  p = fma(p, r, broadcast(1.0f / 120.0f));
  p = fma(p, r, broadcast(1.0f / 24.0f));
  p = fma(p, r, broadcast(1.0f / 6.0f));
  p = fma(p, r, broadcast(0.5f));
  return {n, r, fma(p, r, broadcast(1.0f))};
}
inline Lanes power_of_e(Lanes x) {
  const PowerOfE e = series_of_e(x);
  return fma(e.p, e.r, broadcast(1.0f)) * power_of_two(e.n);
}

// e^x - 1 for x in [-87, 88], to the last bits where x is small, too.
inline Lanes power_of_e_less_one(Lanes x) {
  const PowerOfE e = series_of_e(x);
  const Lanes scale = power_of_two(e.n);
  return fma(scale, e.p * e.r, scale - broadcast(1.0f));
}

// Clamped outside. For weights: what is no number weighs next to nothing.
inline Lanes exponential(Lanes x) { return power_of_e(smaller(larger(x, broadcast(-87.0f)), broadcast(88.0f))); }

// The same, but NaN stays NaN. For gates: a model that breaks down may not be opened or closed by one.
inline Lanes exponential_or_nan(Lanes x) { return power_of_e(smaller(broadcast(88.0f), larger(broadcast(-87.0f), x))); }

inline float exponential(float x) { return first(exponential(broadcast(x))); }
inline float exponential_or_nan(float x) { return first(exponential_or_nan(broadcast(x))); }

// (e^2x - 1) / (e^2x + 1): within 1e-7 of the truth, which is what a score of the size of a soft-cap is rounded to.
inline Lanes hyperbolic_tangent(Lanes x) {
  const Lanes e = exponential_or_nan(x + x);
  return (e - broadcast(1.0f)) / (e + broadcast(1.0f));
}

}  // namespace paceline::PACELINE_ISA
