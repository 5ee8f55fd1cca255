// Searches in a row of logits, by one thread block: which id has a given rank, and where a running sum in rank order passes a bound.
//
// Candidates are ordered by (logit descending, id ascending). Sums are of integers, so the order of addition does not matter, and nothing is ever sorted: a
// radix search over the keys, four bits a pass, finds the place. Before that, one pass picks the candidates near the largest logit, usually few, out of the
// vocabulary.
#pragma once

#include "../cpu/bounds.h"
#include "../cpu/sampling.h"
#include "operations.h"

namespace paceline::cuda {

constexpr int kRowThreads = 256, kRowWarps = kRowThreads / kWarp;  // 512 would have too many registers on some architectures
constexpr int kDigits = 16, kDigitBits = 4;
constexpr int kCuts = 4;  // thresholds below the largest logit, in units of the temperature

// A row of logits and the candidates among them, for one thread block.
struct Candidates {
  const float* logits;
  int size, id_bits;
  float peak, factor;  // a weight is e^((logit - peak) * factor)
  const int* ids;       // of the candidates; null: all of the vocabulary
  int count;
  uint64_t* sums;       // shared [kRowWarps][kDigits]
  const uint32_t* allowed = nullptr;  // the set of ids that count; null: all
  uint64_t lowest = 0;  // the key of the last candidate

  PACELINE_DEVICE float logit(int id) const { return !allowed || has(allowed, id) ? logits[id] : -__builtin_huge_valf(); }
  PACELINE_DEVICE float weight(float logit) const { return exponential((logit - peak) * factor); }
  PACELINE_DEVICE uint64_t whole(float weight) const { return static_cast<uint64_t>(weight * kWholeWeight); }
  // Sort keys: larger comes first.
  PACELINE_DEVICE uint64_t by_id(int id) const { return (uint64_t{1} << id_bits) - 1 - id; }
  PACELINE_DEVICE uint64_t by_logit(int id, float logit) const {
    const float x = logit == logit ? logit + 0.0f : -__builtin_huge_valf();  // NaN comes last; -0 becomes 0
    const uint32_t bits = float_to_bits(x), ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return static_cast<uint64_t>(ordered) << id_bits | by_id(id);
  }
  PACELINE_DEVICE int id_of(uint64_t key) const { return static_cast<int>(by_id(0) - (key & by_id(0))); }
};

// Calls work(id, logit) for the thread's share of ids[begin .. end - 1], or of begin .. end - 1 if ids is null; several loads are in flight at once.
template <class Work>
PACELINE_DEVICE void each_candidate(const Candidates& d, const int* ids, int begin, int end, Work work) {
  constexpr int kAhead = 16;
  for (int first = begin + static_cast<int>(thread_index()); first < end; first += kAhead * kRowThreads) {
    int id[kAhead];
    float logit[kAhead];
    PACELINE_UNROLL
    for (int j = 0; j < kAhead; ++j) {
      const int i = first + j * kRowThreads;
      id[j] = i >= end ? -1 : ids ? ids[i] : i;
    }
    PACELINE_UNROLL
    for (int j = 0; j < kAhead; ++j) logit[j] = id[j] < 0 ? 0.0f : d.logit(id[j]);
    PACELINE_UNROLL
    for (int j = 0; j < kAhead; ++j)
      if (id[j] >= 0) work(id[j], logit[j]);
  }
}

// Sums over the thread block; every thread gets them.
template <int n>
PACELINE_DEVICE void add_up(uint64_t (&values)[n], uint64_t* shared) {
  PACELINE_UNROLL
  for (int i = 0; i < n; ++i)
    for (int width = kWarp / 2; width > 0; width /= 2) values[i] += shuffle(values[i], static_cast<int>(lane_index()) ^ width);
  sync_block();  // others may still read what is overwritten now
  if (lane_index() == 0)
    for (int i = 0; i < n; ++i) shared[warp_index() * n + i] = values[i];
  sync_block();
  PACELINE_UNROLL
  for (int i = 0; i < n; ++i) {
    values[i] = 0;
    for (int w = 0; w < kRowWarps; ++w) values[i] += shared[w * n + i];
  }
}

// A range of candidates, by index.
struct Span {
  int begin, end;
};

// The key at which the running sum of measure(id, logit) over candidates, largest key first, satisfies enough(); if it never does, the smallest key.
// among(first, last): a range with all candidates whose keys are from `first` to `last`, and perhaps others.
template <class Key, class Measure, class Enough, class Among>
PACELINE_DEVICE uint64_t search(const Candidates& d, int bits, Key key, Measure measure, Enough enough, Among among) {
  uint64_t prefix = 0, above = 0;
  for (int shift = (bits + kDigitBits - 1) / kDigitBits * kDigitBits - kDigitBits; shift >= 0; shift -= kDigitBits) {
    uint64_t sums[kDigits];
    PACELINE_UNROLL
    for (int i = 0; i < kDigits; ++i) sums[i] = 0;
    const uint64_t width = uint64_t{1} << (shift + kDigitBits);
    const Span span = among(prefix * width, prefix * width + (width - 1));
    each_candidate(d, d.ids, span.begin, span.end, [&](int id, float logit) {
      const uint64_t k = key(id, logit) >> shift;
      if (k >> kDigitBits != prefix) return;
      const uint64_t value = measure(id, logit);
      PACELINE_UNROLL
      for (int j = 0; j < kDigits; ++j) sums[j] += static_cast<int>(k % kDigits) == j ? value : 0;
    });
    add_up(sums, d.sums);
    int digit = 0;
    bool found = false;
    PACELINE_UNROLL
    for (int j = kDigits - 1; j >= 0; --j) {
      if (found) continue;
      if (enough(above + sums[j])) {
        digit = j;
        found = true;
      } else {
        above += sums[j];
      }
    }
    prefix = prefix << kDigitBits | digit;
  }
  return prefix;
}

template <class Key, class Measure, class Enough>
PACELINE_DEVICE uint64_t search(const Candidates& d, int bits, Key key, Measure measure, Enough enough) {
  return search(d, bits, key, measure, enough, [&](uint64_t, uint64_t) { return Span{0, d.count}; });
}

// The same with ids as keys, ascending; over a whole vocabulary, where ids are indexes, each digit narrows the range to look at.
template <class Measure, class Enough>
PACELINE_DEVICE uint64_t search_ids(const Candidates& d, Measure measure, Enough enough) {
  const auto key = [&](int id, float) { return d.by_id(id); };
  return search(d, d.id_bits, key, measure, enough, [&](uint64_t first, uint64_t last) {
    if (d.ids) return Span{0, d.count};
    const int end = static_cast<int>(d.by_id(0) - first) + 1;
    return Span{last < d.by_id(0) ? d.id_of(last) : 0, end < d.count ? end : d.count};
  });
}

// The key of the candidate with rank `place` by logit, counted from one.
PACELINE_DEVICE uint64_t key_of_place(const Candidates& d, uint64_t place) {
  const auto key = [&](int id, float logit) { return d.by_logit(id, logit); };
  const auto one = [](int, float) -> uint64_t { return 1; };
  return search(d, 32 + d.id_bits, key, one, [&](uint64_t sum) { return sum >= place; });
}

// The sum of `mine` over the threads before this one (an exclusive prefix sum).
PACELINE_DEVICE uint32_t counted_before(const Candidates& d, uint32_t mine) {
  uint32_t before = 0;
  const int lane = static_cast<int>(lane_index());
  for (int l = 0; l < kWarp; ++l) {
    const uint32_t theirs = shuffle(mine, l);
    if (l < lane) before += theirs;
  }
  sync_block();
  if (lane == kWarp - 1) d.sums[warp_index()] = before + mine;
  sync_block();
  for (int w = 0; w < static_cast<int>(warp_index()); ++w) before += static_cast<uint32_t>(d.sums[w]);
  return before;
}

// Reduces the candidates to the logits near the largest, listed in `ids`: as few as satisfy enough(their number, their weight, total weight); all stay where
// that would be too many. Returns the total weight.
template <class Enough>
PACELINE_DEVICE uint64_t take_candidates(Candidates& d, int* ids, Enough enough) {
  const float far[kCuts] = {4.0f, 8.0f, 12.0f, 20.0f};
  float bounds[kCuts];
  uint64_t found[2 * kCuts + 1];  // counts, weights; the total weight
  uint32_t own[kCuts];
  PACELINE_UNROLL
  for (int j = 0; j < kCuts; ++j) {
    bounds[j] = d.peak - far[j] / d.factor;
    own[j] = 0;
  }
  PACELINE_UNROLL
  for (int j = 0; j < 2 * kCuts + 1; ++j) found[j] = 0;
  each_candidate(d, nullptr, 0, d.size, [&](int, float logit) {
    const uint64_t weight = d.whole(d.weight(logit));
    found[2 * kCuts] += weight;
    PACELINE_UNROLL
    for (int j = 0; j < kCuts; ++j) {
      if (!(logit >= bounds[j])) continue;
      ++own[j];
      found[kCuts + j] += weight;
    }
  });
  PACELINE_UNROLL
  for (int j = 0; j < kCuts; ++j) found[j] = own[j];
  add_up(found, d.sums);
  int chosen = kCuts;
  uint32_t mine = 0;
  uint64_t all = 0;
  float bound = 0.0f;
  PACELINE_UNROLL
  for (int j = kCuts - 1; j >= 0; --j) {
    if (found[j] > kMostCandidates || !enough(found[j], found[kCuts + j], found[2 * kCuts])) continue;
    chosen = j;
    mine = own[j];
    all = found[j];
    bound = bounds[j];
  }
  if (chosen == kCuts) return found[2 * kCuts];
  uint32_t at = counted_before(d, mine);
  each_candidate(d, nullptr, 0, d.size, [&](int id, float logit) {
    if (logit >= bound) ids[at++] = id;
  });
  sync_block();
  d.ids = ids;
  d.count = static_cast<int>(all);
  return found[2 * kCuts];
}

}  // namespace paceline::cuda
