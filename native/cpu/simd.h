// Sixteen virtual lanes of float32, with one meaning on every instruction set.
//
// Kernels are written once against `Lanes` and compiled four times (PACELINE_ISA is plain, avx2, avxvnni or avx512).
// Each operation below is exactly rounded or exact, so the builds give the same bits by construction:
// AVX-512 holds the lanes in one register, AVX2 (with VNNI or without) in two, plain C++ in an array. No other float type, no other
// reduction than `fold` (lane i with i+8, then i+4, i+2, i+1), and no libm: `exponential` is our own.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "half.h"

namespace paceline::PACELINE_ISA {

// Before a loop over an array of accumulators. Unrolled before all else, the array is registers; GCC 12 otherwise keeps those but writes each of them to
// the stack, too, in every turn of the loop around it: attention took 1.5 times as long.
#define PACELINE_UNROLL _Pragma("GCC unroll 16")

constexpr int kLanes = 16;

#if defined(__AVX2__)
struct Bytes { __m128i v; };  // sixteen, signed
inline void store(int8_t* p, Bytes a) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), a.v); }
inline int32_t sum(Bytes a) {
  const __m128i halves = _mm_sad_epu8(_mm_xor_si128(a.v, _mm_set1_epi8(-128)), _mm_setzero_si128());  // of a + 128 each
  return _mm_cvtsi128_si32(_mm_add_epi32(halves, _mm_unpackhi_epi64(halves, halves))) - 128 * kLanes;
}
#endif

#if defined(__AVX512F__)

struct Lanes { __m512 v; };
struct IntLanes { __m512i v; };

inline Lanes zero() { return {_mm512_setzero_ps()}; }
inline Lanes broadcast(float x) { return {_mm512_set1_ps(x)}; }
inline Lanes load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline void store(float* p, Lanes a) { _mm512_storeu_ps(p, a.v); }
inline Lanes load_half(const uint16_t* p) { return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))}; }
inline Lanes load_brain(const uint16_t* p) {  // bfloat16: the upper half of a float
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}
inline Lanes load_powers(const uint8_t* p) {  // 2^(e - 128), subnormal for e below 2
  const __m512i e = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
  const __m512i small = _mm512_sllv_epi32(_mm512_set1_epi32(0x200000), e);
  return {_mm512_castsi512_ps(_mm512_mask_blend_epi32(_mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2)), normal, small))};
}
inline void store_half(uint16_t* p, Lanes a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
inline Lanes operator+(Lanes a, Lanes b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Lanes operator-(Lanes a, Lanes b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Lanes operator*(Lanes a, Lanes b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Lanes operator/(Lanes a, Lanes b) { return {_mm512_div_ps(a.v, b.v)}; }
inline Lanes fma(Lanes a, Lanes b, Lanes c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Lanes larger(Lanes a, Lanes b) { return {_mm512_max_ps(a.v, b.v)}; }
inline Lanes smaller(Lanes a, Lanes b) { return {_mm512_min_ps(a.v, b.v)}; }
inline Lanes magnitude(Lanes a) { return {_mm512_abs_ps(a.v)}; }
inline IntLanes nearest(Lanes a) { return {_mm512_cvtps_epi32(a.v)}; }
inline IntLanes widen(__m128i a) { return {_mm512_cvtepu8_epi32(a)}; }
inline IntLanes load_signed(const uint8_t* p) { return {_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))}; }
inline Lanes from_halves(__m256i a) { return {_mm512_cvtph_ps(a)}; }
inline Lanes to_float(IntLanes a) { return {_mm512_cvtepi32_ps(a.v)}; }
inline Lanes power_of_two(IntLanes n) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(n.v, _mm512_set1_epi32(127)), 23))};
}
inline Bytes to_bytes(IntLanes a) { return {_mm512_cvtepi32_epi8(a.v)}; }
inline void store_ints(int32_t* p, IntLanes a) { _mm512_storeu_si512(p, a.v); }
// Lanes [0, count) of a, the others replaced by `other`.
inline Lanes keep(Lanes a, int count, Lanes other) {
  const __mmask16 mask = count >= kLanes ? 0xffff : static_cast<__mmask16>((1u << (count < 0 ? 0 : count)) - 1);
  return {_mm512_mask_blend_ps(mask, other.v, a.v)};
}
inline float first(Lanes a) { return _mm512_cvtss_f32(a.v); }
// Lane i + width in lane i, for the lanes below width.
template <int width>
inline Lanes lowered(Lanes a) {
  if constexpr (width == 8) return {_mm512_shuffle_f32x4(a.v, a.v, 0x4e)};
  if constexpr (width == 4) return {_mm512_shuffle_f32x4(a.v, a.v, 0xb1)};
  if constexpr (width == 2) return {_mm512_permute_ps(a.v, 0x4e)};
  return {_mm512_permute_ps(a.v, 0xb1)};
}
inline Lanes load_codes(const int8_t* p) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
}
// Four bits of each byte from bit `shift` on, less 8.
inline Lanes load_nibbles(const uint8_t* p, int shift) {
  const __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const __m512i codes = _mm512_and_si512(_mm512_srl_epi32(bytes, _mm_cvtsi32_si128(shift)), _mm512_set1_epi32(15));
  return {_mm512_cvtepi32_ps(_mm512_sub_epi32(codes, _mm512_set1_epi32(8)))};
}
inline Lanes broadcast_half(const uint16_t* p) { return {_mm512_cvtph_ps(_mm256_set1_epi16(static_cast<int16_t>(*p)))}; }

#elif defined(__AVX2__)

struct Lanes { __m256 lo, hi; };
struct IntLanes { __m256i lo, hi; };

inline Lanes zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
inline Lanes broadcast(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline Lanes load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void store(float* p, Lanes a) { _mm256_storeu_ps(p, a.lo); _mm256_storeu_ps(p + 8, a.hi); }
inline Lanes load_half(const uint16_t* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}
inline __m256 brain_half(const uint16_t* p) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), 16));
}
inline Lanes load_brain(const uint16_t* p) { return {brain_half(p), brain_half(p + 8)}; }
inline __m256 powers_half(const uint8_t* p) {
  const __m256i e = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
  const __m256i small = _mm256_sllv_epi32(_mm256_set1_epi32(0x200000), e);
  return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, small, _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e)));
}
inline Lanes load_powers(const uint8_t* p) { return {powers_half(p), powers_half(p + 8)}; }
inline void store_half(uint16_t* p, Lanes a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(a.lo, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(a.hi, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
inline Lanes operator+(Lanes a, Lanes b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
inline Lanes operator-(Lanes a, Lanes b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
inline Lanes operator*(Lanes a, Lanes b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
inline Lanes operator/(Lanes a, Lanes b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
inline Lanes fma(Lanes a, Lanes b, Lanes c) { return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)}; }
inline Lanes larger(Lanes a, Lanes b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
inline Lanes smaller(Lanes a, Lanes b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
inline Lanes magnitude(Lanes a) {
  const __m256 mask = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
  return {_mm256_and_ps(a.lo, mask), _mm256_and_ps(a.hi, mask)};
}
inline IntLanes nearest(Lanes a) { return {_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)}; }
inline IntLanes widen(__m128i a) { return {_mm256_cvtepu8_epi32(a), _mm256_cvtepu8_epi32(_mm_srli_si128(a, 8))}; }
inline IntLanes load_signed(const uint8_t* p) {
  const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepi8_epi32(a), _mm256_cvtepi8_epi32(_mm_srli_si128(a, 8))};
}
inline Lanes from_halves(__m256i a) { return {_mm256_cvtph_ps(_mm256_castsi256_si128(a)), _mm256_cvtph_ps(_mm256_extracti128_si256(a, 1))}; }
inline Lanes to_float(IntLanes a) { return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)}; }
inline Lanes power_of_two(IntLanes n) {
  const __m256i bias = _mm256_set1_epi32(127);
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n.lo, bias), 23)),
          _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n.hi, bias), 23))};
}
inline void store_ints(int32_t* p, IntLanes a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.lo);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), a.hi);
}
inline Bytes to_bytes(IntLanes a) {
  const __m256i low = _mm256_set1_epi32(255);
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packus_epi32(_mm256_and_si256(a.lo, low), _mm256_and_si256(a.hi, low)), 0xd8);  // a pack goes by halves
  return {_mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1))};
}
inline Lanes keep(Lanes a, int count, Lanes other) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256 lo = _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(count), lane));
  const __m256 hi = _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(count - 8), lane));
  return {_mm256_blendv_ps(other.lo, a.lo, lo), _mm256_blendv_ps(other.hi, a.hi, hi)};
}
inline float first(Lanes a) { return _mm256_cvtss_f32(a.lo); }
template <int width>
inline Lanes lowered(Lanes a) {
  if constexpr (width == 8) return {a.hi, a.hi};
  if constexpr (width == 4) return {_mm256_permute2f128_ps(a.lo, a.lo, 1), a.hi};
  if constexpr (width == 2) return {_mm256_permute_ps(a.lo, 0x4e), a.hi};
  return {_mm256_permute_ps(a.lo, 0xb1), a.hi};
}
inline __m256 codes_half(const int8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
inline Lanes load_codes(const int8_t* p) { return {codes_half(p), codes_half(p + 8)}; }
inline __m256 nibbles_half(const uint8_t* p, int shift) {
  const __m256i bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  const __m256i codes = _mm256_and_si256(_mm256_srl_epi32(bytes, _mm_cvtsi32_si128(shift)), _mm256_set1_epi32(15));
  return _mm256_cvtepi32_ps(_mm256_sub_epi32(codes, _mm256_set1_epi32(8)));
}
inline Lanes load_nibbles(const uint8_t* p, int shift) { return {nibbles_half(p, shift), nibbles_half(p + 8, shift)}; }
inline Lanes broadcast_half(const uint16_t* p) {
  const __m256 value = _mm256_cvtph_ps(_mm_set1_epi16(static_cast<int16_t>(*p)));
  return {value, value};
}

#else

struct Lanes { float v[kLanes]; };
struct IntLanes { int32_t v[kLanes]; };

template <class F>
inline Lanes each(F f) {
  Lanes r;
  for (int i = 0; i < kLanes; ++i) r.v[i] = f(i);
  return r;
}
inline Lanes broadcast(float x) { return each([=](int) { return x; }); }
inline Lanes zero() { return broadcast(0.0f); }
inline Lanes load(const float* p) { return each([=](int i) { return p[i]; }); }
inline void store(float* p, Lanes a) { std::memcpy(p, a.v, sizeof a.v); }
inline Lanes load_half(const uint16_t* p) { return each([=](int i) { return half_to_float(p[i]); }); }
inline Lanes load_brain(const uint16_t* p) { return each([=](int i) { return brain_to_float(p[i]); }); }
inline Lanes load_powers(const uint8_t* p) { return each([=](int i) { return power_scale(p[i]); }); }
inline void store_half(uint16_t* p, Lanes a) { for (int i = 0; i < kLanes; ++i) p[i] = float_to_half(a.v[i]); }
inline Lanes operator+(Lanes a, Lanes b) { return each([&](int i) { return a.v[i] + b.v[i]; }); }
inline Lanes operator-(Lanes a, Lanes b) { return each([&](int i) { return a.v[i] - b.v[i]; }); }
inline Lanes operator*(Lanes a, Lanes b) { return each([&](int i) { return a.v[i] * b.v[i]; }); }
inline Lanes operator/(Lanes a, Lanes b) { return each([&](int i) { return a.v[i] / b.v[i]; }); }
inline Lanes fma(Lanes a, Lanes b, Lanes c) { return each([&](int i) { return __builtin_fmaf(a.v[i], b.v[i], c.v[i]); }); }
// As vmaxps and vminps: the second operand when either is not a number.
inline Lanes larger(Lanes a, Lanes b) { return each([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; }); }
inline Lanes smaller(Lanes a, Lanes b) { return each([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; }); }
inline Lanes magnitude(Lanes a) { return each([&](int i) { return __builtin_fabsf(a.v[i]); }); }
inline IntLanes nearest(Lanes a) {
  // Adding 1.5 * 2^23 leaves the nearest-even integer in the low bits; exact for |a| < 2^22, which callers keep to.
  IntLanes r;
  for (int i = 0; i < kLanes; ++i) {
    const float shifted = a.v[i] + 12582912.0f;
    r.v[i] = static_cast<int32_t>(shifted - 12582912.0f);
  }
  return r;
}
inline Lanes to_float(IntLanes a) { return each([&](int i) { return static_cast<float>(a.v[i]); }); }
inline Lanes power_of_two(IntLanes n) {
  return each([&](int i) {
    const uint32_t bits = static_cast<uint32_t>(n.v[i] + 127) << 23;
    float f;
    std::memcpy(&f, &bits, 4);
    return f;
  });
}
inline IntLanes each_int(auto f) {
  IntLanes r;
  for (int i = 0; i < kLanes; ++i) r.v[i] = f(i);
  return r;
}
inline IntLanes load_unsigned(const uint8_t* p) { return each_int([=](int i) { return p[i]; }); }
inline IntLanes load_signed(const uint8_t* p) { return each_int([=](int i) { return static_cast<int8_t>(p[i]); }); }
inline IntLanes load_low_nibbles(const uint8_t* p) { return each_int([=](int i) { return p[i] & 15; }); }
inline IntLanes load_high_nibbles(const uint8_t* p) { return each_int([=](int i) { return p[i] >> 4; }); }
inline IntLanes load_folded_nibbles(const uint8_t* p) { return each_int([=](int i) { return i < 8 ? p[i] & 15 : p[i - 8] >> 4; }); }
inline Lanes load_small_floats(const uint8_t* p) { return each([=](int i) { return small_float(p[i]); }); }
inline void store_ints(int32_t* p, IntLanes a) { std::memcpy(p, a.v, sizeof a.v); }
struct Bytes { int8_t v[kLanes]; };
inline Bytes to_bytes(IntLanes a) {
  Bytes r;
  for (int i = 0; i < kLanes; ++i) r.v[i] = static_cast<int8_t>(a.v[i]);
  return r;
}
inline void store(int8_t* p, Bytes a) { std::memcpy(p, a.v, sizeof a.v); }
inline int32_t sum(Bytes a) {
  int32_t all = 0;
  for (const int8_t x : a.v) all += x;
  return all;
}
inline Lanes keep(Lanes a, int count, Lanes other) { return each([&](int i) { return i < count ? a.v[i] : other.v[i]; }); }
inline float first(Lanes a) { return a.v[0]; }
template <int width>
inline Lanes lowered(Lanes a) { return each([&](int i) { return a.v[i < width ? i + width : i]; }); }
inline Lanes load_codes(const int8_t* p) { return each([=](int i) { return static_cast<float>(p[i]); }); }
inline Lanes load_nibbles(const uint8_t* p, int shift) { return each([=](int i) { return static_cast<float>((p[i] >> shift & 15) - 8); }); }
inline Lanes broadcast_half(const uint16_t* p) { return broadcast(half_to_float(*p)); }

#endif

#if defined(__AVX2__)
inline IntLanes load_unsigned(const uint8_t* p) { return widen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
inline __m128i low_nibbles(__m128i a) { return _mm_and_si128(a, _mm_set1_epi8(15)); }
inline IntLanes load_low_nibbles(const uint8_t* p) { return widen(low_nibbles(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))); }
inline IntLanes load_high_nibbles(const uint8_t* p) {
  return widen(low_nibbles(_mm_srli_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), 4)));
}
inline IntLanes load_folded_nibbles(const uint8_t* p) {  // of 8 bytes, the low ones first
  const __m128i a = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return widen(low_nibbles(_mm_unpacklo_epi64(a, _mm_srli_epi16(a, 4))));
}
inline Lanes load_small_floats(const uint8_t* p) {  // half of UE4M3: a binary16 with another bias
  const __m256i bits = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return from_halves(_mm256_slli_epi16(bits, 7)) * broadcast(128.0f);
}
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

// e^x for x in [-87, 88], clamped outside: x = n ln 2 + r with |r| <= ln2/2, Taylor series to degree 7 (error below 1 ulp).
inline Lanes exponential(Lanes x) {
  x = smaller(larger(x, broadcast(-87.0f)), broadcast(88.0f));
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
  p = fma(p, r, broadcast(1.0f));
  p = fma(p, r, broadcast(1.0f));
  return p * power_of_two(n);
}

// (e^2x - 1) / (e^2x + 1): within 1e-7 of the truth, which is what a score of the size of a soft-cap is rounded to.
inline Lanes hyperbolic_tangent(Lanes x) {
  const Lanes e = exponential(x + x);
  return (e - broadcast(1.0f)) / (e + broadcast(1.0f));
}

inline float exponential(float x) { return first(exponential(broadcast(x))); }

}  // namespace paceline::PACELINE_ISA
