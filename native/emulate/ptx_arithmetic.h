// What the arithmetic of PTX means, in C++. Written from the PTX manual, with nothing of device.h.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "grid.h"

namespace paceline::ptx {

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using s8 = int8_t;
using s16 = int16_t;
using s32 = int32_t;
using s64 = int64_t;
using f32 = float;
using f64 = double;

// Integers. A shift by more than the width is one by the width.

inline u32 shl(u32 a, u32 n) { return n > 31 ? 0 : a << n; }
inline u64 shl(u64 a, u32 n) { return n > 63 ? 0 : a << n; }
inline u16 shl(u16 a, u32 n) { return n > 15 ? u16{0} : static_cast<u16>(a << n); }
template <class T>
T shr(T a, u32 n) {  // of a signed type: with its sign
  constexpr u32 most = 8 * sizeof(T) - 1;
  if (n > most) return static_cast<T>(a < 0 ? -1 : 0);
  return static_cast<T>(a >> n);
}
template <class T>
T divide(T a, T b) {
  if (b == 0) emulate::fault("a division by zero");
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) return static_cast<T>(0 - static_cast<u64>(a));  // of the least number, C++ knows no result
  return static_cast<T>(a / b);
}
template <class T>
T remainder(T a, T b) {
  if (b == 0) emulate::fault("a division by zero");
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
  return static_cast<T>(a % b);
}
template <class T>
T least(T a, T b) { return b < a ? b : a; }
template <class T>
T most(T a, T b) { return a < b ? b : a; }
// b with `length` bits of a from `begin` on.
inline u32 insert_bits(u32 a, u32 b, u32 begin, u32 length) {
  begin &= 0xff, length &= 0xff;
  for (u32 i = 0; i < length && begin + i < 32; ++i) b = (b & ~(u32{1} << (begin + i))) | (a >> i & 1) << (begin + i);
  return b;
}
// c plus the products of the bytes, signed or not, of a and b.
template <class Byte>
u32 add_products(u32 a, u32 b, u32 c) {
  for (int i = 0; i < 32; i += 8) c += static_cast<u32>(static_cast<s32>(static_cast<Byte>(a >> i)) * static_cast<s32>(static_cast<Byte>(b >> i)));
  return c;
}
// Each byte of the result is one of {b, a} by three bits of the selector, or with the fourth eight times its sign.
inline u32 permute(u32 a, u32 b, u32 selector) {
  u32 result = 0;
  for (int i = 0; i < 4; ++i) {
    const u32 choice = selector >> 4 * i & 15, from = choice & 4 ? b : a;
    u32 byte = from >> 8 * (choice & 3) & 0xff;
    if (choice & 8) byte = byte & 0x80 ? 0xff : 0;
    result |= byte << 8 * i;
  }
  return result;
}

// Floats. A result that is NaN is the canonical one, 0x7fffffff (in 64 bits, any).

inline f32 canonical(f32 x) { return x == x ? x : std::bit_cast<f32>(0x7fffffffu); }
inline f64 canonical(f64 x) { return x; }
inline f32 fma(f32 a, f32 b, f32 c) { return canonical(__builtin_fmaf(a, b, c)); }
inline f32 square_root(f32 x) { return canonical(__builtin_sqrtf(x)); }
inline f32 negated(f32 x) { return std::bit_cast<f32>(std::bit_cast<u32>(x) ^ 0x80000000u); }
inline f32 absolute(f32 x) { return std::bit_cast<f32>(std::bit_cast<u32>(x) & 0x7fffffffu); }
// The other where one is no number; -0 is less than +0.
inline f32 least(f32 a, f32 b) {
  if (a != a || b != b) return canonical(a != a ? b : a);
  return a < b || (a == b && std::signbit(a)) ? a : b;
}
inline f32 most(f32 a, f32 b) {
  if (a != a || b != b) return canonical(a != a ? b : a);
  return a > b || (a == b && !std::signbit(a)) ? a : b;
}

// To integers toward zero: to the nearest that there is; what is no number to 0 in 32 bits.
inline s32 to_s32(f32 x) { return x != x ? 0 : x >= 0x1p31f ? INT32_MAX : x <= -0x1p31f ? INT32_MIN : static_cast<s32>(x); }
inline u32 to_u32(f32 x) { return !(x > 0.0f) ? 0 : x >= 0x1p32f ? UINT32_MAX : static_cast<u32>(x); }
inline u64 to_u64(f32 x) { return x != x ? u64{1} << 63 : x <= 0.0f ? 0 : x >= 0x1p64f ? UINT64_MAX : static_cast<u64>(x); }

inline f32 from_half(u16 h) {
  const u32 exponent = h >> 10 & 31, digits = h & 0x3ff;
  if (exponent == 31 && digits) return std::bit_cast<f32>(0x7fffffffu);
  const f32 x = exponent == 31 ? HUGE_VALF : exponent ? std::ldexp(static_cast<f32>(digits | 0x400), static_cast<int>(exponent) - 25) : std::ldexp(static_cast<f32>(digits), -24);
  return h & 0x8000 ? -x : x;
}
// To the nearest that 11 bits and an exponent of no less than -24 can tell, ties to even.
inline u16 to_half(f32 x) {
  if (x != x) return 0x7fff;
  const u16 sign = std::signbit(x) ? 0x8000 : 0;
  x = std::fabs(x);
  if (x >= 65520.0f) return sign | 0x7c00;
  if (x < 0x1p-14f) return sign | static_cast<u16>(std::nearbyint(x * 0x1p24f));
  int exponent;
  const f32 digits = std::nearbyint(std::frexp(x, &exponent) * 2048.0f);  // 1024 to 2048
  return static_cast<u16>(sign + (static_cast<u32>(exponent + 13) << 10) + static_cast<u32>(digits));
}
inline f32 from_brain(u16 h) { return std::bit_cast<f32>(static_cast<u32>(h) << 16); }
inline u16 to_brain(f32 x) {
  if (x != x) return 0x7fff;
  const u32 bits = std::bit_cast<u32>(x), kept = bits >> 16, rest = bits & 0xffff;
  return static_cast<u16>(kept + (rest > 0x8000 || (rest == 0x8000 && kept & 1)));
}
inline u32 to_brains(f32 high, f32 low) { return static_cast<u32>(to_brain(high)) << 16 | to_brain(low); }
inline u32 multiply_halves(u32 a, u32 b) {
  const auto product = [](u32 x, u32 y) { return u32{to_half(from_half(static_cast<u16>(x)) * from_half(static_cast<u16>(y)))}; };  // exact in float
  return product(a >> 16, b >> 16) << 16 | product(a & 0xffff, b & 0xffff);
}

}  // namespace paceline::ptx
