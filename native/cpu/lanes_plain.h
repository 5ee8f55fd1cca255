// Sixteen lanes in an array, for any processor (simd.h).
#pragma once

namespace paceline::PACELINE_ISA {

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

}  // namespace paceline::PACELINE_ISA
