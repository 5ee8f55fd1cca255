// What a core can do at most: read memory, and multiply 8-bit codes in registers. For benchmarks; see roofs.cpp.
#include "codes.h"
#include "operations.h"

#if defined(__AMX_INT8__)
#include "tiles_amx.h"
#endif

namespace paceline::PACELINE_ISA {

// Keeps the compiler from knowing anything of the value of `x`.
#if PACELINE_NEON
#define PACELINE_OPAQUE(x) asm volatile("" : "+w"(x))
#else
#define PACELINE_OPAQUE(x) asm volatile("" : "+v"(x))
#endif

#if defined(__AVX512F__)

void read_through(const uint8_t* data, size_t bytes) {
  __m512i seen[8] = {};
  for (size_t i = 0; i + 512 <= bytes; i += 512)
    for (int j = 0; j < 8; ++j) seen[j] = _mm512_or_si512(seen[j], _mm512_load_si512(data + i + 64 * j));
  for (__m512i& x : seen) PACELINE_OPAQUE(x);
}

#if defined(__AMX_INT8__)

// All of 64 inputs in an instruction, twice what a block of 32 lets a product use. Sums that share their codes follow each other.
uint64_t multiply_codes(int rounds) {
  static constexpr TileSizes sizes = full_tiles();
  alignas(64) static constexpr int8_t codes[16 * 64] = {3};
  const TileRegisters registers(sizes);
  _tile_loadd(4, codes, 64);
  _tile_loadd(5, codes, 64);
  _tile_loadd(6, codes, 64);
  _tile_loadd(7, codes, 64);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int round = 0; round < rounds / 8; ++round) {
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 5, 6);
    _tile_dpbssd(2, 4, 7);
    _tile_dpbssd(3, 5, 7);
  }
  return static_cast<uint64_t>(rounds / 8) * 4 * 16 * 16 * 64;
}

#else

// Sixteen chains hide the latency of two instructions a cycle.
uint64_t multiply_codes(int rounds) {
  __m512i sums[16] = {}, codes = _mm512_set1_epi8(3), activations = _mm512_set1_epi8(-5);
  PACELINE_OPAQUE(codes);
  PACELINE_OPAQUE(activations);
  for (int round = 0; round < rounds; ++round) {
    PACELINE_UNROLL
    for (int i = 0; i < 16; ++i) {
      sums[i] = _mm512_dpbusd_epi32(sums[i], codes, activations);
      PACELINE_OPAQUE(sums[i]);
    }
  }
  return static_cast<uint64_t>(rounds) * 16 * 64;
}

#endif

#elif defined(__AVX2__)

void read_through(const uint8_t* data, size_t bytes) {
  __m256i seen[8] = {};
  for (size_t i = 0; i + 256 <= bytes; i += 256)
    for (int j = 0; j < 8; ++j) seen[j] = _mm256_or_si256(seen[j], _mm256_load_si256(reinterpret_cast<const __m256i*>(data + i + 32 * j)));
  for (__m256i& x : seen) PACELINE_OPAQUE(x);
}

#if defined(__AVXVNNI__)

uint64_t multiply_codes(int rounds) {
  __m256i sums[8] = {}, codes = _mm256_set1_epi8(3), activations = _mm256_set1_epi8(-5);
  PACELINE_OPAQUE(codes);
  PACELINE_OPAQUE(activations);
  for (int round = 0; round < rounds; ++round) {
    PACELINE_UNROLL
    for (int i = 0; i < 8; ++i) {
      sums[i] = _mm256_dpbusd_avx_epi32(sums[i], codes, activations);
      PACELINE_OPAQUE(sums[i]);
    }
  }
  return static_cast<uint64_t>(rounds) * 8 * 32;
}

#else

// Eight instructions to a sum of 16 bits, which has room for them where codes are below 16 (codes_avx2.h).
uint64_t multiply_codes(int rounds) {
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i sums[4] = {}, codes = _mm256_set1_epi8(3), activations = _mm256_set1_epi8(-5);
  PACELINE_OPAQUE(activations);
  for (int round = 0; round < rounds / 4; ++round) {
    PACELINE_UNROLL
    for (int i = 0; i < 4; ++i) {
      __m256i narrow = _mm256_setzero_si256();
      PACELINE_UNROLL
      for (int j = 0; j < 8; ++j) {
        PACELINE_OPAQUE(codes);  // each time, or the products would be made once
        narrow = _mm256_add_epi16(narrow, _mm256_maddubs_epi16(codes, activations));
      }
      sums[i] = _mm256_add_epi32(sums[i], _mm256_madd_epi16(narrow, ones));
      PACELINE_OPAQUE(sums[i]);
    }
  }
  return static_cast<uint64_t>(rounds / 4) * 4 * 8 * 32;
}

#endif

#elif PACELINE_NEON

void read_through(const uint8_t* data, size_t bytes) {
  uint8x16_t seen[8] = {};
  for (size_t i = 0; i + 128 <= bytes; i += 128)
    for (int j = 0; j < 8; ++j) seen[j] = vorrq_u8(seen[j], vld1q_u8(data + i + 16 * j));
  for (uint8x16_t& x : seen) PACELINE_OPAQUE(x);
}

// Sixteen chains hide the latency of four instructions a cycle.
uint64_t multiply_codes(int rounds) {
  int32x4_t sums[16] = {};
  int8x16_t codes = vdupq_n_s8(3), activations = vdupq_n_s8(-5);
  PACELINE_OPAQUE(activations);
  for (int round = 0; round < rounds; ++round) {
    PACELINE_UNROLL
    for (int i = 0; i < 16; ++i) {
      PACELINE_OPAQUE(codes);  // each time, or the products without dot products would be made once
      sums[i] = add_products(sums[i], codes, activations);
      PACELINE_OPAQUE(sums[i]);
    }
  }
  return static_cast<uint64_t>(rounds) * 16 * 16;
}

#else

void read_through(const uint8_t* data, size_t bytes) {
  const volatile uint64_t* words = reinterpret_cast<const volatile uint64_t*>(data);
  for (size_t i = 0; i < bytes / 8; ++i) static_cast<void>(words[i]);
}

uint64_t multiply_codes(int rounds) {
  volatile int32_t codes = 3, sink = 0;
  int32_t sums[8] = {};
  for (int round = 0; round < rounds; ++round) {
    const int32_t code = codes;
    for (int32_t& sum : sums) sum += code * round;
  }
  for (const int32_t sum : sums) sink = sink + sum;
  return static_cast<uint64_t>(rounds) * 8;
}

#endif

}  // namespace paceline::PACELINE_ISA
