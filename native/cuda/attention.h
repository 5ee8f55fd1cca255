// Attention over pages, one body for decode and prefill. A block works for up to 16 queries that share a kv head: the heads of its
// group, for some tokens of one row. Order for one query, the same as on the CPU (native/cpu/attention.cpp):
//
//   splits of 512 positions, ascending, merged ascending; in a split pages of 64 keys, ascending, by the online softmax
//   score[key] = fma over the head's dimensions, ascending; sums of weights over 16 virtual lanes (key mod 16), folded 8-4-2-1
//   value[dim] = value * correction, then fma over the page's keys, ascending
//
// A split in three steps: each warp scores a page (a lane two keys, all queries); each warp runs down the pages of its queries for
// peaks, weights and corrections; each thread adds up two dimensions of some queries. The values' pages come into shared memory
// by asynchronous copies that begin before the scores. No sum crosses threads but those of the weights, so a split costs no
// bits: whether blocks take one split each (`partial`) or all of them in turn is a question of how many blocks there are.
#pragma once

#include "cache_read.h"
#include "operations.h"

namespace paceline::cuda {

constexpr int kAttentionThreads = 256, kAttentionWarps = kAttentionThreads / kWarp;
constexpr int kSplitPages = kSplit / kPage;
static_assert(kSplitPages == kAttentionWarps);
constexpr size_t kStagedBytes = 48 << 10;  // of values on their way
constexpr int kMostStages = 4;

inline int stages_for(size_t value_bytes) {
  const int fit = static_cast<int>(kStagedBytes / value_bytes);
  return fit < 1 ? 1 : fit > kMostStages ? kMostStages : fit;
}

// Keys [begin, end) of a page that a query sees; none: begin >= end.
struct Seen {
  int begin, end;
};
PACELINE_DEVICE Seen seen_of_page(int position, int window, int first) {
  const int lowest = window > 0 && position - window + 1 > 0 ? position - window + 1 : 0;
  const int begin = lowest - first, end = position - first + 1;
  return {begin > 0 ? begin : 0, end < kPage ? end : kPage};
}

// One block's queries and its shared memory.
struct Queries {
  int count;             // of them, at most kMost
  int heads, first_head; // of this block; query i is head first_head + i % heads of token i / heads
  int first_column, first_position;
  float* q;              // [head_size][kMost]
  float* weights;        // [kMost][512]: scores, then weights
  float* peaks;          // [kMost][8]: of each page, -inf where nothing is seen
  float* corrections;    // [kMost][8]
  float* split;          // [kMost][2]: peak and sum of the split
  float* merged;         // [kMost][4]: peak and sum of all splits so far, the factors of the last merge

  PACELINE_DEVICE int position(int i) const { return first_position + i / heads; }
  PACELINE_DEVICE int column(int i) const { return first_column + i / heads; }
  PACELINE_DEVICE int head(int i) const { return first_head + i % heads; }
};

// Scores of all queries against a page's 64 keys, by one warp.
template <CacheType type, int most>
PACELINE_DEVICE void score_page(const Queries& queries, const CacheView& cache, const uint8_t* k, int page, int first) {
  const int key = 2 * static_cast<int>(lane_index());
  float low[most], high[most];
  PACELINE_UNROLL
  for (int i = 0; i < most; ++i) low[i] = high[i] = 0.0f;
  for (int d = 0; d < cache.head_size; ++d) {
    const Two x = two_keys<type>(k, cache.head_size, d, key);
    PACELINE_UNROLL
    for (int i = 0; i < most; ++i) {
      const float q = queries.q[d * most + i];
      low[i] = fma(q, x.low, low[i]);
      high[i] = fma(q, x.high, high[i]);
    }
  }
  PACELINE_UNROLL  // so that sums stay in registers
  for (int i = 0; i < most; ++i) {
    if (i >= queries.count) continue;
    const Seen seen = seen_of_page(queries.position(i), cache.window, first);
    float a = low[i], b = high[i];
    if (cache.softcap != 0.0f) {
      a = cache.softcap * hyperbolic_tangent(a / cache.softcap);
      b = cache.softcap * hyperbolic_tangent(b / cache.softcap);
    }
    const float lowest = -__builtin_huge_valf();
    if (key < seen.begin || key >= seen.end) a = lowest;
    if (key + 1 < seen.begin || key + 1 >= seen.end) b = lowest;
    queries.weights[i * kSplit + page * kPage + key] = a;
    queries.weights[i * kSplit + page * kPage + key + 1] = b;
    float peak = larger(a, b);
    for (int width = kWarp / 2; width > 0; width /= 2) peak = larger(peak, shuffle(peak, static_cast<int>(lane_index()) ^ width));
    if (lane_index() == 0) queries.peaks[i * kSplitPages + page] = peak;
  }
}

// Peaks, weights and corrections of one query over the pages of a split, by one warp.
PACELINE_DEVICE void weigh_split(const Queries& queries, int i, int window, int split_begin, int pages) {
  const int lane = static_cast<int>(lane_index());
  float peak = -__builtin_huge_valf(), sum = 0.0f;
  for (int page = 0; page < pages; ++page) {
    const Seen seen = seen_of_page(queries.position(i), window, split_begin + page * kPage);
    if (seen.begin >= seen.end) continue;
    const float block_peak = queries.peaks[i * kSplitPages + page], next = peak > block_peak ? peak : block_peak;
    float* const weights = queries.weights + i * kSplit + page * kPage;
    const int key = 2 * lane;
    const float a = key < seen.begin || key >= seen.end ? 0.0f : exponential(weights[key] - next);
    const float b = key + 1 < seen.begin || key + 1 >= seen.end ? 0.0f : exponential(weights[key + 1] - next);
    weights[key] = a;
    weights[key + 1] = b;
    // Lane l < 8 has virtual lanes 2l and 2l + 1; those of the keys 16, 32 and 48 further on are 8, 16 and 24 lanes on.
    float even = 0.0f + a, odd = 0.0f + b;
    for (int j = 1; j < 4; ++j) {
      const int other = lane % 8 + 8 * j;
      even = even + shuffle(a, other);
      odd = odd + shuffle(b, other);
    }
    for (int width = 4; width > 0; width /= 2) {
      even = even + shuffle(even, lane + width);
      odd = odd + shuffle(odd, lane + width);
    }
    const float page_sum = shuffle(even + odd, 0);
    const float correction = exponential(peak - next);
    if (lane == 0) queries.corrections[i * kSplitPages + page] = correction;
    sum = fma(sum, correction, page_sum);
    peak = next;
  }
  if (lane == 0) {
    queries.split[2 * i] = peak;
    queries.split[2 * i + 1] = sum;
  }
}

// Two dimensions of some queries, first, first + step, ...: correction, then the keys of a page that each sees.
constexpr int kOwnQueries = 4;  // of one thread
struct OwnValues {
  Two split[kOwnQueries], total[kOwnQueries];
};
template <CacheType type>
PACELINE_DEVICE void add_page(const Queries& queries, int first, int step, int window, int page, int page_begin, const uint8_t* v, int stride, int d, OwnValues& own) {
  Seen seen[kOwnQueries];
  const float* weights[kOwnQueries];
  int begin = kPage, end = 0;
  PACELINE_UNROLL
  for (int n = 0; n < kOwnQueries; ++n) {
    const int i = first + n * step;
    seen[n] = i < queries.count ? seen_of_page(queries.position(i), window, page_begin) : Seen{0, 0};
    weights[n] = queries.weights + (i < queries.count ? i : 0) * kSplit + page * kPage;
    if (seen[n].begin >= seen[n].end) {
      seen[n] = {0, 0};
      continue;
    }
    begin = seen[n].begin < begin ? seen[n].begin : begin;
    end = seen[n].end > end ? seen[n].end : end;
    const float correction = queries.corrections[i * kSplitPages + page];
    own.split[n].low = own.split[n].low * correction;
    own.split[n].high = own.split[n].high * correction;
  }
  for (int key = begin; key < end; ++key) {
    const Two x = two_values<type>(v, stride, key, d);
    PACELINE_UNROLL
    for (int n = 0; n < kOwnQueries; ++n) {
      if (key < seen[n].begin || key >= seen[n].end) continue;
      const float weight = weights[n][key];
      own.split[n].low = fma(weight, x.low, own.split[n].low);
      own.split[n].high = fma(weight, x.high, own.split[n].high);
    }
  }
}

}  // namespace paceline::cuda
