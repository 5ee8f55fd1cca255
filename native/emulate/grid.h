// Runs a kernel's grid on the host: every thread is a fiber, a warp's lanes meet at warp operations, a block's threads at
// barriers, blocks are spread over host threads. A broken rule ends the launch with a Fault that says what and where:
//
//   - lanes of a warp that meet in different operations, or do not all meet (every warp operation is full-mask)
//   - a barrier that some threads of the block never reach
//   - a thread that ends without having waited for the kernels before
//   - more shared memory than every architecture has, or more taken than the launch asked for, a write past its end
//   - a pointer that is not aligned to its load
//
// Without a Fault, a read of shared memory that nobody wrote, or of a copy not waited for, shows in the results: both are filled
// with 0xff, NaN as a float; and an overrun of a global buffer, its size rounded up to 256, meets a page without access (room.h).
//
// Between two synchronizations, lanes and warps run forward, reversed or shuffled: a kernel that forgets a barrier gives other
// results. What cannot be seen here: memory ordering between threads, streams and graphs, how a float mma rounds inside, registers,
// speed; and, but for kernels translated from PTX (watch.h, traffic.h), races between blocks and bank conflicts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

namespace paceline::emulate {

struct Site;  // traffic.h

struct Size {
  unsigned x = 1, y = 1, z = 1;
};

enum class Order { Forward, Reversed, Shuffled };

struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// For all later launches.
void set_order(Order order, uint64_t seed);

// The number that launches are planned for; 1 by default.
void set_multiprocessors(int count);
int multiprocessors();
constexpr int kMultiprocessorShared = 228 << 10;  // bytes of shared memory, an H100's

// Bytes of weights that kernels have loaded; counted_weights() returns them and starts again at 0.
void count_weights(size_t bytes);
uint64_t counted_weights();

// Runs body() for every thread of every block; throws the first Fault.
void run_grid(const char* kernel, Size grid, unsigned threads, size_t shared_bytes, const std::function<void()>& body);

// For a running thread.
struct Place {
  unsigned thread, threads;
  Size block;
};
const Place& place();
[[noreturn]] void fault(const std::string& what);
void meet_block(const Site* site = nullptr);  // a barrier of the block; lanes of a warp must be at the same `site`
void note_wait();   // the thread has called wait_for_earlier()

// All lanes of the warp bring `in` and get `out`: the last to arrive calls work(ins, outs) with the pointers of 32 lanes. site: where it must be the same for all.
using WarpWork = void (*)(const void* const* ins, void* const* outs);
void meet_warp(const char* operation, const void* in, void* out, WarpWork work, const Site* site = nullptr);

void* take_shared(size_t bytes, size_t alignment);  // the next piece of the block's shared memory, the same for all of its threads
struct SharedRoom {
  void* begin;
  size_t bytes;
};
SharedRoom shared_room();  // all of it

// When and where the running thread accesses p, for watch.h. Own: on its stack.
enum class Memory { Global, Shared, Own };
struct Moment {
  uint32_t launch, block, thread;
  uint32_t barriers, meetings;  // barriers of the block so far; those and sync_warp() of the warp
  bool waited;                  // for the kernels before
  Memory where;
};
Moment now(const void* p);
void note_meeting();  // the thread has passed sync_warp()

// cp.async: `target` is poisoned until the group that the copy is in has been waited for.
void copy_later(void* target, const void* source, size_t bytes, const Site* site = nullptr);
void commit_copies();
void wait_copies(int newest_left);

template <class T>
void check_aligned(const T* p, size_t alignment) {
  if (reinterpret_cast<uintptr_t>(p) % alignment) fault("an address that is no multiple of " + std::to_string(alignment));
}

}  // namespace paceline::emulate
