// What scripts/ptx_to_cpp.py makes of nvcc's output is made of this: memory here, arithmetic and the operations of a warp in the headers included. It was written
// without device.h, so that equal bits speak for both. Registers are unsigned integers, floats and bools; an address of global, local and parameter memory is
// the host's, one of shared memory counts from kSharedWindow.
#pragma once

#include <string>

#include "ptx_kernels.h"
#include "ptx_warp.h"
#include "traffic.h"
#include "watch.h"

namespace paceline::ptx {

using emulate::Site;
using emulate::Use;

// Where a thread is; read once, when its kernel begins.
struct Here {
  u32 tid_x, ntid_x, ctaid_x, ctaid_y, ctaid_z;
  u8* shared;
  u32 shared_bytes;
};
inline Here here() {
  const emulate::Place& place = emulate::place();
  const emulate::SharedRoom room = emulate::shared_room();
  return {place.thread, place.threads, place.block.x, place.block.y, place.block.z, static_cast<u8*>(room.begin), static_cast<u32>(room.bytes)};
}

constexpr u32 kSharedWindow = 1024;  // a GPU keeps the first KiB for itself

inline void check_access(const Site& site, const u8* p, size_t bytes, Use use) {
  if (reinterpret_cast<u64>(p) % bytes) emulate::fault(emulate::text_of(site) + ": an address that is no multiple of " + std::to_string(bytes));
  if (emulate::watching()) [[unlikely]] emulate::watch_access(site, p, bytes, use);
  if (emulate::measuring()) [[unlikely]] emulate::note_access(site, p, bytes, use);
}

// n values of T in global memory, in local memory or in an unnamed one.
template <class T, int n, Use use>
T* at(const Site& site, u64 address) {
  u8* const p = reinterpret_cast<u8*>(address);
  check_access(site, p, sizeof(T) * n, use);
  return reinterpret_cast<T*>(p);
}
template <class T, int n, Use use>
T* at_shared(const Site& site, const Here& me, u32 address) {
  const u32 offset = address - kSharedWindow;
  if (offset >= me.shared_bytes || me.shared_bytes - offset < sizeof(T) * n) emulate::fault(emulate::text_of(site) + ": an access outside of shared memory, at " + std::to_string(static_cast<s32>(offset)));
  u8* const p = me.shared + offset;
  check_access(site, p, sizeof(T) * n, use);
  return reinterpret_cast<T*>(p);
}
inline u64 from_shared(const Here& me, u64 address) { return reinterpret_cast<u64>(me.shared) + (address - kSharedWindow); }
inline u64 to_shared(const Here& me, u64 address) { return address - reinterpret_cast<u64>(me.shared) + kSharedWindow; }
inline void prefetch(u64 address) { static_cast<void>(*reinterpret_cast<const volatile u8*>(address)); }  // checks that the memory exists

inline void copy_async(const Site& site, const Here& me, u32 shared, u64 global, u64 bytes) {
  if (bytes != 16) emulate::fault(emulate::text_of(site) + ": cp.async.cg of other than 16 bytes");
  const u8* const source = at<u8, 16, Use::Copy>(site, global);
  emulate::copy_later(at_shared<u8, 16, Use::Store>(site, me, shared), source, 16, &site);
}

}  // namespace paceline::ptx
