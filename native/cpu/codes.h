// Sixteen rows x 32 inputs of 8-bit weight codes in registers, and their exact integer dot product with 32 activations.
// Integer sums have no rounding, so each instruction set may order them as it likes.
#pragma once

#include "simd.h"
#include "tile.h"

namespace paceline::PACELINE_ISA {

typedef int32_t __attribute__((may_alias)) FourCodes;  // four activations, broadcast as one word

// sum(x) over all inputs of a block, or over one of its two halves
template <int halves, int half>
PACELINE_INLINE int32_t input_sum(const QuantizedBlock& x) {
  return halves == 1 ? x.sum : half == 0 ? x.low_sum : x.sum - x.low_sum;
}

#if defined(__AVX512F__)

struct Codes { __m512i v[8]; };
struct DotLanes { __m512i v; };

PACELINE_INLINE Codes load_codes(const uint8_t* p) {
  Codes c;
  for (int j = 0; j < 8; ++j) c.v[j] = _mm512_loadu_si512(p + 64 * j);
  return c;
}
PACELINE_INLINE Codes load_nibbles(const uint8_t* p) {
  const __m512i low = _mm512_set1_epi8(15);
  Codes c;
  for (int j = 0; j < 4; ++j) {
    const __m512i both = _mm512_loadu_si512(p + 64 * j);
    c.v[j] = _mm512_and_si512(both, low);
    c.v[4 + j] = _mm512_and_si512(_mm512_srli_epi16(both, 4), low);
  }
  return c;
}
PACELINE_INLINE Codes load_pairs(const uint8_t* p) {
  const __m512i low = _mm512_set1_epi8(3);
  Codes c;
  for (int j = 0; j < 8; ++j) c.v[j] = _mm512_and_si512(_mm512_srli_epi16(_mm512_loadu_si512(p + 64 * (j / 4)), 2 * (j % 4)), low);
  return c;
}
template <int value>
PACELINE_INLINE void add_bits(Codes& c, const uint8_t* p) {
  for (int j = 0; j < 8; ++j) {
    uint64_t bits;
    std::memcpy(&bits, p + 8 * j, 8);
    c.v[j] = _mm512_or_si512(c.v[j], _mm512_maskz_set1_epi8(bits, value));
  }
}
PACELINE_INLINE void add_pairs(Codes& c, const uint8_t* p) {  // as bits 4 and 5
  const __m512i place = _mm512_set1_epi8(0x30);
  for (int j = 0; j < 8; j += 4) {
    const __m512i four = _mm512_loadu_si512(p + 16 * j);
    c.v[j] = _mm512_or_si512(c.v[j], _mm512_and_si512(_mm512_slli_epi16(four, 4), place));
    c.v[j + 1] = _mm512_or_si512(c.v[j + 1], _mm512_and_si512(_mm512_slli_epi16(four, 2), place));
    c.v[j + 2] = _mm512_or_si512(c.v[j + 2], _mm512_and_si512(four, place));
    c.v[j + 3] = _mm512_or_si512(c.v[j + 3], _mm512_and_si512(_mm512_srli_epi16(four, 2), place));
  }
}
PACELINE_INLINE void raise(Codes& c, int by) {
  for (int j = 0; j < 8; ++j) c.v[j] = _mm512_add_epi8(c.v[j], _mm512_set1_epi8(static_cast<char>(by)));
}
PACELINE_INLINE void look_up(Codes& c, const uint8_t* table) {
  const __m512i values = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
  for (int j = 0; j < 8; ++j) c.v[j] = _mm512_shuffle_epi8(values, c.v[j]);
}
PACELINE_INLINE void store_codes(uint8_t* p, const Codes& c) {
  for (int j = 0; j < 8; ++j) _mm512_storeu_si512(p + 64 * j, c.v[j]);
}
// Sum of (code - bias) * x for each row, over all inputs or over one of two halves. vpdpbusd does not saturate; codes are
// unsigned, the bias is taken off through sum(x). It begins at the bits of the float kRaised, and stays below 2^22: so its bits are those of kRaised + the sum.
constexpr float kRaised = 12582912.0f;  // 1.5 * 2^23
PACELINE_INLINE Lanes raised(DotLanes a) { return {_mm512_castsi512_ps(a.v)}; }
template <int bias, int halves, int half>
PACELINE_INLINE DotLanes dot(const Codes& c, const QuantizedBlock& x) {
  static_assert((bias & (bias - 1)) == 0);
  constexpr int first = half * 8 / halves, end = first + 8 / halves;
  __m512i even = bias == 0 ? _mm512_setzero_si512() : _mm512_slli_epi32(_mm512_set1_epi32(static_cast<int32_t>(0u - static_cast<uint32_t>(input_sum<halves, half>(x)))), __builtin_ctz(bias | 256));
  __m512i odd = _mm512_castps_si512(_mm512_set1_ps(kRaised));
  const FourCodes* four = reinterpret_cast<const FourCodes*>(x.codes);
  for (int j = first; j < end; j += 2) {
    even = _mm512_dpbusd_epi32(even, c.v[j], _mm512_set1_epi32(four[j]));
    odd = _mm512_dpbusd_epi32(odd, c.v[j + 1], _mm512_set1_epi32(four[j + 1]));
  }
  return {_mm512_add_epi32(even, odd)};
}

#elif defined(__AVX2__)

struct Codes { __m256i v[16]; };

PACELINE_INLINE Codes load_codes(const uint8_t* p) {
  Codes c;
  for (int j = 0; j < 16; ++j) c.v[j] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32 * j));
  return c;
}
PACELINE_INLINE Codes load_nibbles(const uint8_t* p) {
  const __m256i low = _mm256_set1_epi8(15);
  Codes c;
  for (int j = 0; j < 8; ++j) {
    const __m256i both = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32 * j));
    c.v[j] = _mm256_and_si256(both, low);
    c.v[8 + j] = _mm256_and_si256(_mm256_srli_epi16(both, 4), low);
  }
  return c;
}
PACELINE_INLINE Codes load_pairs(const uint8_t* p) {
  const __m256i low = _mm256_set1_epi8(3);
  Codes c;
  for (int j = 0; j < 16; ++j) {
    const __m256i four = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 64 * (j / 8) + 32 * (j % 2)));
    c.v[j] = _mm256_and_si256(_mm256_srli_epi16(four, 2 * (j / 2 % 4)), low);
  }
  return c;
}
PACELINE_INLINE __m256i set_bytes(const uint8_t* p) {  // all ones in the bytes whose bit is set
  const __m256i spread = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
  const __m256i place = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201ull));
  int32_t bits;
  std::memcpy(&bits, p, 4);
  return _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(bits), spread), place), place);
}
template <int value>
PACELINE_INLINE void add_bits(Codes& c, const uint8_t* p) {
  for (int j = 0; j < 16; ++j) c.v[j] = _mm256_or_si256(c.v[j], _mm256_and_si256(set_bytes(p + 4 * j), _mm256_set1_epi8(value)));
}
PACELINE_INLINE void add_pairs(Codes& c, const uint8_t* p) {  // as bits 4 and 5
  const Codes pairs = load_pairs(p);
  for (int j = 0; j < 16; ++j) c.v[j] = _mm256_or_si256(c.v[j], _mm256_slli_epi16(pairs.v[j], 4));
}
PACELINE_INLINE void raise(Codes& c, int by) {
  for (int j = 0; j < 16; ++j) c.v[j] = _mm256_add_epi8(c.v[j], _mm256_set1_epi8(static_cast<char>(by)));
}
PACELINE_INLINE void look_up(Codes& c, const uint8_t* table) {
  const __m256i values = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
  for (int j = 0; j < 16; ++j) c.v[j] = _mm256_shuffle_epi8(values, c.v[j]);
}
PACELINE_INLINE void store_codes(uint8_t* p, const Codes& c) {
  for (int j = 0; j < 16; ++j) _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32 * j), c.v[j]);
}

#if defined(__AVXVNNI__)

template <int bias, int halves, int half>
PACELINE_INLINE IntLanes dot(const Codes& c, const QuantizedBlock& x) {
  constexpr int first = half * 8 / halves, end = first + 8 / halves;
  const __m256i begin = _mm256_set1_epi32(static_cast<int32_t>(0u - static_cast<uint32_t>(bias) * static_cast<uint32_t>(input_sum<halves, half>(x))));
  IntLanes sum = {begin, begin};
  PACELINE_UNROLL
  for (int j = first; j < end; ++j) {
    const __m256i xs = _mm256_set1_epi32(reinterpret_cast<const FourCodes*>(x.codes)[j]);
    sum.lo = _mm256_dpbusd_avx_epi32(sum.lo, c.v[2 * j], xs);
    sum.hi = _mm256_dpbusd_avx_epi32(sum.hi, c.v[2 * j + 1], xs);
  }
  return sum;
}

#else

// vpmaddubsw adds two products in 16 bits and saturates. Codes that are below twice the bias, or below 32 where there is none,
// leave room for some such sums before they must be widened.
template <int bias>
constexpr int kNarrowSums = 32767 / (2 * 127 * (bias == 0 ? 31 : 2 * bias - 1));

PACELINE_INLINE __m256i add_wide(__m256i sum, __m256i narrow) { return _mm256_add_epi32(sum, _mm256_madd_epi16(narrow, _mm256_set1_epi16(1))); }

template <int bias, int halves, int half>
PACELINE_INLINE IntLanes dot(const Codes& c, const QuantizedBlock& x) {
  constexpr int first = half * 8 / halves, end = first + 8 / halves;
  const __m256i begin = _mm256_set1_epi32(static_cast<int32_t>(0u - static_cast<uint32_t>(bias) * static_cast<uint32_t>(input_sum<halves, half>(x))));
  IntLanes sum = {begin, begin}, narrow = sum;
  PACELINE_UNROLL
  for (int j = first; j < end; ++j) {
    const int place = (j - first) % kNarrowSums<bias>;
    const __m256i xs = _mm256_set1_epi32(reinterpret_cast<const FourCodes*>(x.codes)[j]);
    const __m256i lo = _mm256_maddubs_epi16(c.v[2 * j], xs), hi = _mm256_maddubs_epi16(c.v[2 * j + 1], xs);
    narrow.lo = place == 0 ? lo : _mm256_add_epi16(narrow.lo, lo);
    narrow.hi = place == 0 ? hi : _mm256_add_epi16(narrow.hi, hi);
    if (place + 1 < kNarrowSums<bias> && j + 1 < end) continue;
    sum.lo = add_wide(sum.lo, narrow.lo);
    sum.hi = add_wide(sum.hi, narrow.hi);
  }
  return sum;
}

// Codes of 8 bits go through the sign trick, |w| * (x with w's sign), at most 2 * 128 * 127 = 32512: four columns share what it takes of the codes.
constexpr int kShare = 4;
PACELINE_INLINE void add_now(__m256i& sum, __m256i narrow) {
  sum = add_wide(sum, narrow);
  asm("" : "+x"(sum));  // GCC would add at the end, and write all to the stack until then
}
PACELINE_INLINE void signed_dots(const Codes& c, const QuantizedBlock* x, int columns, IntLanes* to) {
  IntLanes sums[kShare];
  PACELINE_UNROLL
  for (int k = 0; k < kShare; ++k) sums[k] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
  PACELINE_UNROLL
  for (int j = 0; j < 8; ++j) {
    const __m256i sign = _mm256_set1_epi8(static_cast<char>(0x80));
    __m256i lo = _mm256_xor_si256(c.v[2 * j], sign), hi = _mm256_xor_si256(c.v[2 * j + 1], sign);
    asm volatile("" : "+x"(lo), "+x"(hi));  // and the next columns would have these from the stack
    const __m256i most_lo = _mm256_abs_epi8(lo), most_hi = _mm256_abs_epi8(hi);
    PACELINE_UNROLL
    for (int k = 0; k < kShare; ++k) {
      if (k >= columns) break;
      const __m256i xs = _mm256_set1_epi32(reinterpret_cast<const FourCodes*>(x[k].codes)[j]);
      add_now(sums[k].lo, _mm256_maddubs_epi16(most_lo, _mm256_sign_epi8(xs, lo)));
      add_now(sums[k].hi, _mm256_maddubs_epi16(most_hi, _mm256_sign_epi8(xs, hi)));
    }
  }
  PACELINE_UNROLL
  for (int k = 0; k < kShare; ++k)
    if (k < columns) to[k] = sums[k];
}

#endif

#elif PACELINE_NEON

struct Codes { uint8x16_t v[32]; };  // 4j + i: rows 4i .. 4i+3 of vector j

PACELINE_INLINE Codes load_codes(const uint8_t* p) {
  Codes c;
  PACELINE_UNROLL
  for (int i = 0; i < 32; ++i) c.v[i] = vld1q_u8(p + 16 * i);
  return c;
}
PACELINE_INLINE Codes load_nibbles(const uint8_t* p) {
  Codes c;
  PACELINE_UNROLL
  for (int i = 0; i < 16; ++i) {
    const uint8x16_t both = vld1q_u8(p + 16 * i);
    c.v[i] = vandq_u8(both, vdupq_n_u8(15));
    c.v[16 + i] = vshrq_n_u8(both, 4);
  }
  return c;
}
PACELINE_INLINE Codes load_pairs(const uint8_t* p) {
  Codes c;
  PACELINE_UNROLL
  for (int i = 0; i < 32; ++i) {
    const uint8x16_t four = vld1q_u8(p + 64 * (i / 16) + 16 * (i % 4));
    c.v[i] = vandq_u8(vshlq_u8(four, vdupq_n_s8(static_cast<int8_t>(-2 * (i / 4 % 4)))), vdupq_n_u8(3));
  }
  return c;
}
template <int value>
PACELINE_INLINE void add_bits(Codes& c, const uint8_t* p) {
  const uint8x16_t spread = vcombine_u8(vdup_n_u8(0), vdup_n_u8(1));
  const uint8x16_t place = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201ull));
  PACELINE_UNROLL
  for (int i = 0; i < 32; ++i) {
    uint16_t bits;
    std::memcpy(&bits, p + 2 * i, 2);
    const uint8x16_t set = vtstq_u8(vqtbl1q_u8(vreinterpretq_u8_u16(vdupq_n_u16(bits)), spread), place);
    c.v[i] = vorrq_u8(c.v[i], vandq_u8(set, vdupq_n_u8(value)));
  }
}
PACELINE_INLINE void add_pairs(Codes& c, const uint8_t* p) {  // as bits 4 and 5
  const Codes pairs = load_pairs(p);
  PACELINE_UNROLL
  for (int i = 0; i < 32; ++i) c.v[i] = vorrq_u8(c.v[i], vshlq_n_u8(pairs.v[i], 4));
}
PACELINE_INLINE void raise(Codes& c, int by) {
  PACELINE_UNROLL
  for (uint8x16_t& v : c.v) v = vaddq_u8(v, vdupq_n_u8(static_cast<uint8_t>(by)));
}
PACELINE_INLINE void look_up(Codes& c, const uint8_t* table) {
  const uint8x16_t values = vld1q_u8(table);
  PACELINE_UNROLL
  for (uint8x16_t& v : c.v) v = vqtbl1q_u8(values, v);
}
PACELINE_INLINE void store_codes(uint8_t* p, const Codes& c) {
  PACELINE_UNROLL
  for (int i = 0; i < 32; ++i) vst1q_u8(p + 16 * i, c.v[i]);
}

// Adds four products to each sum. In 16 bits two of them have room: 2 * 128 * 127 at most.
PACELINE_INLINE int32x4_t add_products(int32x4_t sum, int8x16_t codes, int8x16_t x) {
#if defined(__ARM_FEATURE_DOTPROD)
  return vdotq_s32(sum, codes, x);
#else
  const int16x8_t low = vmull_s8(vget_low_s8(codes), vget_low_s8(x)), high = vmull_high_s8(codes, x);
  return vpadalq_s16(sum, vpaddq_s16(low, high));
#endif
}
// A vector of codes meets all columns before the next is loaded, since all codes are more than the registers hold. 8-bit codes are signed once their bias is
// off; others are below 128, and their bias is taken off through sum(x).
template <int bias, int halves, int half, int n>
struct Dots {
  IntLanes sums[n];

  PACELINE_INLINE Dots(const Codes& c, const QuantizedBlock* x) {
    constexpr int first = half * 8 / halves, end = first + 8 / halves;
    const uint8x16_t sign = vdupq_n_u8(bias < 128 ? 0 : 128);
    PACELINE_UNROLL
    for (int k = 0; k < n; ++k) {
      const int32_t begin = bias < 128 ? static_cast<int32_t>(0u - static_cast<uint32_t>(bias) * static_cast<uint32_t>(input_sum<halves, half>(x[k]))) : 0;
      sums[k] = each_int([=](int) { return vdupq_n_s32(begin); });
    }
    PACELINE_UNROLL
    for (int j = first; j < end; ++j)
      PACELINE_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int8x16_t codes = vreinterpretq_s8_u8(veorq_u8(c.v[4 * j + i], sign));
        PACELINE_UNROLL
        for (int k = 0; k < n; ++k) {
          const int32x4_t four = vld1q_dup_s32(reinterpret_cast<const FourCodes*>(x[k].codes) + j);
          sums[k].v[i] = add_products(sums[k].v[i], codes, vreinterpretq_s8_s32(four));
        }
      }
  }
  PACELINE_INLINE IntLanes operator[](int column) const { return sums[column]; }
};

#else

struct Codes { uint8_t v[512]; };

PACELINE_INLINE Codes load_codes(const uint8_t* p) {
  Codes c;
  std::memcpy(c.v, p, 512);
  return c;
}
PACELINE_INLINE Codes load_nibbles(const uint8_t* p) {
  Codes c;
  for (int i = 0; i < 256; ++i) {
    c.v[i] = p[i] & 15;
    c.v[256 + i] = p[i] >> 4;
  }
  return c;
}
PACELINE_INLINE Codes load_pairs(const uint8_t* p) {
  Codes c;
  for (int i = 0; i < 512; ++i) c.v[i] = p[64 * (i / 256) + i % 64] >> 2 * (i / 64 % 4) & 3;
  return c;
}
template <int value>
PACELINE_INLINE void add_bits(Codes& c, const uint8_t* p) {
  for (int i = 0; i < 512; ++i) c.v[i] |= (p[i / 8] >> (i % 8) & 1) * value;
}
PACELINE_INLINE void add_pairs(Codes& c, const uint8_t* p) {  // as bits 4 and 5
  const Codes pairs = load_pairs(p);
  for (int i = 0; i < 512; ++i) c.v[i] |= pairs.v[i] << 4;
}
PACELINE_INLINE void raise(Codes& c, int by) {
  for (int i = 0; i < 512; ++i) c.v[i] += by;
}
PACELINE_INLINE void look_up(Codes& c, const uint8_t* table) {
  for (int i = 0; i < 512; ++i) c.v[i] = table[c.v[i]];
}
PACELINE_INLINE void store_codes(uint8_t* p, const Codes& c) { std::memcpy(p, c.v, 512); }
template <int bias, int halves, int half>
PACELINE_INLINE IntLanes dot(const Codes& c, const QuantizedBlock& x) {
  IntLanes sum;
  for (int r = 0; r < kTileRows; ++r) {
    int32_t s = 0;
    for (int j = half * 8 / halves; j < (half + 1) * 8 / halves; ++j)
      for (int i = 0; i < 4; ++i) s += (c.v[64 * j + 4 * r + i] - bias) * x.codes[4 * j + i];
    sum.v[r] = s;
  }
  return sum;
}

#endif

#if !defined(__AVX512F__)
using DotLanes = IntLanes;
#endif

#if !PACELINE_NEON
// The dot products of a block's first n columns, each computed when it is asked for.
template <int bias, int halves, int half, int n>
struct Dots {
  const Codes& codes;
  const QuantizedBlock* x;

  PACELINE_INLINE Dots(const Codes& c, const QuantizedBlock* columns) : codes(c), x(columns) {}
  PACELINE_INLINE DotLanes operator[](int column) const { return dot<bias, halves, half>(codes, x[column]); }
};
#endif

#if defined(__AVX2__) && !defined(__AVX512F__) && !defined(__AVXVNNI__)
// Those of codes of 8 bits are all computed at once.
template <int n>
struct Dots<128, 1, 0, n> {
  IntLanes sums[n];

  PACELINE_INLINE Dots(const Codes& c, const QuantizedBlock* x) {
    PACELINE_UNROLL
    for (int k = 0; k < n; k += kShare) signed_dots(c, x + k, n - k, sums + k);
  }
  PACELINE_INLINE IntLanes operator[](int column) const { return sums[column]; }
};
#endif

}  // namespace paceline::PACELINE_ISA
