// The threads of a step. They enter one OpenMP region per step and meet at barriers between operations; a barrier of our
// own, because it is met ten times a layer and must cost well under a microsecond while all are awake.
#pragma once

#if !PACELINE_STD_THREADS
#include <omp.h>
#endif

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "float_control.h"

namespace paceline {

// Pauses before a waiter yields its core, some ten microseconds. Too few: it yields to another program in mid-step and gets
// the core back a time slice later. Too many: where that program has a core and both our threads share the other, every
// barrier costs a whole spin. Measured beside a busy program on two cores, ms a step of 2.4: 64: 22, 400: 8, 1500: 8, 4000: 34.
constexpr int kSpins = 400;

inline void spin_pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");  // tens of cycles, as x86's pause; ARM's yield is none
#endif
}

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
        spin_pause();
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

// A member's share of [0, n), the shares being as even as they can be.
inline Range share_of(int member, int members, int n) {
  return {static_cast<int>(static_cast<int64_t>(n) * member / members), static_cast<int>(static_cast<int64_t>(n) * (member + 1) / members)};
}

// How far a member's share of an operation has been taken: the operation's number << 32 | the first item that nobody has taken.
struct alignas(64) Taken {
  std::atomic<uint64_t> value{0};
};

// What the members have in common.
struct Team {
  explicit Team(int count) : barrier(count), taken(count) {}

  Barrier barrier;
  std::vector<Taken> taken;  // [members]
};

// One thread of the team.
class Member {
 public:
  const int index, count;
  Barrier& barrier;

  Member(int own, int all, Team& team) : index(own), count(all), barrier(team.barrier), taken_(team.taken.data()) {}

  Range share(int n) const { return share_of(index, count, n); }

  // f(i) once for each i of [0, n), in any order and by any member: each begins with its own share and then helps others, since cores may be of unequal
  // speed or have other work. With many members it looks only at those 1, 2, 4, ... places on, since each look at another's count
  // fetches a cache line from another core. Then the barrier; all members make the same calls in the same order.
  template <class Function>
  void divide(int n, const Function& f) {
    ++operation_;
    for (int ahead = 0; ahead < count; ahead = ahead ? 2 * ahead : 1) {
      const int owner = (index + ahead) % count;
      const Range whole = share_of(owner, count, n);
      for (Range part = take(owner, whole); part.begin < part.end; part = take(owner, whole))
        for (int i = part.begin; i < part.end; ++i) f(i);
    }
    barrier.wait();
  }

 private:
  // Half of what is left of a share: few atomic operations for its owner, single items at the end. Relaxed, as the count publishes no other data.
  Range take(int owner, Range whole) {
    std::atomic<uint64_t>& taken = taken_[owner].value;
    uint64_t seen = taken.load(std::memory_order_relaxed);
    while (true) {
      const int begin = seen >> 32 == operation_ ? static_cast<int>(seen & 0xffffffffu) : whole.begin;  // of an earlier operation: this one's share is untouched
      const int end = begin + (whole.end - begin + 1) / 2;
      if (begin == end || taken.compare_exchange_weak(seen, operation_ << 32 | static_cast<uint64_t>(end), std::memory_order_relaxed)) return {begin, end};
    }
  }

  Taken* const taken_;
  uint64_t operation_ = 0;
};

template <class Body>
void run_member(const Body& body, Member member) {
  const StandardFloats floats;
  body(member);
}

// Runs body(member) on `threads` threads (fewer where OpenMP grants fewer). body must not throw.
template <class Body>
void run_team(int threads, const Body& body) {
#if PACELINE_STD_THREADS
  Team team(threads);
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back([&, i] { run_member(body, Member(i, threads, team)); });
  run_member(body, Member(0, threads, team));
  for (std::thread& other : others) other.join();
#else
  std::unique_ptr<Team> team;
#pragma omp parallel num_threads(threads)
  {
#pragma omp single
    team = std::make_unique<Team>(omp_get_num_threads());
    run_member(body, Member(omp_get_thread_num(), omp_get_num_threads(), *team));
  }
#endif
}

}  // namespace paceline
