// Paged attention, one body for decode and prefill. A thread block handles up to 16 queries that share a KV head: the query heads of its
// group, for some tokens of one row. The order for one query is the CPU's (native/cpu/attention.cpp):
//
//   splits of 512 positions, ascending, merged ascending; in a split pages of 64 keys, ascending, by the online softmax
//   score[key] = fma over the head's dimensions, ascending; sums of weights over 16 virtual lanes (key mod 16), folded 8-4-2-1
//   value[dim] = value * correction, then fma over the page's keys, ascending
//
// A split takes three steps: each warp scores a page (two keys per lane, all queries); each warp computes the weights, their sum and the correction factor of
// one query and page; each thread accumulates two dimensions of some queries. Pages of values come into shared memory by asynchronous copies that start
// before the scores; pages too large for it are read from global memory. Only the sums of weights cross threads, so splitting changes no bits: whether a
// block takes one split (`partial`) or all of them in turn depends only on how many blocks there are.
#pragma once

#include "cache_read.h"
#include "operations.h"

namespace paceline::cuda {

constexpr int kAttentionThreads = 256, kAttentionWarps = kAttentionThreads / kWarp;
constexpr int kSplitPages = kSplit / kPage;
static_assert(kSplitPages == kAttentionWarps);
constexpr int kMostStages = 5;

// Pages of values in flight, 48 KiB of them or, for few queries, all that shared memory has room for: then little else is in flight. 0 where a page's values do not
// fit into it beside the `rest`: float32 values with a head dimension above 336.
inline int stages_for(size_t value_bytes, size_t rest, bool few) {
  if (value_bytes + rest > kMostShared) return 0;
  const size_t room = few ? kMostShared - rest : 48 << 10;
  const int fit = static_cast<int>(room / value_bytes);
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
  int count;             // of them, at most `most`
  int heads, first_head; // of this block; query i is head first_head + i % heads of token i / heads
  int first_column, first_position;
  float* q;              // [head_size][most]
  float* weights;        // [most][512]: scores, then weights
  float* peaks;          // [most][8]: the largest score of each page, -inf where no key is visible
  float* corrections;    // [most][8]
  float* sums;           // [most][8]: of each page's weights
  float* merged;         // [most][4]: peak and sum of all splits so far, the factors of the last merge

  PACELINE_DEVICE int position(int i) const { return first_position + i / heads; }
  PACELINE_DEVICE int column(int i) const { return first_column + i / heads; }
  PACELINE_DEVICE int head(int i) const { return first_head + i % heads; }
};

// At an address that is a multiple of 8.
PACELINE_DEVICE void store_two(float* to, float low, float high) { *reinterpret_cast<Word2*>(to) = {float_to_bits(low), float_to_bits(high)}; }

// Scores of all queries against a page's 64 keys, by one warp. Loads of the next dimensions are always in flight, `dims` of them.
template <CacheType type, int most, int dims>
PACELINE_DEVICE void score_page(const Queries& queries, const CacheView& cache, const uint8_t* k, int page, int first) {
  using Keys = KeysAhead<type, dims>;
  const int key = 2 * static_cast<int>(lane_index()), whole = cache.head_size / Keys::kDims * Keys::kDims;
  float low[most], high[most];
  PACELINE_UNROLL
  for (int i = 0; i < most; ++i) low[i] = high[i] = 0.0f;
  const auto add = [&](int d, const Two& x) {
    PACELINE_UNROLL
    for (int i = 0; i < most; ++i) {
      const float q = queries.q[d * most + i];
      low[i] = fma(q, x.low, low[i]);
      high[i] = fma(q, x.high, high[i]);
    }
  };
  Keys keys;
  keys.k = k;
  keys.head_size = cache.head_size;
  keys.key = key;
  if (whole > 0) {
    keys.load_scales(0);
    PACELINE_UNROLL
    for (int i = 0; i < Keys::kDims; ++i) keys.load(i, i);
  }
  PACELINE_UNROLL_BY(1)
  for (int d = 0; d < whole; d += Keys::kDims) {
    const bool more = d + Keys::kDims < whole;
    const Two scale = keys.scale();
    if (more) keys.load_scales(d + Keys::kDims);
    PACELINE_UNROLL
    for (int i = 0; i < Keys::kDims; ++i) {
      const Two x = keys.at(i, scale);
      if (more) keys.load(d + Keys::kDims + i, i);
      add(d + i, x);
    }
  }
  for (int d = whole; d < cache.head_size; ++d) add(d, two_keys<type>(k, cache.head_size, d, key));
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
    store_two(queries.weights + i * kSplit + page * kPage + key, a, b);
    float peak = larger(a, b);
    for (int width = kWarp / 2; width > 0; width /= 2) peak = larger(peak, shuffle(peak, static_cast<int>(lane_index()) ^ width));
    if (lane_index() == 0) queries.peaks[i * kSplitPages + page] = peak;
  }
}

// The largest score in a query's pages before `page`, which are few.
PACELINE_DEVICE float peak_before(const Queries& queries, int i, int window, int split_begin, int page) {
  float peak = -__builtin_huge_valf();
  for (int p = 0; p < page; ++p) {
    const Seen seen = seen_of_page(queries.position(i), window, split_begin + p * kPage);
    const float own = queries.peaks[i * kSplitPages + p];
    if (seen.begin < seen.end) peak = peak > own ? peak : own;
  }
  return peak;
}

// Softmax weights, their sum and the correction factor of one query and page, by one warp.
PACELINE_DEVICE void weigh_page(const Queries& queries, int i, int window, int split_begin, int page) {
  const int lane = static_cast<int>(lane_index()), key = 2 * lane;
  const Seen seen = seen_of_page(queries.position(i), window, split_begin + page * kPage);
  if (seen.begin >= seen.end) return;  // uniform across the warp
  const float peak = peak_before(queries, i, window, split_begin, page), page_peak = queries.peaks[i * kSplitPages + page];
  const float next = peak > page_peak ? peak : page_peak;
  float* const weights = queries.weights + i * kSplit + page * kPage + key;
  const Word2 scores = *reinterpret_cast<const Word2*>(weights);
  const float a = key < seen.begin || key >= seen.end ? 0.0f : exponential(bits_to_float(scores.v[0]) - next);
  const float b = key + 1 < seen.begin || key + 1 >= seen.end ? 0.0f : exponential(bits_to_float(scores.v[1]) - next);
  store_two(weights, a, b);
  // Lane l < 8 has virtual lanes 2l and 2l + 1, whose keys 16, 32 and 48 further on are in lanes l + 8, l + 16 and l + 24.
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
  if (lane == 0) {
    queries.sums[i * kSplitPages + page] = even + odd;
    queries.corrections[i * kSplitPages + page] = exponential(peak - next);
  }
}

// Peak and sum of one query's split, by one thread.
struct Softmax {
  float peak, sum;
};
PACELINE_DEVICE Softmax softmax_of_split(const Queries& queries, int i, int window, int split_begin, int pages) {
  Softmax split = {peak_before(queries, i, window, split_begin, pages), 0.0f};
  for (int page = 0; page < pages; ++page) {
    const Seen seen = seen_of_page(queries.position(i), window, split_begin + page * kPage);
    if (seen.begin < seen.end) split.sum = fma(split.sum, queries.corrections[i * kSplitPages + page], queries.sums[i * kSplitPages + page]);
  }
  return split;
}

// Two dimensions of the outputs of `own` queries, first, first + step, ...; add_page applies the correction, then adds the page's visible keys.
template <int own>
struct OwnValues {
  Two split[own], total[own];
};
template <CacheType type, int own>
PACELINE_DEVICE void add_page(const Queries& queries, int first, int step, int window, int page, int page_begin, const uint8_t* v, int stride, int d,
                              OwnValues<own>& values) {
  constexpr int kKeysTogether = own == 1 ? 16 : 8;
  Seen seen[own];
  const float* weights[own];
  int begin = kPage, end = 0, all_begin = 0, all_end = kPage;  // of keys that some query sees, and that all see
  PACELINE_UNROLL
  for (int n = 0; n < own; ++n) {
    const int i = first + n * step;
    weights[n] = queries.weights + (i < queries.count ? i : 0) * kSplit + page * kPage;
    seen[n] = {0, 0};
    if (i >= queries.count) continue;  // its sums are not stored
    const Seen sees = seen_of_page(queries.position(i), window, page_begin);
    if (sees.begin >= sees.end) {
      all_end = 0;
      continue;
    }
    seen[n] = sees;
    begin = sees.begin < begin ? sees.begin : begin;
    end = sees.end > end ? sees.end : end;
    all_begin = sees.begin > all_begin ? sees.begin : all_begin;
    all_end = sees.end < all_end ? sees.end : all_end;
    const float correction = queries.corrections[i * kSplitPages + page];
    values.split[n].low = values.split[n].low * correction;
    values.split[n].high = values.split[n].high * correction;
  }
  const auto add_key = [&](int key) {
    const Two x = two_values<type>(v, stride, key, d);
    PACELINE_UNROLL
    for (int n = 0; n < own; ++n) {
      if (key < seen[n].begin || key >= seen[n].end) continue;
      const float weight = weights[n][key];
      values.split[n].low = fma(weight, x.low, values.split[n].low);
      values.split[n].high = fma(weight, x.high, values.split[n].high);
    }
  };
  int key = begin;
  PACELINE_UNROLL_BY(1)
  for (; key < end && (key % kKeysTogether || key < all_begin); ++key) add_key(key);
  PACELINE_UNROLL_BY(1)
  for (; key + kKeysTogether <= all_end; key += kKeysTogether) {
    Two x[kKeysTogether];
    PACELINE_UNROLL
    for (int j = 0; j < kKeysTogether; ++j) x[j] = two_values<type>(v, stride, key + j, d);
    PACELINE_UNROLL
    for (int n = 0; n < own; ++n) {
      PACELINE_UNROLL
      for (int j = 0; j < kKeysTogether; j += 4) {
        const Word4 four = *reinterpret_cast<const Word4*>(weights[n] + key + j);
        PACELINE_UNROLL
        for (int l = 0; l < 4; ++l) {
          const float weight = bits_to_float(four.v[l]);
          values.split[n].low = fma(weight, x[j + l].low, values.split[n].low);
          values.split[n].high = fma(weight, x[j + l].high, values.split[n].high);
        }
      }
    }
  }
  PACELINE_UNROLL_BY(1)
  for (; key < end; ++key) add_key(key);
}

}  // namespace paceline::cuda
