// Attention over pages, one definition for decode and prefill. Order for one query at position p:
//
//   a page of 64 keys, by itself:
//     score[key]  = fma chain over the head's dimensions, ascending       K is [dim][64 keys]: lanes are keys
//     peak        = max score
//     sum         = fold of the 16 lane sums of weight[key] = e^(score - peak)
//     o[dim]      = fma chain of weight * value over keys, ascending      V is [key][dim]: lanes are dims
//   pages merge ascending to splits of 512 positions, and splits ascending, both by the rule of the online softmax:
//     peak'       = max(peak, peak of the next);  c = e^(peak - peak');  n = e^(peak of the next - peak')
//     sum         = fma(sum, c, sum of the next * n), and o likewise
//   out = o * (1 / sum).
//
// Pages wait for nothing of each other, so that a GPU can give each to a warp of its own.
//
// With a softcap the score is softcap * tanh(score / softcap); with a window the query sees its last `window` keys only.
// Keys that it doesn't see are skipped, never multiplied: what lies there may be anything, NaN too. Splits stay where they
// are, and a page or split of which it sees nothing leaves its state as it was. Queries are worked on a few together only
// to share the loads of K and V; no query's arithmetic depends on another.
#include <algorithm>
#include <climits>

#include "cache_load.h"
#include "operations.h"
#include "simd.h"

namespace paceline::PACELINE_ISA {
namespace {

// As many queries together, and lanes of keys or dimensions at once, as the registers hold accumulators for. What is loaded becomes float32 once for all queries of a
// call, which takes as long as two products do: so rather many queries than many lanes.
#if defined(__AVX512F__)
constexpr int kTogether = 14, kFew = 6, kWide = 4;
#elif defined(__AVX2__) || PACELINE_NEON
constexpr int kTogether = 6, kFew = 3, kWide = 2;
#else
constexpr int kTogether = 1, kFew = 1, kWide = 4;
#endif
constexpr int wide_of(int queries) { return queries > kFew ? kWide / 2 : kWide; }

constexpr int kKeyLanes = kPage / kLanes;

// Calls f<type>().
template <class Function>
void of_type(CacheType type, Function f) {
  switch (type) {
    case CacheType::F32: return f.template operator()<CacheType::F32>();
    case CacheType::F16: return f.template operator()<CacheType::F16>();
    case CacheType::BF16: return f.template operator()<CacheType::BF16>();
    case CacheType::Q8_0: return f.template operator()<CacheType::Q8_0>();
    case CacheType::Q4_0: return f.template operator()<CacheType::Q4_0>();
  }
}

// Up to so many queries of several tokens prefetch the next page. Queries of one token are bound by memory; those of a prompt meet pages that others have just
// read, and prefetching made their attention two thirds slower.
constexpr int kPrefetching = 4;

struct Softmax {
  float peak = -__builtin_inff();
  float sum = 0.0f;
};

// The factors of what is merged so far and of what comes next.
struct Merge {
  float before, after;
};

// Of some softmaxes at once, each with its next.
template <int n>
class Merging {
 public:
  void add(const Softmax& all, const Softmax& next) {
    const float peak = larger_of(all, next);
    below_[count_++] = all.peak - peak;
    below_[count_++] = next.peak - peak;
  }
  void compute() {
    for (int i = 0; i < 2 * n; i += kLanes) store(below_ + i, exponential(load(below_ + i)));
  }
  // In the order of add().
  Merge merge(Softmax& all, const Softmax& next) {
    const Merge factors = {below_[taken_], below_[taken_ + 1]};
    taken_ += 2;
    all.sum = __builtin_fmaf(all.sum, factors.before, next.sum * factors.after);
    all.peak = larger_of(all, next);
    return factors;
  }

 private:
  static float larger_of(const Softmax& all, const Softmax& next) { return all.peak > next.peak ? all.peak : next.peak; }
  alignas(64) float below_[(2 * n + kLanes - 1) / kLanes * kLanes] = {};
  int count_ = 0, taken_ = 0;
};

// sums [size] of what is merged so far; next likewise
void merge_sums(float* sums, const float* next, int size, const Merge& factors) {
  const Lanes before = broadcast(factors.before), after = broadcast(factors.after);
  for (int d = 0; d < size; d += kLanes) store(sums + d, fma(load(sums + d), before, load(next + d) * after));
}

struct Query {
  const float* packed;  // [head_size][n] of the n queries of its call, scaled, if it is the first of them
  int position;
  Softmax split;        // the running split
  Softmax merged;       // the splits before it
  Softmax page;         // the page that is added
  Merge factors;        // of the split and of this page
  float* weights;       // [64] scores, then e^(score - peak); those of the next query follow
  float* page_value;    // [value_stride] of a page that not all queries see whole
  float* value;         // [value_stride] of the running split, scratch or what is kept of it
  float* total;         // [value_stride] of the splits before it
  int lowest;           // first position that it sees
  int begin = 0, end = 0;  // keys of this block that it sees; begin == end: none

  void look_at(int first) {  // the block that begins at position `first`
    begin = std::max(lowest - first, 0);
    end = std::min(position - first + 1, kPage);
    if (begin >= end) begin = end = kPage;
  }
};

// Scores of n queries, packed [head_size][n], against 64 keys: k [head_size][64].
template <int n, CacheType type>
void scores(const uint8_t* k, const uint8_t* ahead, int head_size, Query* queries) {
  const float* const packed = queries[0].packed;
  constexpr int wide = wide_of(n);
  for (int first = 0; first < kKeyLanes; first += wide) {
    Lanes s[n][wide];
    PACELINE_UNROLL
    for (int i = 0; i < n; ++i)
      PACELINE_UNROLL
      for (int j = 0; j < wide; ++j) s[i][j] = zero();
    for (int block = 0; block < head_size; block += kCacheBlock) {
      const KeyBlock<type, wide> keys(k, ahead, head_size, block, kLanes * first);
      const int end = std::min(block + kCacheBlock, head_size);
      for (int d = block; d < end; ++d) {
        keys.fetch_dimension(d);
        Lanes x[wide];
        PACELINE_UNROLL
        for (int j = 0; j < wide; ++j) x[j] = keys.load(d, j);
        PACELINE_UNROLL
        for (int i = 0; i < n; ++i) {
          const Lanes q = broadcast(packed[d * n + i]);
          PACELINE_UNROLL
          for (int j = 0; j < wide; ++j) s[i][j] = fma(q, x[j], s[i][j]);
        }
      }
    }
    PACELINE_UNROLL
    for (int i = 0; i < n; ++i)
      PACELINE_UNROLL
      for (int j = 0; j < wide; ++j) store(queries[0].weights + kPage * i + kLanes * (first + j), s[i][j]);
  }
}

// Lanes of keys [begin, end) of a, the others replaced by `other`; a holds keys 16j .. 16j+15.
Lanes keep_seen(Lanes a, const Query& query, int j, Lanes other) {
  const Lanes seen = keep(a, query.end - kLanes * j, other);
  return query.begin > 0 ? keep(other, query.begin - kLanes * j, seen) : seen;
}

void weigh_scores(Query& query, const CacheView& cache) {
  const Lanes lowest = broadcast(-__builtin_inff());
  const bool whole = query.begin == 0 && query.end == kPage;
  Lanes s[kKeyLanes];
  PACELINE_UNROLL
  for (int j = 0; j < kKeyLanes; ++j) {
    s[j] = load(query.weights + kLanes * j);
    if (cache.softcap != 0.0f) s[j] = broadcast(cache.softcap) * hyperbolic_tangent(s[j] / broadcast(cache.softcap));
    if (!whole) s[j] = keep_seen(s[j], query, j, lowest);
  }
  const float peak = fold_larger(larger(larger(s[0], s[1]), larger(s[2], s[3])));
  Lanes sum = zero();
  PACELINE_UNROLL
  for (int j = 0; j < kKeyLanes; ++j) {
    const Lanes e = exponential(s[j] - broadcast(peak)), w = whole ? e : keep_seen(e, query, j, zero());
    store(query.weights + kLanes * j, w);
    sum = sum + w;
  }
  query.page = {peak, fold_sum(sum)};
}

// n queries, keys [begin, end), `wide` lanes of dims from `d`: v [64][stride]. whole: they are all keys of the page, whose sums go straight to those of
// the split.
template <int n, bool whole, CacheType type, int wide>
void add_columns(const uint8_t* v, const uint8_t* ahead, int stride, int d, int begin, int end, Query* queries) {
  const ValueColumns<type, wide> values(v, ahead, stride, d);
  Lanes o[n][wide];
  const float* const weights = queries[0].weights;
  PACELINE_UNROLL
  for (int i = 0; i < n; ++i)
    PACELINE_UNROLL
    for (int j = 0; j < wide; ++j) o[i][j] = whole ? zero() : load(queries[i].page_value + d + kLanes * j);
  for (int key = begin; key < end; ++key) {
    values.fetch_key(key);
    Lanes x[wide];
    PACELINE_UNROLL
    for (int j = 0; j < wide; ++j) x[j] = values.load(key, j);
    PACELINE_UNROLL
    for (int i = 0; i < n; ++i) {
      const Lanes weight = broadcast(weights[kPage * i + key]);
      PACELINE_UNROLL
      for (int j = 0; j < wide; ++j) o[i][j] = fma(weight, x[j], o[i][j]);
    }
  }
  PACELINE_UNROLL
  for (int i = 0; i < n; ++i)
    PACELINE_UNROLL
    for (int j = 0; j < wide; ++j) {
      const int at = d + kLanes * j;
      if constexpr (whole) store(queries[i].value + at, fma(load(queries[i].value + at), broadcast(queries[i].factors.before), o[i][j] * broadcast(queries[i].factors.after)));
      else store(queries[i].page_value + at, o[i][j]);
    }
}

template <int n, bool whole, CacheType type, int wide = wide_of(n)>
void add_values(const uint8_t* v, const uint8_t* ahead, int stride, int d, int begin, int end, Query* queries) {
  if (begin >= end) return;
  for (; d + wide * kLanes <= stride; d += wide * kLanes) add_columns<n, whole, type, wide>(v, ahead, stride, d, begin, end, queries);
  if constexpr (wide > 1)
    if (d < stride) add_values<n, whole, type, wide / 2>(v, ahead, stride, d, begin, end, queries);
}

// Each query's keys ascending: its own before those that all of them see, these, its own after.
template <int n, CacheType type>
void add_page(const uint8_t* v, const uint8_t* ahead, int stride, Query* queries) {
  int begin = 0, end = kPage;
  for (int i = 0; i < n; ++i) {
    begin = std::max(begin, queries[i].begin);
    end = std::min(end, queries[i].end);
  }
  if (begin == 0 && end == kPage) return add_values<n, true, type>(v, ahead, stride, 0, begin, end, queries);
  if (begin >= end) begin = end = kPage;
  for (int i = 0; i < n; ++i)
    for (int d = 0; d < stride; d += kLanes) store(queries[i].page_value + d, zero());
  for (int i = 0; i < n; ++i) add_values<1, false, type>(v, ahead, stride, 0, queries[i].begin, std::min(begin, queries[i].end), queries + i);
  add_values<n, false, type>(v, ahead, stride, 0, begin, end, queries);
  for (int i = 0; i < n; ++i) add_values<1, false, type>(v, ahead, stride, 0, std::max(end, queries[i].begin), queries[i].end, queries + i);
  for (int i = 0; i < n; ++i)
    if (queries[i].begin < queries[i].end) merge_sums(queries[i].value, queries[i].page_value, stride, queries[i].factors);
}

void merge_split(Query& query, int value_stride) {
  Merging<1> merging;
  merging.add(query.merged, query.split);
  merging.compute();
  merge_sums(query.total, query.value, value_stride, merging.merge(query.merged, query.split));
}

// The page of keys from position `first` on, for n queries; next: the page that is prefetched meanwhile, or null.
template <int n>
void add_keys(const CacheView& cache, int first, const uint8_t* keys, const uint8_t* next, Query* queries) {
  bool seen = false;
  for (int i = 0; i < n; ++i) {
    queries[i].look_at(first);
    seen = seen || queries[i].begin < queries[i].end;
  }
  if (!seen) return;
  of_type(cache.key_type, [&]<CacheType type>() {
    if (next) fetch_scales<type>(next, static_cast<size_t>(kPage) * cache.head_size);
    scores<n, type>(keys, next ? next : keys + code_bytes(type, kRowsAhead * kPage), cache.head_size, queries);
  });
  Merging<n> merging;
  for (int i = 0; i < n; ++i) {
    if (queries[i].begin >= queries[i].end) continue;
    weigh_scores(queries[i], cache);
    merging.add(queries[i].split, queries[i].page);
  }
  merging.compute();
  for (int i = 0; i < n; ++i)
    if (queries[i].begin < queries[i].end) queries[i].factors = merging.merge(queries[i].split, queries[i].page);
  const size_t to_values = cache.value_offset - cache.key_offset;
  const uint8_t* const values = keys + to_values;
  of_type(cache.value_type, [&]<CacheType type>() {
    if (next) fetch_scales<type>(next + to_values, static_cast<size_t>(kPage) * cache.value_stride);
    add_page<n, type>(values, next ? next + to_values : values + code_bytes(type, static_cast<size_t>(kRowsAhead) * cache.value_stride), cache.value_stride, queries);
  });
}

template <int n = kTogether>
void add_keys(int count, const CacheView& cache, int first, const uint8_t* keys, const uint8_t* next, Query* queries) {
  if (count == n) return add_keys<n>(cache, first, keys, next, queries);
  if constexpr (n > 1) add_keys<n - 1>(count, cache, first, keys, next, queries);
}

// Number i of those that share the scratch. The sink comes first, before all splits.
Query query_at(const CacheView& cache, int i, int position, float sink, float* scratch) {
  Query query;
  if (sink != kNoSink) query.merged = {sink, 1.0f};
  query.position = position;
  query.lowest = cache.window > 0 ? std::max(position - cache.window + 1, 0) : 0;
  query.weights = scratch + kPage * i;
  query.page_value = scratch + kPage * kQueryTile + 3 * static_cast<size_t>(cache.value_stride) * i;
  query.value = query.page_value + cache.value_stride;
  query.total = query.value + cache.value_stride;
  for (int d = 0; d < cache.value_stride; d += kLanes) store(query.total + d, zero());
  return query;
}

// out [size] of a query whose splits are merged
void finish(const Query& query, int size, float* out) {
  const Lanes inverse = broadcast(1.0f / query.merged.sum);
  for (int d = 0; d < size; d += kLanes) {
    const Lanes o = load(query.total + d) * inverse;
    if (d + kLanes <= size) {
      store(out + d, o);
      continue;
    }
    store(query.total + d, o);
    std::memcpy(out + d, query.total + d, sizeof(float) * (size - d));
  }
}

}  // namespace

void attend(const CacheView& cache, const int32_t* table, int count, const float* const* q, const int* positions, const float* sinks,
            float* const* out, const SplitPart* part, const uint8_t* then, float* scratch) {
  Query queries[kQueryTile];
  int lowest = INT_MAX, last = 0, earliest = INT_MAX;
  for (int i = 0; i < count; ++i) {
    queries[i] = query_at(cache, i, positions[i], sinks[i], scratch);
    lowest = std::min(lowest, queries[i].lowest);
    earliest = std::min(earliest, positions[i]);
    last = std::max(last, positions[i]);
  }
  const int calls = (count + kTogether - 1) / kTogether;
  const auto share = [&](int call) { return count * call / calls; };
  float* packed = scratch + (kPage + 3 * static_cast<size_t>(cache.value_stride)) * kQueryTile;
  for (int call = 0; call < calls; ++call) {
    const int begin = share(call), together = share(call + 1) - begin;
    queries[begin].packed = packed;
    for (int i = 0; i < together; ++i)
      for (int d = 0; d < cache.head_size; ++d) packed[d * together + i] = q[begin + i][d];
    packed += cache.head_size * together;
  }
  const bool prompt = earliest < last && count > kPrefetching;
  const int first_split = part ? std::max(lowest / kSplit, part->begin) : lowest / kSplit;
  if (part) last = std::min(last, part->end * kSplit - 1);
  const auto keys_of = [&](int position) { return cache.pool + static_cast<size_t>(table[position / kPage]) * cache.page_stride + cache.key_offset; };
  for (int begin = first_split * kSplit; begin <= last; begin += kSplit) {
    for (int i = 0; i < count; ++i) {
      queries[i].split = Softmax();
      if (part) queries[i].value = part->states[i] + begin / kSplit * split_state(cache.value_stride);
      for (int d = 0; d < cache.value_stride; d += kLanes) store(queries[i].value + d, zero());
    }
    const int end = std::min(begin + kSplit - 1, last);
    for (int first = std::max(begin, lowest / kPage * kPage); first <= end; first += kPage) {
      const uint8_t* keys = keys_of(first);
      const uint8_t* next = first + kPage <= last ? keys_of(first + kPage) : then;
      for (int call = 0; call < calls; ++call) {  // even shares; the first brings the page into the cache, for all
        add_keys(share(call + 1) - share(call), cache, first, keys, call == 0 && !prompt ? next : nullptr, queries + share(call));
      }
    }
    for (int i = 0; i < count; ++i) {
      Query& query = queries[i];
      if (query.position < begin || query.lowest >= begin + kSplit) continue;
      if (part) {
        query.value[cache.value_stride] = query.split.peak;
        query.value[cache.value_stride + 1] = query.split.sum;
      } else {
        merge_split(query, cache.value_stride);
      }
    }
  }
  for (int i = 0; !part && i < count; ++i) finish(queries[i], cache.value_size, out[i]);
}

void merge_splits(const CacheView& cache, int position, float sink, const float* states, float* out, float* scratch) {
  Query query = query_at(cache, 0, position, sink, scratch);
  for (int split = query.lowest / kSplit; split <= position / kSplit; ++split) {
    const float* state = states + split * split_state(cache.value_stride);
    std::memcpy(query.value, state, sizeof(float) * cache.value_stride);
    query.split = {state[cache.value_stride], state[cache.value_stride + 1]};
    merge_split(query, cache.value_stride);
  }
  finish(query, cache.value_size, out);
}

}  // namespace paceline::PACELINE_ISA
