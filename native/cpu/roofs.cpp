#include "roofs.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "memory.h"
#include "team.h"

namespace paceline {
namespace {

// Seconds of the fastest of `rounds` runs of work(member), from a barrier to the next.
template <class Work>
double fastest(int threads, int rounds, const Work& work) {
  using Clock = std::chrono::steady_clock;
  double best = 1e30;
  run_team(threads, [&](Member& me) {
    for (int round = 0; round < rounds; ++round) {
      me.barrier.wait();
      const Clock::time_point begun = Clock::now();
      work(me);
      me.barrier.wait();
      if (me.index == 0) best = std::min(best, std::chrono::duration<double>(Clock::now() - begun).count());
    }
  });
  return best;
}

}  // namespace

double read_roof(const Kernels& kernels, int threads, size_t bytes, int rounds) {
  constexpr size_t kPiece = 1 << 20;
  const int pieces = static_cast<int>(bytes / kPiece);
  const Mapping memory(pieces * kPiece);
  uint8_t* data = static_cast<uint8_t*>(memory.data());
  std::memset(data, 1, memory.bytes());  // untouched pages would all be the one page of zeros
  const double seconds = fastest(threads, rounds, [&](Member& me) {
    const auto [begin, end] = me.share(pieces);
    kernels.read_through(data + begin * kPiece, (end - begin) * kPiece);
  });
  return static_cast<double>(pieces * kPiece) / seconds;
}

double multiply_roof(const Kernels& kernels, int threads, int rounds) {
  constexpr int kTimes = 20'000'000;
  std::vector<uint64_t> products(threads);
  const double seconds = fastest(threads, rounds, [&](Member& me) { products[me.index] = kernels.multiply_codes(kTimes); });
  uint64_t sum = 0;
  for (const uint64_t own : products) sum += own;
  return static_cast<double>(sum) / seconds;
}

}  // namespace paceline
