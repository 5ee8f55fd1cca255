// Sixteen lanes in four registers of NEON (simd.h). Every AArch64 processor has it.
#pragma once

#include <arm_neon.h>

#include <cstdint>

namespace paceline::PACELINE_ISA {

struct Lanes { float32x4_t v[4]; };
struct IntLanes { int32x4_t v[4]; };
struct Bytes { int8x16_t v; };  // sixteen, signed

// f(i) for the four quarters
template <class F>
PACELINE_INLINE Lanes each(F f) { return {{f(0), f(1), f(2), f(3)}}; }
template <class F>
PACELINE_INLINE IntLanes each_int(F f) { return {{f(0), f(1), f(2), f(3)}}; }

PACELINE_INLINE uint32x4_t quarter(uint8x16_t a, int i) {
  const uint16x8_t half = i < 2 ? vmovl_u8(vget_low_u8(a)) : vmovl_high_u8(a);
  return i % 2 == 0 ? vmovl_u16(vget_low_u16(half)) : vmovl_high_u16(half);
}
PACELINE_INLINE int32x4_t quarter(int8x16_t a, int i) {
  const int16x8_t half = i < 2 ? vmovl_s8(vget_low_s8(a)) : vmovl_high_s8(a);
  return i % 2 == 0 ? vmovl_s16(vget_low_s16(half)) : vmovl_high_s16(half);
}
PACELINE_INLINE IntLanes widen(uint8x16_t a) { return each_int([=](int i) { return vreinterpretq_s32_u32(quarter(a, i)); }); }
PACELINE_INLINE IntLanes widen(int8x16_t a) { return each_int([=](int i) { return quarter(a, i); }); }
PACELINE_INLINE float32x4_t half_quarter(uint16x4_t a) { return vcvt_f32_f16(vreinterpret_f16_u16(a)); }

PACELINE_INLINE Lanes broadcast(float x) { return each([=](int) { return vdupq_n_f32(x); }); }
PACELINE_INLINE Lanes zero() { return broadcast(0.0f); }
PACELINE_INLINE Lanes load(const float* p) { return each([=](int i) { return vld1q_f32(p + 4 * i); }); }
PACELINE_INLINE void store(float* p, Lanes a) {
  for (int i = 0; i < 4; ++i) vst1q_f32(p + 4 * i, a.v[i]);
}
PACELINE_INLINE Lanes load_half(const uint16_t* p) { return each([=](int i) { return half_quarter(vld1_u16(p + 4 * i)); }); }
PACELINE_INLINE Lanes broadcast_half(const uint16_t* p) {
  const float32x4_t value = half_quarter(vld1_dup_u16(p));
  return each([=](int) { return value; });
}
PACELINE_INLINE void store_half(uint16_t* p, Lanes a) {
  for (int i = 0; i < 4; ++i) vst1_u16(p + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(a.v[i])));
}
PACELINE_INLINE Lanes load_brain(const uint16_t* p) {  // bfloat16: the upper half of a float
  return each([=](int i) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p + 4 * i), 16)); });
}
PACELINE_INLINE Lanes load_powers(const uint8_t* p) {  // 2^(e - 128), subnormal for e below 2
  const uint8x16_t exponents = vld1q_u8(p);
  return each([=](int i) {
    const uint32x4_t e = quarter(exponents, i);
    const uint32x4_t normal = vshlq_n_u32(vsubq_u32(e, vdupq_n_u32(1)), 23);
    const uint32x4_t small = vshlq_u32(vdupq_n_u32(0x200000), vreinterpretq_s32_u32(e));
    return vreinterpretq_f32_u32(vbslq_u32(vcltq_u32(e, vdupq_n_u32(2)), small, normal));
  });
}
PACELINE_INLINE Lanes load_small_floats(const uint8_t* p) {  // half of UE4M3: a binary16 with another bias
  const uint8x16_t bytes = vld1q_u8(p);
  const uint16x8_t low = vshll_n_u8(vget_low_u8(bytes), 7), high = vshll_n_u8(vget_high_u8(bytes), 7);
  const auto value = [](uint16x4_t bits) { return vmulq_f32(half_quarter(bits), vdupq_n_f32(128.0f)); };
  return {{value(vget_low_u16(low)), value(vget_high_u16(low)), value(vget_low_u16(high)), value(vget_high_u16(high))}};
}

PACELINE_INLINE Lanes operator+(Lanes a, Lanes b) { return each([=](int i) { return vaddq_f32(a.v[i], b.v[i]); }); }
PACELINE_INLINE Lanes operator-(Lanes a, Lanes b) { return each([=](int i) { return vsubq_f32(a.v[i], b.v[i]); }); }
PACELINE_INLINE Lanes operator*(Lanes a, Lanes b) { return each([=](int i) { return vmulq_f32(a.v[i], b.v[i]); }); }
PACELINE_INLINE Lanes operator/(Lanes a, Lanes b) { return each([=](int i) { return vdivq_f32(a.v[i], b.v[i]); }); }
PACELINE_INLINE Lanes fma(Lanes a, Lanes b, Lanes c) { return each([=](int i) { return vfmaq_f32(c.v[i], a.v[i], b.v[i]); }); }
// As vmaxps and vminps: the second operand when either is not a number, which is not what fmax and fmin give.
PACELINE_INLINE Lanes larger(Lanes a, Lanes b) { return each([=](int i) { return vbslq_f32(vcgtq_f32(a.v[i], b.v[i]), a.v[i], b.v[i]); }); }
PACELINE_INLINE Lanes smaller(Lanes a, Lanes b) { return each([=](int i) { return vbslq_f32(vcltq_f32(a.v[i], b.v[i]), a.v[i], b.v[i]); }); }
PACELINE_INLINE Lanes magnitude(Lanes a) { return each([=](int i) { return vabsq_f32(a.v[i]); }); }
PACELINE_INLINE IntLanes nearest(Lanes a) { return each_int([=](int i) { return vcvtnq_s32_f32(a.v[i]); }); }
PACELINE_INLINE Lanes to_float(IntLanes a) { return each([=](int i) { return vcvtq_f32_s32(a.v[i]); }); }
PACELINE_INLINE Lanes power_of_two(IntLanes n) {
  return each([=](int i) { return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n.v[i], vdupq_n_s32(127)), 23)); });
}
// Lanes [0, count) of a, the others replaced by `other`.
PACELINE_INLINE Lanes keep(Lanes a, int count, Lanes other) {
  const int32_t places[4] = {0, 1, 2, 3};
  const int32x4_t place = vld1q_s32(places);
  return each([=](int i) { return vbslq_f32(vcgtq_s32(vdupq_n_s32(count - 4 * i), place), a.v[i], other.v[i]); });
}
PACELINE_INLINE float first(Lanes a) { return vgetq_lane_f32(a.v[0], 0); }
// Lane i + width in lane i, for the lanes below width.
template <int width>
PACELINE_INLINE Lanes lowered(Lanes a) {
  if constexpr (width == 8) return {{a.v[2], a.v[3], a.v[2], a.v[3]}};
  else if constexpr (width == 4) return {{a.v[1], a.v[1], a.v[2], a.v[3]}};
  else return {{vextq_f32(a.v[0], a.v[0], width), a.v[1], a.v[2], a.v[3]}};
}

PACELINE_INLINE IntLanes load_unsigned(const uint8_t* p) { return widen(vld1q_u8(p)); }
PACELINE_INLINE IntLanes load_signed(const uint8_t* p) { return widen(vreinterpretq_s8_u8(vld1q_u8(p))); }
PACELINE_INLINE IntLanes load_low_nibbles(const uint8_t* p) { return widen(vandq_u8(vld1q_u8(p), vdupq_n_u8(15))); }
PACELINE_INLINE IntLanes load_high_nibbles(const uint8_t* p) { return widen(vshrq_n_u8(vld1q_u8(p), 4)); }
PACELINE_INLINE IntLanes load_folded_nibbles(const uint8_t* p) {  // of 8 bytes, the low ones first
  const uint8x8_t both = vld1_u8(p);
  return widen(vcombine_u8(vand_u8(both, vdup_n_u8(15)), vshr_n_u8(both, 4)));
}
PACELINE_INLINE Lanes load_codes(const int8_t* p) { return to_float(widen(vld1q_s8(p))); }
// Four bits of each byte from bit `shift` on, less 8.
PACELINE_INLINE Lanes load_nibbles(const uint8_t* p, int shift) {
  const uint8x16_t codes = vandq_u8(vshlq_u8(vld1q_u8(p), vdupq_n_s8(static_cast<int8_t>(-shift))), vdupq_n_u8(15));
  return to_float(widen(vsubq_s8(vreinterpretq_s8_u8(codes), vdupq_n_s8(8))));
}
PACELINE_INLINE Bytes to_bytes(IntLanes a) {
  const int16x8_t low = vcombine_s16(vmovn_s32(a.v[0]), vmovn_s32(a.v[1])), high = vcombine_s16(vmovn_s32(a.v[2]), vmovn_s32(a.v[3]));
  return {vcombine_s8(vmovn_s16(low), vmovn_s16(high))};
}
PACELINE_INLINE void store(int8_t* p, Bytes a) { vst1q_s8(p, a.v); }
PACELINE_INLINE int32_t sum(Bytes a) { return vaddlvq_s8(a.v); }

}  // namespace paceline::PACELINE_ISA
