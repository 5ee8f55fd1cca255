// Attention over pages, one definition for decode and prefill. Order for one query at position p:
//
//   splits of 512 positions, ascending; in a split blocks of 64 keys (a page), ascending, each by the online softmax:
//     score[key]  = fma chain over the head's dimensions, ascending       K is [dim][64 keys]: lanes are keys
//     peak'       = max(peak, max score);  c = e^(peak - peak')
//     sum         = fma(sum, c, fold of the 16 lane sums of e^(score - peak'))
//     o[dim]      = o * c, then fma over keys ascending                   V is [key][dim]: lanes are dims
//   splits merge ascending by the same rule; out = o * (1 / sum).
//
// Keys past p are skipped: what lies there may be anything, NaN too. Queries are worked on a few together only to share
// the loads of K and V; no query's arithmetic depends on another.
#include "operations.h"
#include "simd.h"

namespace paceline::PACELINE_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int kTogether = 4;
#elif defined(__AVX2__)
constexpr int kTogether = 2;
#else
constexpr int kTogether = 1;
#endif

constexpr int kKeyLanes = kPage / kLanes;

struct Softmax {
  float peak = -__builtin_inff();
  float sum = 0.0f;
};

struct Query {
  const float* q;       // [head_size], scaled
  int position;
  Softmax split;        // the running split
  Softmax merged;       // the splits before it
  float* weights;       // [64] scores, then e^(score - peak)
  float* value;         // [value_stride] of the running split
  float* total;         // [value_stride] of the splits before it
  int visible = 0;      // keys of this block that it may see
  float correction = 1.0f;
};

// scores of n queries against 64 keys: k [head_size][64]
template <int n>
void scores(const uint16_t* k, int head_size, Query* queries) {
  Lanes s[n][kKeyLanes];
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < kKeyLanes; ++j) s[i][j] = zero();
  for (int d = 0; d < head_size; ++d) {
    Lanes keys[kKeyLanes];
    for (int j = 0; j < kKeyLanes; ++j) keys[j] = load_half(k + d * kPage + kLanes * j);
    for (int i = 0; i < n; ++i) {
      const Lanes q = broadcast(queries[i].q[d]);
      for (int j = 0; j < kKeyLanes; ++j) s[i][j] = fma(q, keys[j], s[i][j]);
    }
  }
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < kKeyLanes; ++j) store(queries[i].weights + kLanes * j, s[i][j]);
}

void weigh_scores(Query& query) {
  const Lanes lowest = broadcast(-__builtin_inff());
  Lanes s[kKeyLanes];
  for (int j = 0; j < kKeyLanes; ++j) s[j] = keep(load(query.weights + kLanes * j), query.visible - kLanes * j, lowest);
  const float block_peak = fold_larger(larger(larger(s[0], s[1]), larger(s[2], s[3])));
  const float peak = query.split.peak > block_peak ? query.split.peak : block_peak;
  Lanes sum = zero();
  for (int j = 0; j < kKeyLanes; ++j) {
    const Lanes w = keep(exponential(s[j] - broadcast(peak)), query.visible - kLanes * j, zero());
    store(query.weights + kLanes * j, w);
    sum = sum + w;
  }
  query.correction = exponential(query.split.peak - peak);
  query.split.sum = __builtin_fmaf(query.split.sum, query.correction, fold_sum(sum));
  query.split.peak = peak;
}

// n queries, `wide` lanes of dims from `d`: v [64][stride]
template <int n, int wide>
void add_values(const uint16_t* v, int stride, int d, int shared, Query* queries) {
  Lanes o[n][wide];
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < wide; ++j) o[i][j] = load(queries[i].value + d + kLanes * j) * broadcast(queries[i].correction);
  for (int key = 0; key < shared; ++key) {
    Lanes values[wide];
    for (int j = 0; j < wide; ++j) values[j] = load_half(v + key * stride + d + kLanes * j);
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < wide; ++j) o[i][j] = fma(broadcast(queries[i].weights[key]), values[j], o[i][j]);
  }
  for (int i = 0; i < n; ++i) {
    for (int key = shared; key < queries[i].visible; ++key)
      for (int j = 0; j < wide; ++j)
        o[i][j] = fma(broadcast(queries[i].weights[key]), load_half(v + key * stride + d + kLanes * j), o[i][j]);
    for (int j = 0; j < wide; ++j) store(queries[i].value + d + kLanes * j, o[i][j]);
  }
}

void merge_split(Query& query, int value_stride) {
  const float peak = query.merged.peak > query.split.peak ? query.merged.peak : query.split.peak;
  const float before = exponential(query.merged.peak - peak), after = exponential(query.split.peak - peak);
  query.merged.sum = __builtin_fmaf(query.merged.sum, before, query.split.sum * after);
  query.merged.peak = peak;
  for (int d = 0; d < value_stride; d += kLanes)
    store(query.total + d, fma(load(query.total + d), broadcast(before), load(query.value + d) * broadcast(after)));
}

template <int n>
void attend_together(const CacheView& cache, const int32_t* table, Query* queries) {
  int last = 0;
  for (int i = 0; i < n; ++i) last = queries[i].position > last ? queries[i].position : last;
  for (int begin = 0; begin <= last; begin += kSplit) {
    for (int i = 0; i < n; ++i) {
      queries[i].split = Softmax();
      for (int d = 0; d < cache.value_stride; d += kLanes) store(queries[i].value + d, zero());
    }
    const int end = begin + kSplit - 1 < last ? begin + kSplit - 1 : last;
    for (int first = begin; first <= end; first += kPage) {
      const uint8_t* page = cache.pool + static_cast<size_t>(table[first / kPage]) * cache.page_stride;
      scores<n>(reinterpret_cast<const uint16_t*>(page + cache.key_offset), cache.head_size, queries);
      int shared = kPage;
      for (int i = 0; i < n; ++i) {
        const int visible = queries[i].position - first + 1;
        queries[i].visible = visible < 0 ? 0 : visible > kPage ? kPage : visible;
        queries[i].correction = 1.0f;
        if (queries[i].visible > 0) weigh_scores(queries[i]);
        shared = queries[i].visible < shared ? queries[i].visible : shared;
      }
      const uint16_t* v = reinterpret_cast<const uint16_t*>(page + cache.value_offset);
      int d = 0;
      for (; d + 2 * kLanes <= cache.value_stride; d += 2 * kLanes) add_values<n, 2>(v, cache.value_stride, d, shared, queries);
      for (; d < cache.value_stride; d += kLanes) add_values<n, 1>(v, cache.value_stride, d, shared, queries);
    }
    for (int i = 0; i < n; ++i)
      if (queries[i].position >= begin) merge_split(queries[i], cache.value_stride);
  }
}

template <int n = kTogether>
void attend_some(int count, const CacheView& cache, const int32_t* table, Query* queries) {
  if (count == n) return attend_together<n>(cache, table, queries);
  if constexpr (n > 1) attend_some<n - 1>(count, cache, table, queries);
}

}  // namespace

void attend(const CacheView& cache, const int32_t* table, int count, const float* const* q, const int* positions, float* const* out,
            float* scratch) {
  for (int first = 0; first < count; first += kTogether) {
    const int together = count - first < kTogether ? count - first : kTogether;
    Query queries[kTogether];
    for (int i = 0; i < together; ++i) {
      float* own = scratch + attention_scratch(cache.value_stride) * i;
      queries[i].q = q[first + i];
      queries[i].position = positions[first + i];
      queries[i].weights = own;
      queries[i].value = own + kPage;
      queries[i].total = own + kPage + cache.value_stride;
      for (int d = 0; d < cache.value_stride; d += kLanes) store(queries[i].total + d, zero());
    }
    attend_some(together, cache, table, queries);
    for (int i = 0; i < together; ++i) {
      const Lanes inverse = broadcast(1.0f / queries[i].merged.sum);
      for (int d = 0; d < cache.head_size; d += kLanes) {
        float o[kLanes];
        store(o, load(queries[i].total + d) * inverse);
        const int valid = cache.head_size - d < kLanes ? cache.head_size - d : kLanes;
        std::memcpy(out[first + i] + d, o, sizeof(float) * valid);
      }
    }
  }
}

void write_cache(const CacheView& cache, int page, int position, const float* k, const float* v) {
  uint8_t* base = cache.pool + static_cast<size_t>(page) * cache.page_stride;
  uint16_t* keys = reinterpret_cast<uint16_t*>(base + cache.key_offset);
  uint16_t* values = reinterpret_cast<uint16_t*>(base + cache.value_offset);
  const int key = position % kPage;
  for (int d = 0; d < cache.head_size; d += kLanes) {
    uint16_t halves[kLanes];
    store_half(halves, keep(load(k + d), cache.head_size - d, zero()));
    for (int i = 0; i < kLanes && d + i < cache.head_size; ++i) keys[static_cast<size_t>(d + i) * kPage + key] = halves[i];
    store_half(values + static_cast<size_t>(key) * cache.value_stride + d, keep(load(v + d), cache.head_size - d, zero()));
  }
}

}  // namespace paceline::PACELINE_ISA
