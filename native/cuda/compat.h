// Everything machine-specific that kernels use: the only place with PTX, intrinsics and launches. nvcc compiles it for a GPU; with
// PACELINE_EMULATE any C++ compiler builds it for an emulated device made of fibers (native/emulate/device.h), with the same meaning.
//
// Rules that keep the two equivalent: all 32 lanes take part in every warp operation; all shared memory is dynamic and taken piece
// by piece from SharedMemory, in the same order by every thread; no cooperative groups, no signals between blocks, no launches
// inside kernels, no float atomics. The compiler never contracts to fma (-fmad=false, -ffp-contract=off): where a product and a sum
// are to be rounded once, the code says fma.
#pragma once

#include <cstddef>
#include <cstdint>

namespace paceline::cuda {
constexpr size_t kMostShared = 99 << 10;  // bytes of shared memory that a block can have everywhere; sm_86, 89 and 120 have no more
constexpr size_t kReservedShared = 1 << 10;  // that CUDA takes for each block
}

#if PACELINE_EMULATE
#include "../emulate/device.h"
#else

#include <cuda_runtime.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

#define PACELINE_DEVICE __device__ __forceinline__
#define PACELINE_HOST_DEVICE __host__ __device__ __forceinline__
#define PACELINE_KERNEL __global__ void
#define PACELINE_KERNEL_FOR(threads, blocks) __global__ void __launch_bounds__(threads, blocks)  // limits registers so that `blocks` of them fit an SM
#define PACELINE_TABLE static __device__ constexpr  // not __constant__: lanes of a warp read different entries
#define PACELINE_UNROLL _Pragma("unroll")
#define PACELINE_UNROLL_BY(n) PACELINE_PRAGMA(unroll n)
#define PACELINE_PRAGMA(words) _Pragma(#words)

namespace paceline::cuda {

using Stream = void*;  // a cudaStream_t, as a number from Python

PACELINE_DEVICE unsigned thread_index() { return threadIdx.x; }
PACELINE_DEVICE unsigned block_threads() { return blockDim.x; }
PACELINE_DEVICE unsigned block_x() { return blockIdx.x; }
PACELINE_DEVICE unsigned block_y() { return blockIdx.y; }
PACELINE_DEVICE unsigned block_z() { return blockIdx.z; }

PACELINE_DEVICE void sync_block() { __syncthreads(); }
PACELINE_DEVICE void sync_warp() { __syncwarp(); }

extern __shared__ __align__(16) unsigned char paceline_shared[];

class SharedMemory {
 public:
  template <class T>
  PACELINE_DEVICE T* take(size_t count) {
    T* piece = reinterpret_cast<T*>(paceline_shared + used_);
    used_ += (count * sizeof(T) + 15) / 16 * 16;
    return piece;
  }

 private:
  size_t used_ = 0;
};

template <class T>
PACELINE_DEVICE T shuffle(T value, int source) { return __shfl_sync(0xffffffffu, value, source); }

// A constant in a register of each lane. By itself it would be in one for the whole warp, and copied for each instruction that takes only the other kind.
PACELINE_DEVICE uint32_t in_register(uint32_t value) { return shuffle(value, 0); }

PACELINE_DEVICE bool any_of_warp(bool condition) { return __any_sync(0xffffffffu, condition); }

struct alignas(16) Word4 { uint32_t v[4]; };
struct alignas(8) Word2 { uint32_t v[2]; };

// Loads of data that is read once, through the read-only path; that of 16 bytes allocates no line in L1.
PACELINE_DEVICE Word4 load_once(const void* p) {
  Word4 w;
  asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(w.v[0]), "=r"(w.v[1]), "=r"(w.v[2]), "=r"(w.v[3]) : "l"(p));
  return w;
}
PACELINE_DEVICE Word2 load_once_8(const void* p) {
  Word2 w;
  asm("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(w.v[0]), "=r"(w.v[1]) : "l"(p));
  return w;
}
PACELINE_DEVICE uint32_t load_once_4(const void* p) {
  uint32_t w;
  asm("ld.global.nc.u32 %0, [%1];" : "=r"(w) : "l"(p));
  return w;
}
PACELINE_DEVICE uint16_t load_once_2(const void* p) {
  uint16_t w;
  asm("ld.global.nc.u16 %0, [%1];" : "=h"(w) : "l"(p));
  return w;
}

// Loads what was there before the first kernel of a step began, in a kernel that does not wait for its predecessor first: from L2, as L1 may have what an earlier
// step had there. T: of 32-bit words.
template <class T>
PACELINE_DEVICE T load_early(const T* p) {
  constexpr size_t kWords = sizeof(T) / 4;
  static_assert(sizeof(T) % 4 == 0);
  uint32_t words[kWords];
  PACELINE_UNROLL
  for (size_t i = 0; i < kWords; ++i) asm("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(words[i]) : "l"(reinterpret_cast<const uint32_t*>(p) + i));
  T value;
  __builtin_memcpy(&value, words, sizeof value);
  return value;
}

// The emulated device counts the bytes of weights where they are loaded; on a GPU DeviceCore::weight_bytes computes how many they should be.
PACELINE_DEVICE void count_weights(size_t) {}

// Prefetches into L2. Allowed even for data that other kernels have yet to write, since their writes go through L2.
PACELINE_DEVICE void fetch_ahead(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

// Programmatic dependent launch: from sm_90 on a kernel starts while the previous one still runs, once all blocks of that one have called let_next_begin() and
// there is room. All threads of every kernel must call wait_for_earlier(), even those that exit early, or the next kernel would not wait for what this one has
// not waited for. Before that call a kernel may read only what no kernel ever writes, such as weights, and by load_early() what the step's input says.
PACELINE_DEVICE void let_next_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
PACELINE_DEVICE void wait_for_earlier() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// For a kernel with nothing to do before the wait.
PACELINE_DEVICE void begin_kernel() {
  let_next_begin();
  wait_for_earlier();
}

PACELINE_DEVICE uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

PACELINE_DEVICE void copy_async_16(void* shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(shared)), "l"(global) : "memory");
}
PACELINE_DEVICE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int newest_left>
PACELINE_DEVICE void wait_copies() { asm volatile("cp.async.wait_group %0;" ::"n"(newest_left) : "memory"); }

PACELINE_DEVICE float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
PACELINE_DEVICE float square_root(float x) { return __fsqrt_rn(x); }
PACELINE_DEVICE float magnitude(float x) { return fabsf(x); }
PACELINE_DEVICE float bits_to_float(uint32_t bits) { return __uint_as_float(bits); }
PACELINE_DEVICE uint32_t float_to_bits(float f) { return __float_as_uint(f); }
PACELINE_DEVICE float half_to_float(uint16_t h) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}
PACELINE_DEVICE uint16_t float_to_half(float f) {
  uint16_t h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
}
PACELINE_DEVICE float brain_to_float(uint16_t h) { return __uint_as_float(static_cast<uint32_t>(h) << 16); }
PACELINE_DEVICE uint16_t float_to_brain(float f) {
  uint16_t h;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
}

// Two floats as bfloat16, the first in the lower half.
PACELINE_DEVICE uint32_t two_brains(float low, float high) {
  uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

// Two halves times the lower or the upper half of `b`, each product rounded once, subnormals included.
template <int upper>
PACELINE_DEVICE uint32_t multiply_halves(uint32_t a, uint32_t b) {
  uint16_t half[2];
  uint32_t both, product;
  asm("mov.b32 {%0, %1}, %2;" : "=h"(half[0]), "=h"(half[1]) : "r"(b));
  asm("mov.b32 %0, {%1, %1};" : "=r"(both) : "h"(half[upper]));  // both become a modifier of the product's operand
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(both));
  return product;
}

// Byte i of the result is byte (selector >> 4i & 7) of {b, a}. The selector's bits 3, 7, 11 and 15 must be 0 (__byte_perm() would clear them each time).
PACELINE_DEVICE uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t selector) {
  uint32_t bytes;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(a), "r"(b), "r"(selector));
  return bytes;
}

// The same, but byte i is eight copies of that byte's sign bit where bit 4i + 3 of the selector is 1.
PACELINE_DEVICE uint32_t permute_or_signs(uint32_t a, uint32_t b, uint32_t selector) {
  uint32_t bytes;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(a), "r"(b), "r"(selector));
  return bytes;
}

// c plus the products of four bytes, signed or not.
template <bool with_sign>
PACELINE_DEVICE uint32_t dot_bytes(uint32_t a, uint32_t b, uint32_t c) {
  if constexpr (with_sign) return static_cast<uint32_t>(__dp4a(static_cast<int>(a), static_cast<int>(b), static_cast<int>(c)));
  else return __dp4a(a, b, c);
}

// 0xff for each byte whose top bit is set, else 0.
PACELINE_DEVICE uint32_t spread_top_bits(uint32_t a) {
  uint32_t masks;
  asm("prmt.b32 %0, %1, 0, 0xba98;" : "=r"(masks) : "r"(a));
  return masks;
}

// c [16][8] = a [16][32] bytes, signed or not, * b [32][8] signed bytes, plus `left` in a lane's first column and `right` in its second; fragments are those
// of the PTX manual.
template <bool with_sign>
PACELINE_DEVICE void mma_bytes_32(int32_t c[4], const uint32_t a[4], const uint32_t b[2], int32_t left, int32_t right) {
  if constexpr (with_sign)
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %10, %11};"
        : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(left), "r"(right));
  else
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %10, %11};"
        : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(left), "r"(right));
}
template <bool with_sign>
PACELINE_DEVICE void mma_bytes_16(int32_t c[4], const uint32_t a[2], uint32_t b, int32_t left, int32_t right) {
  if constexpr (with_sign)
    asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %7, %8};"
        : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(b), "r"(left), "r"(right));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %7, %8};"
        : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(b), "r"(left), "r"(right));
}

// c [16][8] = a [16][16] * b [16][8], halves. The order in which the products are added is undocumented: only for sums that are exact in float.
PACELINE_DEVICE void mma_halves(float c[4], const uint32_t a[4], const uint32_t b[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
      : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(0.0f));
}

// c [16][8] = c + a [16][16] * b [16][8], bfloat16. How it rounds is undocumented, but the same for every row and column.
PACELINE_DEVICE void mma_brains(float (&c)[4], const uint32_t a[4], const uint32_t b[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

struct Grid {
  unsigned x = 1, y = 1, z = 1;
};

// An error that a call returns also stays behind for the next cudaGetLastError() to find: it is cleared here.
inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();
  throw std::runtime_error(std::string(what) + ": " + cudaGetErrorName(error) + ": " + cudaGetErrorString(error));
}

template <int = 0>
PACELINE_KERNEL nothing() {}

// Selects this thread's device from now on. This runtime is linked statically and does not see which device others in the process have
// selected. A build for other GPUs fails here, and not in the first step.
inline void use_device(int number) {
  check(cudaSetDevice(number), "cudaSetDevice");
  // Fetch whole lines into L2, as all of a line is read soon; by default a miss may fetch half of one. A hint, which a device may not support.
  if (cudaDeviceSetLimit(cudaLimitMaxL2FetchGranularity, 128) != cudaSuccess) cudaGetLastError();
  cudaFuncAttributes about;
  check(cudaFuncGetAttributes(&about, nothing<0>), "the kernels of this build");
}

// This thread's device. waits: its kernels contain the instruction of wait_for_earlier(), which kernels compiled at load time from the PTX of an older
// architecture do not, whatever the device supports.
struct Device {
  int number = -1, multiprocessors = 0, shared = 0;  // shared: bytes of shared memory of a multiprocessor
  bool waits = false;
};
inline const Device& device() {
  static thread_local Device known;
  int number = 0;
  check(cudaGetDevice(&number), "cudaGetDevice");
  if (number == known.number) return known;
  check(cudaDeviceGetAttribute(&known.multiprocessors, cudaDevAttrMultiProcessorCount, number), "cudaDeviceGetAttribute");
  check(cudaDeviceGetAttribute(&known.shared, cudaDevAttrMaxSharedMemoryPerMultiprocessor, number), "cudaDeviceGetAttribute");
  cudaFuncAttributes about;
  check(cudaFuncGetAttributes(&about, nothing<0>), "the kernels of this build");
  known.waits = about.ptxVersion >= 90;
  known.number = number;
  return known;
}
inline int multiprocessors() { return device().multiprocessors; }
// How many blocks with so much shared memory a multiprocessor has room for.
inline int resident_blocks(size_t shared_bytes) { return device().shared / static_cast<int>(shared_bytes + kReservedShared); }

// Whether kernels may start before the previous one has ended. PACELINE_CUDA_APART=1 forbids it, to find out whether that is at fault.
inline bool overlaps() {
  static const bool apart = std::getenv("PACELINE_CUDA_APART") != nullptr;
  return !apart && device().waits;
}

// Up to 48 KiB of shared memory need no opt-in. The opt-in is always for the maximum, as launches of one kernel in a graph may need different sizes.
constexpr size_t kFreeShared = 48 << 10;

template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), Grid grid, unsigned threads, size_t shared_bytes, Stream stream, Arguments... arguments) {
  if (shared_bytes > kFreeShared) check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kMostShared)), name);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(grid.x, grid.y, grid.z);
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = &attribute;
  config.numAttrs = overlaps() ? 1 : 0;
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), name);
}
}  // namespace paceline::cuda

#endif
