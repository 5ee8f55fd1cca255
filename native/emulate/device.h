// The plain C++ meaning of everything in compat.h. Only compat.h includes this.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "../cpu/half.h"
#include "grid.h"
#include "recording.h"

#define PACELINE_DEVICE inline
#define PACELINE_HOST_DEVICE inline
#define PACELINE_KERNEL inline void
#define PACELINE_KERNEL_FOR(threads, blocks) inline void
#define PACELINE_TABLE inline constexpr
#define PACELINE_UNROLL
#define PACELINE_UNROLL_BY(n)

namespace paceline::cuda {

using Stream = void*;

inline unsigned thread_index() { return emulate::place().thread; }
inline unsigned block_threads() { return emulate::place().threads; }
inline unsigned block_x() { return emulate::place().block.x; }
inline unsigned block_y() { return emulate::place().block.y; }
inline unsigned block_z() { return emulate::place().block.z; }

inline void sync_block() { emulate::meet_block(); }
inline void sync_warp() {
  emulate::meet_warp("sync_warp", nullptr, nullptr, [](const void* const*, void* const*) {});
}

template <class T>
T* take_shared(size_t count) {
  return static_cast<T*>(emulate::take_shared(count * sizeof(T), 16));
}
class SharedMemory {
 public:
  template <class T>
  T* take(size_t count) { return take_shared<T>(count); }
};

template <class T>
T shuffle(T value, int source) {
  struct In { T value; int source; };
  const In in = {value, source};
  T out;
  emulate::meet_warp("shuffle", &in, &out, [](const void* const* ins, void* const* outs) {
    for (int lane = 0; lane < 32; ++lane)
      *static_cast<T*>(outs[lane]) = static_cast<const In*>(ins[static_cast<const In*>(ins[lane])->source & 31])->value;
  });
  return out;
}

inline uint32_t in_register(uint32_t value) { return shuffle(value, 0); }

inline bool any_of_warp(bool condition) {
  bool any = false;
  emulate::meet_warp("any_of_warp", &condition, &any, [](const void* const* ins, void* const* outs) {
    bool found = false;
    for (int lane = 0; lane < 32; ++lane) found = found || *static_cast<const bool*>(ins[lane]);
    for (int lane = 0; lane < 32; ++lane) *static_cast<bool*>(outs[lane]) = found;
  });
  return any;
}

struct alignas(16) Word4 { uint32_t v[4]; };
struct alignas(8) Word2 { uint32_t v[2]; };

template <class T>
T aligned_load(const void* p) {
  emulate::check_aligned(static_cast<const char*>(p), alignof(T));
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}
inline Word4 load_once(const void* p) { return aligned_load<Word4>(p); }
inline Word2 load_once_8(const void* p) { return aligned_load<Word2>(p); }
inline uint32_t load_once_4(const void* p) { return aligned_load<uint32_t>(p); }
inline uint16_t load_once_2(const void* p) { return aligned_load<uint16_t>(p); }
template <class T>
T load_early(const T* p) { return aligned_load<T>(p); }

inline void count_weights(size_t bytes) { emulate::count_weights(bytes); }
inline void fetch_ahead(const void* p) { static_cast<void>(*static_cast<const volatile uint8_t*>(p)); }  // checks that the memory exists

// Kernels run one after the other here; what is checked is that no thread forgets to wait.
inline void let_next_begin() {}
inline void wait_for_earlier() { emulate::note_wait(); }
inline void begin_kernel() { emulate::note_wait(); }

inline void copy_async_16(void* shared, const void* global) { emulate::copy_later(shared, global, 16); }
inline void commit_copies() { emulate::commit_copies(); }
template <int newest_left>
void wait_copies() { emulate::wait_copies(newest_left); }

inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline float square_root(float x) { return __builtin_sqrtf(x); }
inline float magnitude(float x) { return __builtin_fabsf(x); }
inline float bits_to_float(uint32_t bits) {
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}
inline uint32_t float_to_bits(float f) {
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  return bits;
}
inline float half_to_float(uint16_t h) { return paceline::half_to_float(h); }
inline uint16_t float_to_half(float f) { return paceline::float_to_half(f); }
inline float brain_to_float(uint16_t h) { return paceline::brain_to_float(h); }
inline uint16_t float_to_brain(float f) { return paceline::float_to_brain(f); }

inline uint32_t two_brains(float low, float high) { return static_cast<uint32_t>(float_to_brain(high)) << 16 | float_to_brain(low); }

template <int upper>
uint32_t multiply_halves(uint32_t a, uint32_t b) {
  const float by = half_to_float(static_cast<uint16_t>(b >> 16 * upper));
  uint32_t product = 0;
  for (int i = 0; i < 32; i += 16) product |= static_cast<uint32_t>(float_to_half(half_to_float(static_cast<uint16_t>(a >> i)) * by)) << i;
  return product;
}

// As prmt: byte i of the result is byte (selector >> 4i & 7) of {b, a}.
inline uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t selector) {
  if (selector & 0x8888u) throw emulate::Fault("permute_bytes: bits 3, 7, 11 and 15 of the selector must be 0");
  const uint64_t both = static_cast<uint64_t>(b) << 32 | a;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) result |= static_cast<uint32_t>(both >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
  return result;
}

// As prmt: the same, or eight copies of that byte's sign bit where bit 4i + 3 of the selector is 1.
inline uint32_t permute_or_signs(uint32_t a, uint32_t b, uint32_t selector) {
  const uint32_t bytes = permute_bytes(a, b, selector & 0x7777u);
  uint32_t result = 0;
  for (int i = 0; i < 32; i += 8) result |= (selector >> i / 2 & 8 ? (bytes >> i & 0x80 ? 0xffu : 0u) : bytes >> i & 0xff) << i;
  return result;
}

template <bool with_sign>
uint32_t dot_bytes(uint32_t a, uint32_t b, uint32_t c) {
  using Byte = std::conditional_t<with_sign, int8_t, uint8_t>;
  for (int i = 0; i < 32; i += 8) c += static_cast<uint32_t>(static_cast<Byte>(a >> i) * static_cast<Byte>(b >> i));
  return c;
}

// 0xff for each byte whose top bit is set, else 0.
inline uint32_t spread_top_bits(uint32_t a) { return (a >> 7 & 0x01010101u) * 0xffu; }

// Fragments are those of the PTX manual: lane = 4 * (row or column mod 8) + place.
struct MmaBytes {
  uint32_t a[4], b[2];
  int32_t c[4];
};

// depth 32 or 16: c [16][8] += a [16][depth] bytes, signed or not, * b [depth][8] signed bytes
template <int depth, class Weight>
void mma_lanes(const void* const* ins, void* const* outs) {
  constexpr int words = depth / 4;
  Weight a[16][depth];
  int8_t b[8][depth];
  for (int lane = 0; lane < 32; ++lane) {
    const MmaBytes& in = *static_cast<const MmaBytes*>(ins[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int w = 0; w < words / 2; ++w) std::memcpy(&a[g + 8 * (w % 2)][16 * (w / 2) + 4 * t], &in.a[w], 4);
    for (int w = 0; w < words / 4; ++w) std::memcpy(&b[g][16 * w + 4 * t], &in.b[w], 4);
  }
  for (int lane = 0; lane < 32; ++lane) {
    const MmaBytes& in = *static_cast<const MmaBytes*>(ins[lane]);
    int32_t* out = static_cast<int32_t*>(outs[lane]);
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + 8 * (i / 2), column = lane % 4 * 2 + i % 2;
      int32_t sum = 0;
      for (int k = 0; k < depth; ++k) sum += a[row][k] * b[column][k];
      out[i] = static_cast<int32_t>(static_cast<uint32_t>(in.c[i]) + static_cast<uint32_t>(sum));
    }
  }
}

template <bool with_sign>
void mma_bytes_32(int32_t c[4], const uint32_t a[4], const uint32_t b[2], int32_t left, int32_t right) {
  const MmaBytes in = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}, {left, right, left, right}};
  emulate::meet_warp("mma m16n8k32", &in, c, mma_lanes<32, std::conditional_t<with_sign, int8_t, uint8_t>>);
}
template <bool with_sign>
void mma_bytes_16(int32_t c[4], const uint32_t a[2], uint32_t b, int32_t left, int32_t right) {
  const MmaBytes in = {{a[0], a[1], 0, 0}, {b, 0}, {left, right, left, right}};
  emulate::meet_warp("mma m16n8k16", &in, c, mma_lanes<16, std::conditional_t<with_sign, int8_t, uint8_t>>);
}

// The value of a finite number's lowest set bit.
inline double lowest_bit(double x) {
  int exponent;
  const auto digits = static_cast<int64_t>(std::ldexp(std::frexp(std::fabs(x), &exponent), 53));
  return std::ldexp(static_cast<double>(digits & -digits), exponent - 53);
}

// The operands of an mma of 16-bit floats.
struct MmaFloats {
  float a[16][16], b[8][16];

  MmaFloats(const void* const* ins, float (*widen)(uint16_t)) {
    for (int lane = 0; lane < 32; ++lane) {
      const MmaBytes& in = *static_cast<const MmaBytes*>(ins[lane]);
      const int g = lane / 4, t = lane % 4;
      for (int w = 0; w < 4; ++w)
        for (int h = 0; h < 2; ++h) a[g + 8 * (w % 2)][8 * (w / 2) + 2 * t + h] = widen(static_cast<uint16_t>(in.a[w] >> 16 * h));
      for (int w = 0; w < 2; ++w)
        for (int h = 0; h < 2; ++h) b[g][8 * w + 2 * t + h] = widen(static_cast<uint16_t>(in.b[w] >> 16 * h));
    }
  }
};

// c [16][8] = a [16][16] * b [16][8], halves. A device adds the products in an order and with a rounding of its own, so that only sums without rounding are
// allowed.
inline void mma_half_lanes(const void* const* ins, void* const* outs) {
  const MmaFloats in(ins, paceline::half_to_float);
  for (int lane = 0; lane < 32; ++lane) {
    float* out = static_cast<float*>(outs[lane]);
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + 8 * (i / 2), column = lane % 4 * 2 + i % 2;
      double sum = 0.0, size = 0.0, least = HUGE_VAL;
      for (int k = 0; k < 16; ++k) {
        const double product = static_cast<double>(in.a[row][k]) * in.b[column][k];
        sum += product;
        size += std::fabs(product);
        if (product != 0.0) least = std::fmin(least, lowest_bit(product));
      }
      if (size >= least * 0x1p24) emulate::fault("mma m16n8k16 f16: a sum that depends on the order of its products");
      out[i] = static_cast<float>(sum);
    }
  }
}

inline void mma_halves(float c[4], const uint32_t a[4], const uint32_t b[2]) {
  const MmaBytes in = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}, {}};
  emulate::meet_warp("mma m16n8k16 f16", &in, c, mma_half_lanes);
}

// c [16][8] += a [16][16] * b [16][8], bfloat16: here with one rounding; a device has its own.
inline void mma_brain_lanes(const void* const* ins, void* const* outs) {
  const MmaFloats in(ins, paceline::brain_to_float);
  for (int lane = 0; lane < 32; ++lane) {
    float* out = static_cast<float*>(outs[lane]);
    for (int i = 0; i < 4; ++i) {
      double sum = out[i];
      for (int k = 0; k < 16; ++k) sum += static_cast<double>(in.a[lane / 4 + 8 * (i / 2)][k]) * in.b[lane % 4 * 2 + i % 2][k];
      out[i] = static_cast<float>(sum);
    }
  }
}

inline void mma_brains(float (&c)[4], const uint32_t a[4], const uint32_t b[2]) {
  const MmaBytes in = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}, {}};
  emulate::meet_warp("mma m16n8k16 bf16", &in, c, mma_brain_lanes);
}

struct Grid {
  unsigned x = 1, y = 1, z = 1;
};

// The stream is ignored: the kernel has finished when this returns, unless a capture records it.
template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), Grid grid, unsigned threads, size_t shared_bytes, Stream, Arguments... arguments) {
  if (shared_bytes > kMostShared)
    throw emulate::Fault("kernel " + std::string(name) + ": " + std::to_string(shared_bytes) + " bytes of shared memory, and some GPUs have " +
                         std::to_string(kMostShared) + " to a block");
  emulate::run_or_record([=] { emulate::run_grid(name, {grid.x, grid.y, grid.z}, threads, shared_bytes, [=] { kernel(arguments...); }); });
}

inline void use_device(int) {}
inline int multiprocessors() { return emulate::multiprocessors(); }
inline int resident_blocks(size_t shared_bytes) { return emulate::kMultiprocessorShared / static_cast<int>(shared_bytes + kReservedShared); }

}  // namespace paceline::cuda
