// Codes in sixteen vectors of AVX2, with VNNI or without (codes.h).
#pragma once

namespace paceline::PACELINE_ISA {

// Vectors of codes, each unpacked when it is asked for: those of a tile fill all registers, and a single column needs each once.
template <class At>
struct Unpacking {
  At at;  // (int) -> __m256i
};
template <class At>
Unpacking(At) -> Unpacking<At>;

struct Codes {
  __m256i v[16];

  Codes() = default;
  template <class At>
  PACELINE_INLINE Codes(const Unpacking<At>& codes) {
    PACELINE_UNROLL
    for (int i = 0; i < 16; ++i) {
      const int j = i / 2 + 8 * (i % 2);  // nibbles of one load after each other
      v[j] = codes.at(j);
    }
  }
  PACELINE_INLINE __m256i at(int j) const { return v[j]; }
};

PACELINE_INLINE __m256i load_vector(const uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
PACELINE_INLINE auto load_codes(const uint8_t* p) {
  return Unpacking{[=](int j) PACELINE_INLINED { return load_vector(p + 32 * j); }};
}
PACELINE_INLINE auto load_nibbles(const uint8_t* p) {
  return Unpacking{[=](int j) PACELINE_INLINED {
    const __m256i both = load_vector(p + 32 * (j % 8));
    return _mm256_and_si256(j < 8 ? both : _mm256_srli_epi16(both, 4), _mm256_set1_epi8(15));
  }};
}
// Four vectors of pairs of bits lie in one, of which this is place j / 2 % 4.
PACELINE_INLINE const uint8_t* four_pairs(const uint8_t* p, int j) { return p + 64 * (j / 8) + 32 * (j % 2); }
PACELINE_INLINE auto load_pairs(const uint8_t* p) {
  return Unpacking{[=](int j) PACELINE_INLINED {
    return _mm256_and_si256(_mm256_srli_epi16(load_vector(four_pairs(p, j)), 2 * (j / 2 % 4)), _mm256_set1_epi8(3));
  }};
}
PACELINE_INLINE __m256i set_bytes(const uint8_t* p) {  // all ones in the bytes whose bit is set
  const __m256i spread = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
  const __m256i place = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201ull));
  int32_t bits;
  std::memcpy(&bits, p, 4);
  return _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(bits), spread), place), place);
}
template <int value, class At>
[[nodiscard]] PACELINE_INLINE auto add_bits(Unpacking<At> codes, const uint8_t* p) {
  return Unpacking{[=](int j) PACELINE_INLINED {
    return _mm256_or_si256(codes.at(j), _mm256_and_si256(set_bytes(p + 4 * j), _mm256_set1_epi8(value)));
  }};
}
template <class At>
[[nodiscard]] PACELINE_INLINE auto add_pairs(Unpacking<At> codes, const uint8_t* p) {  // as bits 4 and 5
  return Unpacking{[=](int j) PACELINE_INLINED {
    const int place = 2 * (j / 2 % 4);
    const __m256i four = load_vector(four_pairs(p, j));
    const __m256i pairs = place < 4 ? _mm256_slli_epi16(four, 4 - place) : _mm256_srli_epi16(four, place - 4);
    return _mm256_or_si256(codes.at(j), _mm256_and_si256(pairs, _mm256_set1_epi8(0x30)));
  }};
}
template <class At>
[[nodiscard]] PACELINE_INLINE auto look_up(Unpacking<At> codes, const uint8_t* table) {
  const __m256i values = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
  return Unpacking{[=](int j) PACELINE_INLINED { return _mm256_shuffle_epi8(values, codes.at(j)); }};
}
PACELINE_INLINE void raise(Codes& c, int by) {
  for (int j = 0; j < 16; ++j) c.v[j] = _mm256_add_epi8(c.v[j], _mm256_set1_epi8(static_cast<char>(by)));
}
PACELINE_INLINE void store_codes(uint8_t* p, const Codes& c) {
  for (int j = 0; j < 16; ++j) _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32 * j), c.v[j]);
}

// What a sum begins at, as codes have a bias.
template <int bias, int halves, int half>
PACELINE_INLINE __m256i less_bias(const QuantizedBlock& x) {
  return _mm256_set1_epi32(static_cast<int32_t>(0u - static_cast<uint32_t>(bias) * static_cast<uint32_t>(input_sum<halves, half>(x))));
}

#if defined(__AVXVNNI__)

template <CodeRange range, int halves, int half, class Vectors>
PACELINE_INLINE IntLanes dot(const Vectors& c, const QuantizedBlock& x) {
  constexpr int first = half * 8 / halves, end = first + 8 / halves;
  const __m256i begin = less_bias<range.bias, halves, half>(x);
  IntLanes sum = {begin, begin};
  PACELINE_UNROLL
  for (int j = first; j < end; ++j) {
    const __m256i xs = _mm256_set1_epi32(reinterpret_cast<const FourCodes*>(x.codes)[j]);
    sum.lo = _mm256_dpbusd_avx_epi32(sum.lo, c.at(2 * j), xs);
    sum.hi = _mm256_dpbusd_avx_epi32(sum.hi, c.at(2 * j + 1), xs);
  }
  return sum;
}

#else

// vpmaddubsw adds two products in 16 bits and saturates. Small codes leave room for some such sums before they must be widened.
constexpr int narrow_sums(int most) { return 32767 / (2 * 127 * most); }

PACELINE_INLINE __m256i add_wide(__m256i sum, __m256i narrow) { return _mm256_add_epi32(sum, _mm256_madd_epi16(narrow, _mm256_set1_epi16(1))); }

template <CodeRange range, int halves, int half, int n>
struct Dots {
  IntLanes sums[n];

  template <class Vectors>
  PACELINE_INLINE Dots(const Vectors& c, const QuantizedBlock* x) {
    constexpr int first = half * 8 / halves, end = first + 8 / halves, room = narrow_sums(range.most);
    static_assert(room > 0);
    IntLanes narrow[n];
    PACELINE_UNROLL
    for (int k = 0; k < n; ++k) {
      const __m256i begin = less_bias<range.bias, halves, half>(x[k]);
      sums[k] = {begin, begin};
    }
    PACELINE_UNROLL
    for (int j = first; j < end; ++j) {
      const int place = (j - first) % room;
      IntLanes products[n];
      PACELINE_UNROLL
      for (int k = 0; k < n; ++k) {
        const __m256i xs = _mm256_set1_epi32(reinterpret_cast<const FourCodes*>(x[k].codes)[j]);
        products[k] = {_mm256_maddubs_epi16(c.at(2 * j), xs), _mm256_maddubs_epi16(c.at(2 * j + 1), xs)};
      }
      PACELINE_UNROLL
      for (int k = 0; k < n; ++k) {
        narrow[k].lo = place == 0 ? products[k].lo : _mm256_add_epi16(narrow[k].lo, products[k].lo);
        narrow[k].hi = place == 0 ? products[k].hi : _mm256_add_epi16(narrow[k].hi, products[k].hi);
      }
      // GCC would add at the end: codes would wait on the stack, or be loaded for each column.
      if constexpr (n == 1 && halves == 1) asm("" : "+x"(narrow[0].lo), "+x"(narrow[0].hi));
      if constexpr (n == 2) asm("" : "+x"(narrow[0].lo), "+x"(narrow[0].hi), "+x"(narrow[1].lo), "+x"(narrow[1].hi));
      if (place + 1 < room && j + 1 < end) continue;
      PACELINE_UNROLL
      for (int k = 0; k < n; ++k) sums[k] = {add_wide(sums[k].lo, narrow[k].lo), add_wide(sums[k].hi, narrow[k].hi)};
    }
  }
  PACELINE_INLINE IntLanes operator[](int column) const { return sums[column]; }
};

// Codes of 8 bits go through the sign trick, |w| * (x with w's sign), at most 2 * 128 * 127 = 32512: four columns share what it takes of the codes.
PACELINE_INLINE void add_now(__m256i& sum, __m256i narrow) {
  sum = add_wide(sum, narrow);
  asm("" : "+x"(sum));  // GCC would add at the end, and write all to the stack until then
}
constexpr int kShare = 4;
template <class Vectors>
PACELINE_INLINE void signed_dots(const Vectors& c, const QuantizedBlock* x, int columns, IntLanes* to) {
  IntLanes sums[kShare];
  PACELINE_UNROLL
  for (int k = 0; k < kShare; ++k) sums[k] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
  PACELINE_UNROLL
  for (int j = 0; j < 8; ++j) {
    const __m256i sign = _mm256_set1_epi8(static_cast<char>(0x80));
    __m256i lo = _mm256_xor_si256(c.at(2 * j), sign), hi = _mm256_xor_si256(c.at(2 * j + 1), sign);
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
template <CodeRange range, int n>
  requires(range.bias == 128)
struct Dots<range, 1, 0, n> {
  IntLanes sums[n];

  template <class Vectors>
  PACELINE_INLINE Dots(const Vectors& c, const QuantizedBlock* x) {
    PACELINE_UNROLL
    for (int k = 0; k < n; k += kShare) signed_dots(c, x + k, n - k, sums + k);
  }
  PACELINE_INLINE IntLanes operator[](int column) const { return sums[column]; }
};

#endif

}  // namespace paceline::PACELINE_ISA
