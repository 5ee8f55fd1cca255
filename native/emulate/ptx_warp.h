// What the operations of a warp mean, in C++: all lanes take part, or it is a fault. Written from the PTX manual, with nothing of device.h.
#pragma once

#include "ptx_arithmetic.h"

namespace paceline::ptx {

inline void check_all(u32 lanes) {
  if (lanes != 0xffffffffu) emulate::fault("a warp operation without all lanes");
}

struct Shuffled {
  u32 value;
  bool inside;  // the source was in the lane's segment
};
inline Shuffled shuffle(u32 value, u32 source, u32 clamp, u32 lanes) {
  check_all(lanes);
  struct In { u32 value, source, clamp; };
  const In in = {value, source, clamp};
  Shuffled out;
  emulate::meet_warp("shfl.sync.idx", &in, &out, [](const void* const* ins, void* const* outs) {
    for (u32 lane = 0; lane < 32; ++lane) {
      const In& own = *static_cast<const In*>(ins[lane]);
      const u32 segment = own.clamp >> 8 & 31, from = (lane & segment) | (own.source & 31 & ~segment);
      const bool inside = from <= ((lane & segment) | (own.clamp & 31 & ~segment));
      *static_cast<Shuffled*>(outs[lane]) = {static_cast<const In*>(ins[inside ? from : lane])->value, inside};
    }
  });
  return out;
}

inline bool any(bool own, u32 lanes) {
  check_all(lanes);
  bool out;
  emulate::meet_warp("vote.sync.any", &own, &out, [](const void* const* ins, void* const* outs) {
    u32 ballot = 0;
    for (int lane = 0; lane < 32; ++lane) ballot |= u32{*static_cast<const bool*>(ins[lane])} << lane;
    for (int lane = 0; lane < 32; ++lane) *static_cast<bool*>(outs[lane]) = ballot != 0;
  });
  return out;
}

inline void sync_warp(u32 lanes) {
  check_all(lanes);
  emulate::meet_warp("bar.warp.sync", nullptr, nullptr, [](const void* const*, void* const*) {});
  emulate::note_meeting();
}

// Matrix products: D [16][8] = A [16][k] * B [k][8] + C. In a lane's registers are, by the manual's figures, with group = lane / 4 and place = lane % 4:
// of C and D the rows group and group + 8, of each the columns 2 * place and 2 * place + 1;
// of A the values of rows group, group + 8, alternating by register, those of a register adjacent;
// of B those of column group.
struct Fragments {
  u32 a[4], b[2], c[4];
};
enum class Kind { U8, S8, F16, Brain };

template <Kind kind>
constexpr int kPerRegister = kind == Kind::U8 || kind == Kind::S8 ? 4 : 2;

template <Kind kind>
double value_in(u32 bits, int i) {
  if constexpr (kind == Kind::U8) return static_cast<u8>(bits >> 8 * i);
  else if constexpr (kind == Kind::S8) return static_cast<s8>(bits >> 8 * i);
  else if constexpr (kind == Kind::F16) return from_half(static_cast<u16>(bits >> 16 * i));
  else return from_brain(static_cast<u16>(bits >> 16 * i));
}

// a [16][k], b [8][k]. The registers of A cover k in stretches of four lanes' values: the first stretch in registers 0 and 1, the second in 2 and 3.
template <Kind of_a, Kind of_b, int k>
void gather(const void* const* ins, double (&a)[16][k], double (&b)[8][k]) {
  constexpr int n = kPerRegister<of_a>, stretch = 4 * n;
  for (int row = 0; row < 16; ++row)
    for (int i = 0; i < k; ++i) {
      const int lane = row % 8 * 4 + i % stretch / n, which = i / stretch * 2 + row / 8;
      a[row][i] = value_in<of_a>(static_cast<const Fragments*>(ins[lane])->a[which], i % n);
    }
  for (int column = 0; column < 8; ++column)
    for (int i = 0; i < k; ++i) b[column][i] = value_in<of_b>(static_cast<const Fragments*>(ins[column * 4 + i % stretch / n])->b[i / stretch], i % n);
}

// Bytes: exact. Modulo 2^32, as without .satfinite.
template <Kind of_a, int k>
void multiply_bytes(const void* const* ins, void* const* outs) {
  double a[16][k], b[8][k];
  gather<of_a, Kind::S8, k>(ins, a, b);
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column) {
      const int lane = row % 8 * 4 + column / 2, which = row / 8 * 2 + column % 2;
      double sum = 0.0;
      for (int i = 0; i < k; ++i) sum += a[row][i] * b[column][i];
      static_cast<u32*>(outs[lane])[which] = static_cast<const Fragments*>(ins[lane])->c[which] + static_cast<u32>(static_cast<s32>(sum));
    }
}

// 16-bit floats: how a GPU rounds is not documented. Here they are summed in double, and the sum is rounded.
template <Kind kind>
void multiply_floats(const void* const* ins, void* const* outs) {
  double a[16][16], b[8][16];
  gather<kind, kind, 16>(ins, a, b);
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column) {
      const int lane = row % 8 * 4 + column / 2, which = row / 8 * 2 + column % 2;
      double sum = std::bit_cast<f32>(static_cast<const Fragments*>(ins[lane])->c[which]);
      for (int i = 0; i < 16; ++i) sum += a[row][i] * b[column][i];
      static_cast<u32*>(outs[lane])[which] = std::bit_cast<u32>(canonical(static_cast<f32>(sum)));
    }
}

constexpr const char* kNames[] = {"mma of u8", "mma of s8", "mma of f16", "mma of bf16"};  // by Kind

template <Kind of_a, int k>
void mma(const emulate::Site& site, const Fragments& in, u32 (&d)[4]) {
  const char* const name = kNames[static_cast<int>(of_a)];
  if constexpr (of_a == Kind::U8 || of_a == Kind::S8) emulate::meet_warp(name, &in, d, multiply_bytes<of_a, k>, &site);
  else emulate::meet_warp(name, &in, d, multiply_floats<of_a>, &site);
}

}  // namespace paceline::ptx
