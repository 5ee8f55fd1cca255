#include "misuse.h"

#include <stdexcept>

#include "../cuda/compat.h"

namespace paceline::emulate {
namespace {

using cuda::launch;
using cuda::load_once;
using cuda::SharedMemory;
using cuda::shuffle;
using cuda::sync_block;
using cuda::sync_warp;
using cuda::thread_index;

PACELINE_KERNEL half_a_warp() {
  cuda::begin_kernel();
  if (thread_index() < 16) shuffle(1, 0);
}

PACELINE_KERNEL two_operations() {
  cuda::begin_kernel();
  if (thread_index() < 16) shuffle(1, 0);
  else sync_warp();
}

PACELINE_KERNEL half_a_barrier() {
  cuda::begin_kernel();
  if (thread_index() < 32) sync_block();
}

PACELINE_KERNEL too_much_shared() {
  cuda::begin_kernel();
  SharedMemory memory;
  memory.take<float>(64);
}

PACELINE_KERNEL past_shared() {
  cuda::begin_kernel();
  SharedMemory memory;
  float* const piece = memory.take<float>(16);
  if (thread_index() == 0) piece[16] = 0.0f;
}

PACELINE_KERNEL misaligned(const uint8_t* data) {
  cuda::begin_kernel();
  load_once(data + 4);
}

PACELINE_KERNEL half_waits() {
  if (thread_index() < 16) cuda::begin_kernel();
}

// 1 and fifteen times 2^-24: how their sum rounds to float depends on the order.
PACELINE_KERNEL rounded_sum() {
  cuda::begin_kernel();
  const uint32_t tiny = 0x00010001u, ones = 0x3c003c00u;
  const uint32_t a[4] = {thread_index() % 4 ? tiny : (tiny & 0xffffu) << 16 | 0x3c00u, tiny, tiny, tiny}, b[2] = {ones, ones};
  float c[4];
  cuda::mma_halves(c, a, b);
}

// The second warp reads what the first writes.
PACELINE_KERNEL no_barrier(int* out) {
  cuda::begin_kernel();
  SharedMemory memory;
  int* const piece = memory.take<int>(4);
  if (thread_index() == 0) *piece = 7;
  if (thread_index() == 32) *out = *piece;
}

PACELINE_KERNEL no_wait(const int* from, int* out) {
  cuda::begin_kernel();
  SharedMemory memory;
  int* const piece = memory.take<int>(4);
  if (thread_index() == 0) {
    cuda::copy_async_16(piece, from);
    cuda::commit_copies();
    *out = *piece;
    cuda::wait_copies<0>();
    if (*piece != 5) fault("a copy that was waited for is not there");
  }
}

}  // namespace

int misuse(const std::string& name) {
  alignas(16) int from[4] = {5, 5, 5, 5};
  int out = 0;
  if (name == "half a warp") launch("half_a_warp", half_a_warp, {}, 32, 0, nullptr);
  else if (name == "two operations") launch("two_operations", two_operations, {}, 32, 0, nullptr);
  else if (name == "half a barrier") launch("half_a_barrier", half_a_barrier, {}, 64, 0, nullptr);
  else if (name == "too much shared memory") launch("too_much_shared", too_much_shared, {}, 32, 128, nullptr);
  else if (name == "more than a GPU has") launch("past_shared", past_shared, {}, 32, cuda::kMostShared + 16, nullptr);
  else if (name == "past shared memory") launch("past_shared", past_shared, {}, 32, 64, nullptr);
  else if (name == "misaligned") launch("misaligned", misaligned, {}, 32, 0, nullptr, reinterpret_cast<const uint8_t*>(from));
  else if (name == "half waits") launch("half_waits", half_waits, {}, 32, 0, nullptr);
  else if (name == "rounded sum") launch("rounded_sum", rounded_sum, {}, 32, 0, nullptr);
  else if (name == "no barrier") launch("no_barrier", no_barrier, {}, 64, 16, nullptr, &out);
  else if (name == "no wait") launch("no_wait", no_wait, {}, 32, 16, nullptr, static_cast<const int*>(from), &out);
  else throw std::invalid_argument("no misuse '" + name + "'");
  return out;
}

}  // namespace paceline::emulate
