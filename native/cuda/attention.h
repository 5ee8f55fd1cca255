// Paged attention. The order for one query is the CPU's (native/cpu/attention.cpp):
//
//   in a page of 64 keys  score[key] = fma over the head's dimensions, ascending; weights by the page's own largest score, their sum over 16 virtual lanes (key mod
//                         16), folded 8-4-2-1; value[dim] = fma over the page's keys, ascending
//   pages merge ascending to splits of 512 positions, and splits ascending
//
// A warp computes the scores and weights of a page, two keys per lane. For rows of one token it also adds up the page's values, and waits for the others only to merge
// (attention_token.cu). For longer ones, a prefill's, a thread block has up to 16 queries that share a KV head, and its threads add up the values of one page after
// the other, which come through shared memory (attention.cu). Whether a block takes one split (`partial`) or all of them in turn depends only on how many blocks
// there are.
#pragma once

#include "cache_read.h"
#include "operations.h"

namespace paceline::cuda {

constexpr int kAttentionThreads = 256, kAttentionWarps = kAttentionThreads / kWarp;
constexpr int kSplitPages = kSplit / kPage;
static_assert(kSplitPages == kAttentionWarps);
// Keys [begin, end) of a page that a query sees; none: begin >= end.
struct Seen {
  int begin, end;
};
PACELINE_DEVICE Seen seen_of_page(int position, int window, int first) {
  const int lowest = window > 0 && position - window + 1 > 0 ? position - window + 1 : 0;
  const int begin = lowest - first, end = position - first + 1;
  return {begin > 0 ? begin : 0, end < kPage ? end : kPage};
}

// With so few blocks memory would not be busy: they prefetch their pages while the previous kernel runs. Into L2 only, as that may still write to them.
constexpr int kFewBlocks = 256;
PACELINE_DEVICE bool are_few(const Attention& a, int items) { return items * a.kv_heads * a.splits <= kFewBlocks; }

// Prefetches a page's keys and values, by one warp.
PACELINE_DEVICE void fetch_page(const CacheView& cache, const uint8_t* page) {
  constexpr size_t kLine = 128;  // of the L2 cache
  const size_t key_bytes = cache_bytes(cache.key_type, static_cast<size_t>(kPage) * cache.head_size);
  const size_t value_bytes = cache_bytes(cache.value_type, static_cast<size_t>(kPage) * cache.value_stride);
  PACELINE_UNROLL_BY(1)
  for (size_t i = lane_index() * kLine; i < key_bytes; i += kWarp * kLine) fetch_ahead(page + cache.key_offset + i);
  PACELINE_UNROLL_BY(1)
  for (size_t i = lane_index() * kLine; i < value_bytes; i += kWarp * kLine) fetch_ahead(page + cache.value_offset + i);
}

// At an address that is a multiple of 8.
PACELINE_DEVICE void store_two(float* to, float low, float high) { *reinterpret_cast<Word2*>(to) = {float_to_bits(low), float_to_bits(high)}; }

// Calls use.operator()<type>(). halves: it is F16, as usual. A kernel for that has no code for other types: a step runs too many kernels for its instructions to stay
// in a cache, and each jump over those of other types costs a wait.
template <bool halves, class Use>
PACELINE_DEVICE void with_type(CacheType type, Use use) {
  if constexpr (halves) return use.template operator()<CacheType::F16>();
  switch (type) {
    case CacheType::F32: return use.template operator()<CacheType::F32>();
    case CacheType::F16: return use.template operator()<CacheType::F16>();
    case CacheType::BF16: return use.template operator()<CacheType::BF16>();
    case CacheType::Q8_0: return use.template operator()<CacheType::Q8_0>();
    case CacheType::Q4_0: return use.template operator()<CacheType::Q4_0>();
  }
}

// Scores of `most` queries against a page's 64 keys, two keys to each lane of a warp. `dims` dimensions of them are always on their way, from begin() on.
template <CacheType type, int most, int dims>
class PageScores {
 public:
  PACELINE_DEVICE void begin(const uint8_t* k, int head_size) {
    keys_.k = k;
    keys_.head_size = head_size;
    keys_.key = 2 * static_cast<int>(lane_index());
    if (head_size < Keys::kDims) return;
    keys_.load_scales(0);
    PACELINE_UNROLL
    for (int i = 0; i < Keys::kDims; ++i) keys_.load(i, i);
  }
  // q [head_size][most]
  PACELINE_DEVICE void add(const float* q, float (&low)[most], float (&high)[most]) {
    const int size = keys_.head_size, whole = size / Keys::kDims * Keys::kDims;
    PACELINE_UNROLL
    for (int i = 0; i < most; ++i) low[i] = high[i] = 0.0f;
    const auto add = [&](int d, const Two& x) {
      PACELINE_UNROLL
      for (int i = 0; i < most; ++i) {
        low[i] = fma(q[d * most + i], x.low, low[i]);
        high[i] = fma(q[d * most + i], x.high, high[i]);
      }
    };
    PACELINE_UNROLL_BY(1)
    for (int d = 0; d < whole; d += Keys::kDims) {
      const bool more = d + Keys::kDims < whole;
      const Two scale = keys_.scale();
      if (more) keys_.load_scales(d + Keys::kDims);
      PACELINE_UNROLL
      for (int i = 0; i < Keys::kDims; ++i) {
        const Two x = keys_.at(i, scale);
        if (more) keys_.load(d + Keys::kDims + i, i);
        add(d + i, x);
      }
    }
    PACELINE_UNROLL_BY(1)
    for (int d = whole; d < size; ++d) add(d, two_keys<type>(keys_.k, size, d, keys_.key));
  }

 private:
  using Keys = KeysAhead<type, dims>;
  Keys keys_;
};

// How many dimensions of keys are loaded ahead: more would force other values out of registers.
template <CacheType type>
constexpr int kKeyDims = type == CacheType::F32 ? 8 : 16;

struct Softmax {
  float peak, sum;  // of weights e^(score - peak)
};

// A lane's two scores in a page become weights, 0 where the query sees no key -> the page's peak, and in lane 0 the sum of its weights. By all lanes of a warp.
PACELINE_DEVICE Softmax weigh_page(const CacheView& cache, const Seen& seen, float& low, float& high) {
  const int lane = static_cast<int>(lane_index()), key = 2 * lane;
  const bool sees_low = key >= seen.begin && key < seen.end, sees_high = key + 1 >= seen.begin && key + 1 < seen.end;
  float a = low, b = high;
  if (cache.softcap != 0.0f) {
    a = cache.softcap * hyperbolic_tangent(a / cache.softcap);
    b = cache.softcap * hyperbolic_tangent(b / cache.softcap);
  }
  const float lowest = -__builtin_huge_valf();
  float peak = larger(sees_low ? a : lowest, sees_high ? b : lowest);
  for (int width = kWarp / 2; width > 0; width /= 2) peak = larger(peak, shuffle(peak, lane ^ width));
  peak = shuffle(peak, 0);  // with a NaN among them lanes may differ
  low = sees_low ? exponential(a - peak) : 0.0f;
  high = sees_high ? exponential(b - peak) : 0.0f;
  // Lane l < 8 has virtual lanes 2l and 2l + 1, whose keys 16, 32 and 48 further on are in lanes l + 8, l + 16 and l + 24.
  float even = 0.0f + low, odd = 0.0f + high;
  for (int j = 1; j < 4; ++j) {
    const int other = lane % 8 + 8 * j;
    even = even + shuffle(low, other);
    odd = odd + shuffle(high, other);
  }
  for (int width = 4; width > 0; width /= 2) {
    even = even + shuffle(even, lane + width);
    odd = odd + shuffle(odd, lane + width);
  }
  return {peak, even + odd};
}

// The factors of what is merged so far and of what comes next.
struct Merge {
  float before, after;
};
PACELINE_DEVICE Merge merge(Softmax& all, const Softmax& next) {
  const float peak = all.peak > next.peak ? all.peak : next.peak;
  const Merge factors = {exponential(all.peak - peak), exponential(next.peak - peak)};
  all.sum = fma(all.sum, factors.before, next.sum * factors.after);
  all.peak = peak;
  return factors;
}
PACELINE_DEVICE float merged(float all, float next, const Merge& factors) { return fma(all, factors.before, next * factors.after); }

// Of a query's page of a split, in shared memory, where it and the next of its query's pages are `stride` apart.
struct PageSoftmax {
  Softmax softmax;  // of a page of which it sees no key {-inf, 0}
  Merge factors;
};
// The factors of page `page`, merged behind pages `first` and on.
PACELINE_DEVICE void find_factors(PageSoftmax* pages, int stride, int first, int page) {
  float before = -__builtin_huge_valf();
  for (int p = first; p < page; ++p) {
    const float own = pages[p * stride].softmax.peak;
    before = before > own ? before : own;
  }
  const float own = pages[page * stride].softmax.peak, peak = before > own ? before : own;
  pages[page * stride].factors = {exponential(before - peak), exponential(own - peak)};
}
// Behind find_factors() of all pages first .. last.
PACELINE_DEVICE Softmax merge_pages(const PageSoftmax* pages, int stride, int first, int last) {
  Softmax split = {-__builtin_huge_valf(), 0.0f};
  for (int page = first; page <= last; ++page) {
    const PageSoftmax own = pages[page * stride];
    if (own.softmax.sum == 0.0f) continue;  // it sees none of its keys: a weight is never 0
    split.peak = split.peak > own.softmax.peak ? split.peak : own.softmax.peak;
    split.sum = merged(split.sum, own.softmax.sum, own.factors);
  }
  return split;
}

// Gates dimension d of a head's output and stores it as an activation; a warp does so for the block of 32 that d is in.
PACELINE_DEVICE void join_block(const Attention& a, int column, int head, int d, float y) {
  if (a.padded) return store_block(a.joined, head * a.padded + column, d / kBlock, y);
  const int input = head * a.cache.head_size + d;
  if (a.gates) y = y * sigmoid(a.gates[static_cast<size_t>(column) * a.heads * a.cache.head_size + input]);
  if (a.head_gates.logits) y = y * gate_of_head(a.head_gates, column, head);
  store_block(a.joined, column, input / kBlock, y);
}

// Where a head's partial result for a split is stored.
PACELINE_DEVICE float* part_of(const Attention& a, int column, int head, int split) {
  return a.partial + ((static_cast<size_t>(column) * a.heads + head) * a.splits + split) * (a.cache.value_stride + 2);
}

// attention_token.cu: rows of one token, where fits_token()
void attend_tokens(const Attention& a, const StepInput& input, int most_columns, Stream stream);

}  // namespace paceline::cuda
