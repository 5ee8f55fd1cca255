// The threads of a step. They enter one OpenMP region per step and meet at barriers between operations; a barrier of our
// own, because it is met ten times a layer and must cost well under a microsecond while all are awake.
#pragma once

#if !PACELINE_STD_THREADS
#include <omp.h>
#endif

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace paceline {

// Pauses before a waiter offers its core, some ten microseconds. Few: it offers the core to another program in the middle of a
// step and gets it back a time slice later. Many: where that program has a core and both our threads share the other, every
// barrier costs a whole spin. Measured beside a busy program on two cores, ms a step of 2.4: 64: 22, 400: 8, 1500: 8, 4000: 34.
constexpr int kSpins = 400;

class Barrier {
 public:
  explicit Barrier(int count) : count_(count) {}

  void wait() {
    if (count_ == 1) return;
    const unsigned round = round_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == count_) {
      arrived_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
      return;
    }
    for (int spins = 0; round_.load(std::memory_order_acquire) == round; ++spins) {
      if (spins < kSpins) {
#if defined(__x86_64__)
        _mm_pause();
#endif
      } else {
        std::this_thread::yield();
      }
    }
  }

 private:
  const int count_;
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<unsigned> round_{0};
};

struct Range {
  int begin, end;
};

// One thread of the team.
struct Member {
  int index, count;
  Barrier& barrier;

  // This member's share of [0, n), the shares being as even as they can be.
  Range share(int n) const {
    return {static_cast<int>(static_cast<int64_t>(n) * index / count), static_cast<int>(static_cast<int64_t>(n) * (index + 1) / count)};
  }
};

template <class Body>
void run_member(const Body& body, const Member& member) {
#if defined(__x86_64__)
  const unsigned control = _mm_getcsr();
  _mm_setcsr(0x1f80);  // round to nearest, denormals kept, no traps: whatever the host program had set
#endif
  body(member);
#if defined(__x86_64__)
  _mm_setcsr(control);
#endif
}

// Runs body(member) on `threads` threads (fewer where OpenMP grants fewer). body must not throw.
template <class Body>
void run_team(int threads, const Body& body) {
#if PACELINE_STD_THREADS
  Barrier barrier(threads);
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back([&, i] { run_member(body, Member{i, threads, barrier}); });
  run_member(body, Member{0, threads, barrier});
  for (std::thread& other : others) other.join();
#else
  Barrier* barrier = nullptr;
#pragma omp parallel num_threads(threads)
  {
#pragma omp single
    barrier = new Barrier(omp_get_num_threads());
    run_member(body, Member{omp_get_thread_num(), omp_get_num_threads(), *barrier});
  }
  delete barrier;
#endif
}

}  // namespace paceline
