// Attention of rows of several tokens, a prefill's or drafts, and of heads too large for attention_token.cu; merging of splits. Each warp scores and weighs a page; then
// each thread adds up two dimensions of some queries, page by page. Pages of values come into shared memory by asynchronous copies that start before the scores; pages
// too large for it are read from global memory.
#include "attention.h"

namespace paceline::cuda {
namespace {

constexpr int kMostStages = 5;

// Pages of values in flight, 48 KiB of them or, for few queries, all that shared memory has room for: then little else is in flight. 0 where a page's values do not
// fit into it beside the `rest`: float32 values with a head dimension above 336.
inline int stages_for(size_t value_bytes, size_t rest, bool few) {
  if (value_bytes + rest > kMostShared) return 0;
  const size_t room = few ? kMostShared - rest : 48 << 10;
  const int fit = static_cast<int>(room / value_bytes);
  return fit < 1 ? 1 : fit > kMostStages ? kMostStages : fit;
}

// One block's queries and its shared memory.
struct Queries {
  int count;             // of them, at most `most`
  int heads, first_head; // of this block; query i is head first_head + i % heads of token i / heads
  int first_column, first_position;
  float* q;              // [head_size][most]
  float* weights;        // [most][512]
  PageSoftmax* pages;    // [most][8]
  float* merged;         // [most][4]: peak and sum of all splits so far, the factors of the last merge

  PACELINE_DEVICE int position(int i) const { return first_position + i / heads; }
  PACELINE_DEVICE int column(int i) const { return first_column + i / heads; }
  PACELINE_DEVICE int head(int i) const { return first_head + i % heads; }
};

// Two dimensions of the outputs of `own` queries, first, first + step, ...
template <int own>
struct OwnValues {
  Two split[own], total[own];
};
// Adds up a page's visible keys, and merges the sums with those of the split.
template <CacheType type, int own>
PACELINE_DEVICE void add_page(const Queries& queries, int first, int step, int window, int page, int page_begin, const uint8_t* v, int stride, int d,
                              OwnValues<own>& values) {
  constexpr int kKeysTogether = 8;
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
  }
  Two sums[own];
  PACELINE_UNROLL
  for (int n = 0; n < own; ++n) sums[n] = {0.0f, 0.0f};
  const auto add_key = [&](int key) {
    const Two x = two_values<type>(v, stride, key, d);
    PACELINE_UNROLL
    for (int n = 0; n < own; ++n) {
      if (key < seen[n].begin || key >= seen[n].end) continue;
      const float weight = weights[n][key];
      sums[n].low = fma(weight, x.low, sums[n].low);
      sums[n].high = fma(weight, x.high, sums[n].high);
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
          sums[n].low = fma(weight, x[j + l].low, sums[n].low);
          sums[n].high = fma(weight, x[j + l].high, sums[n].high);
        }
      }
    }
  }
  PACELINE_UNROLL_BY(1)
  for (; key < end; ++key) add_key(key);
  PACELINE_UNROLL
  for (int n = 0; n < own; ++n) {
    if (seen[n].begin >= seen[n].end) continue;
    const Merge factors = queries.pages[(first + n * step) * kSplitPages + page].factors;
    values.split[n].low = merged(values.split[n].low, sums[n].low, factors);
    values.split[n].high = merged(values.split[n].high, sums[n].high, factors);
  }
}

template <int most>
struct Room {
  static constexpr size_t floats(int head_size) { return static_cast<size_t>(most) * (head_size + kSplit + 4 * kSplitPages + 4) + 4 * 8; }
};

PACELINE_DEVICE void wait_for_page(int stages) {
  switch (stages) {
    case 1: return wait_copies<0>();
    case 2: return wait_copies<1>();
    case 3: return wait_copies<2>();
    case 4: return wait_copies<3>();
    default: return wait_copies<4>();
  }
}

PACELINE_DEVICE void copy_page_values(uint8_t* stage, const uint8_t* from, size_t bytes) {
  for (size_t i = thread_index() * 16; i < bytes; i += kAttentionThreads * 16) copy_async_16(stage + i, from + i);
}

// Scores and weights of all queries in a page that begins at position `first`, by one warp.
template <int most, bool halves>
PACELINE_DEVICE void weigh(const Queries& queries, const CacheView& cache, const uint8_t* k, int page, int first) {
  float low[most], high[most];
  with_type<halves>(cache.key_type, [&]<CacheType type>() {
    PageScores<type, most, kKeyDims<type>> scores;
    scores.begin(k, cache.head_size);
    scores.add(queries.q, low, high);
  });
  PACELINE_UNROLL  // so that sums stay in registers
  for (int i = 0; i < most; ++i) {
    if (i >= queries.count) continue;
    const Seen seen = seen_of_page(queries.position(i), cache.window, first);
    const Softmax softmax = weigh_page(cache, seen, low[i], high[i]);
    store_two(queries.weights + i * kSplit + page * kPage + 2 * lane_index(), low[i], high[i]);
    if (lane_index() == 0) queries.pages[i * kSplitPages + page].softmax = softmax;
  }
}

template <int own, bool halves>
PACELINE_DEVICE void add_values(const Queries& queries, int first, int step, const CacheView& cache, int page, int page_begin, const uint8_t* v, int d,
                                OwnValues<own>& values) {
  with_type<halves>(cache.value_type, [&]<CacheType type>() { add_page<type>(queries, first, step, cache.window, page, page_begin, v, cache.value_stride, d, values); });
}

// The first and last page of a split that any of this block's queries sees, counted from the split's begin.
struct Pages {
  int first, last;
};

// staged: values come through shared memory; else each thread reads its own from the page.
template <int most, int own, bool staged, bool halves>
PACELINE_KERNEL_FOR(kAttentionThreads, 2) attend_item(Attention a, StepInput input, size_t value_bytes, int stages) {
  let_next_begin();
  const int item_index = static_cast<int>(block_z());
  const int items = load_early(a.local ? &input.counts->local_items : &input.counts->items);
  if (item_index >= items) return wait_for_earlier();
  const Item item = load_early((a.local ? input.local_items : input.items) + item_index);
  const CacheView& cache = a.cache;
  const int group = a.heads / a.kv_heads, parts = (group + most - 1) / most, kv_head = static_cast<int>(block_y()) / parts, part = static_cast<int>(block_y()) % parts;
  const int last_position = item.position + item.count - 1, lowest = cache.window > 0 && item.position - cache.window + 1 > 0 ? item.position - cache.window + 1 : 0;
  const int own_split = static_cast<int>(block_x());
  const int first_split = a.partial ? own_split : lowest / kSplit, end_split = a.partial ? own_split + 1 : last_position / kSplit + 1;
  if (first_split < lowest / kSplit || first_split > last_position / kSplit) return wait_for_earlier();
  const auto page_at = [&](int position, bool early = false) {
    const int* const number = input.pages + item.table + position / kPage;
    return cache.pool + static_cast<size_t>(early ? load_early(number) : *number) * cache.page_stride + kv_head * a.head_stride;
  };
  const int own_page = first_split * kSplit + static_cast<int>(warp_index()) * kPage;
  if (part == 0 && are_few(a, items) && own_page <= last_position && own_page + kPage > lowest) fetch_page(cache, page_at(own_page, true));
  wait_for_earlier();

  SharedMemory memory;
  Queries queries;
  queries.heads = group - part * most < most ? group - part * most : most;
  queries.first_head = kv_head * group + part * most;
  queries.count = item.count * queries.heads;
  queries.first_column = item.first_column;
  queries.first_position = item.position;
  uint8_t* const stage_room = memory.take<uint8_t>(value_bytes * stages);
  queries.q = memory.take<float>(static_cast<size_t>(most) * cache.head_size);
  queries.weights = memory.take<float>(static_cast<size_t>(most) * kSplit);
  queries.pages = memory.take<PageSoftmax>(most * kSplitPages);
  queries.merged = memory.take<float>(most * 4);

  const int thread = static_cast<int>(thread_index()), warp = static_cast<int>(warp_index());
  for (int i = thread; i < most * cache.head_size; i += kAttentionThreads) {
    const int query = i % most, d = i / most;
    queries.q[i] = query < queries.count ? a.queries[(static_cast<size_t>(queries.column(query)) * a.heads + queries.head(query)) * cache.head_size + d] : 0.0f;
  }
  for (int i = thread; i < most; i += kAttentionThreads) {
    const bool sink = a.sinks && i < queries.count;  // it comes first, before all splits
    queries.merged[4 * i] = sink ? a.sinks[queries.head(i)] : -__builtin_huge_valf();
    queries.merged[4 * i + 1] = sink ? 1.0f : 0.0f;
  }
  const int pairs = cache.value_stride / 2, step = kAttentionThreads / pairs < most / own ? kAttentionThreads / pairs : most / own;
  const int first = thread / pairs, d = thread % pairs * 2;
  const bool adds = first < step;
  OwnValues<own> values;
  PACELINE_UNROLL
  for (int n = 0; n < own; ++n) values.total[n] = {0.0f, 0.0f};

  for (int split = first_split; split < end_split; ++split) {
    const int begin = split * kSplit, end = last_position < begin + kSplit - 1 ? last_position : begin + kSplit - 1;
    const Pages pages = {lowest > begin ? (lowest - begin) / kPage : 0, (end - begin) / kPage};
    sync_block();  // others may still read what is overwritten now
    for (int s = 0; s < stages; ++s) {
      const int page = pages.first + s;
      if (page <= pages.last) copy_page_values(stage_room + value_bytes * s, page_at(begin + page * kPage) + cache.value_offset, value_bytes);
      commit_copies();
    }
    if (warp >= pages.first && warp <= pages.last) weigh<most, halves>(queries, cache, page_at(begin + warp * kPage) + cache.key_offset, warp, begin + warp * kPage);
    sync_block();
    const int count = pages.last + 1 - pages.first;
    for (int i = thread; i < queries.count * count; i += kAttentionThreads) find_factors(queries.pages + i / count * kSplitPages, 1, pages.first, pages.first + i % count);
    PACELINE_UNROLL
    for (int n = 0; n < own; ++n) values.split[n] = {0.0f, 0.0f};
    for (int page = pages.first; page <= pages.last; ++page) {
      if constexpr (!staged) {
        sync_block();
        if (adds) add_values<own, halves>(queries, first, step, cache, page, begin + page * kPage, page_at(begin + page * kPage) + cache.value_offset, d, values);
        continue;
      }
      wait_for_page(stages);
      sync_block();
      uint8_t* const stage = stage_room + value_bytes * ((page - pages.first) % stages);
      if (adds) add_values<own, halves>(queries, first, step, cache, page, begin + page * kPage, stage, d, values);
      sync_block();
      if (page + stages <= pages.last) copy_page_values(stage, page_at(begin + (page + stages) * kPage) + cache.value_offset, value_bytes);
      commit_copies();
    }
    if (a.partial) {
      if (thread < queries.count) {
        const Softmax softmax = merge_pages(queries.pages + thread * kSplitPages, 1, pages.first, pages.last);
        float* const to = part_of(a, queries.column(thread), queries.head(thread), own_split);
        store_two(to + cache.value_stride, softmax.peak, softmax.sum);
      }
      break;
    }
    // A split of which a query sees no key leaves its state unchanged.
    if (thread < queries.count) {
      const int position = queries.position(thread);
      float* const m = queries.merged + 4 * thread;
      Merge factors = {1.0f, 0.0f};
      const bool sees = position >= begin && (cache.window <= 0 || position - cache.window + 1 < begin + kSplit);
      if (sees) {
        Softmax all = {m[0], m[1]};
        factors = merge(all, merge_pages(queries.pages + thread * kSplitPages, 1, pages.first, pages.last));
        m[0] = all.peak;
        m[1] = all.sum;
      }
      m[2] = factors.before;
      m[3] = sees ? factors.after : -1.0f;
    }
    sync_block();
    PACELINE_UNROLL
    for (int n = 0; n < own; ++n) {
      const int i = first + n * step;
      if (!adds || i >= queries.count) continue;
      const Merge factors = {queries.merged[4 * i + 2], queries.merged[4 * i + 3]};
      if (factors.after < 0.0f) continue;
      values.total[n].low = merged(values.total[n].low, values.split[n].low, factors);
      values.total[n].high = merged(values.total[n].high, values.split[n].high, factors);
    }
  }
  PACELINE_UNROLL
  for (int n = 0; n < own; ++n) {
    const int i = first + n * step;
    if (!adds || i >= queries.count) continue;
    if (a.partial) {
      float* const to = part_of(a, queries.column(i), queries.head(i), own_split);
      store_two(to + d, values.split[n].low, values.split[n].high);
      continue;
    }
    float* const to = a.ends_with_blocks() ? queries.q + i * cache.head_size  // the queries are no longer needed
                                           : a.out + static_cast<size_t>(queries.column(i)) * a.out_stride + queries.head(i) * cache.head_size;
    const float inverse = 1.0f / queries.merged[4 * i + 1];
    if (d < cache.value_size) to[d] = values.total[n].low * inverse;
    if (d + 1 < cache.value_size) to[d + 1] = values.total[n].high * inverse;
  }
  if (a.partial || !a.ends_with_blocks()) return;
  sync_block();
  const int blocks = cache.value_size / kBlock;
  for (int i = warp; i < queries.count * blocks; i += kAttentionWarps) {
    const int query = i / blocks, d = i % blocks * kBlock + static_cast<int>(lane_index());
    join_block(a, queries.column(query), queries.head(query), d, queries.q[query * cache.head_size + d]);
  }
}

// Merges the splits of a column's head, ascending.
constexpr int kMergeThreads = 128, kSplitsAhead = 4;
PACELINE_KERNEL merge_splits(Attention a, StepInput input) {
  let_next_begin();
  const int column = static_cast<int>(block_y()), head = static_cast<int>(block_x()), stride = a.cache.value_stride;
  const bool present = column < load_early(&input.counts->columns);
  const int position = present ? load_early(&input.columns[column].position) : 0;
  wait_for_earlier();
  if (!present) return;
  const int lowest = a.cache.window > 0 && position - a.cache.window + 1 > 0 ? position - a.cache.window + 1 : 0;
  const int end = position / kSplit + 1;
  const float* const parts = part_of(a, column, head, 0);
  for (int d = static_cast<int>(thread_index()); d < a.cache.value_size; d += kMergeThreads) {
    Softmax all = {a.sinks ? a.sinks[head] : -__builtin_huge_valf(), a.sinks ? 1.0f : 0.0f};
    float total = 0.0f;
    for (int split = lowest / kSplit; split < end; split += kSplitsAhead) {
      Softmax next[kSplitsAhead];
      float values[kSplitsAhead];
      PACELINE_UNROLL
      for (int i = 0; i < kSplitsAhead; ++i) {
        const float* const part = parts + (split + i < end ? split + i : split) * (stride + 2);
        next[i] = {part[stride], part[stride + 1]};
        values[i] = part[d];
      }
      PACELINE_UNROLL
      for (int i = 0; i < kSplitsAhead; ++i) {
        if (split + i >= end) continue;
        const Merge factors = merge(all, next[i]);
        total = merged(total, values[i], factors);
      }
    }
    const float y = total * (1.0f / all.sum);
    if (a.ends_with_blocks()) join_block(a, column, head, d, y);
    else a.out[static_cast<size_t>(column) * a.out_stride + head * a.cache.head_size + d] = y;
  }
}

template <int most, int own>
void launch_attention(const Attention& a, const StepInput& input, int most_items, Stream stream) {
  const size_t value_bytes = cache_bytes(a.cache.value_type, static_cast<size_t>(kPage) * a.cache.value_stride);
  const size_t rest = Room<most>::floats(a.cache.head_size) * sizeof(float);
  const int stages = stages_for(value_bytes, rest, most <= 4), group = a.heads / a.kv_heads;
  const size_t shared = value_bytes * stages + rest;
  const Grid grid = {a.partial ? static_cast<unsigned>(a.splits) : 1u, static_cast<unsigned>(a.kv_heads * ((group + most - 1) / most)), static_cast<unsigned>(most_items)};
  const bool halves = a.cache.key_type == CacheType::F16 && a.cache.value_type == CacheType::F16;
  auto* kernel = halves ? attend_item<most, own, true, true> : attend_item<most, own, true, false>;
  if constexpr (most == 4 && own == 4)  // head dimensions this large have at most 4 queries per block
    if (stages == 0) kernel = attend_item<most, own, false, false>;
  launch("attend", kernel, grid, kAttentionThreads, shared, stream, a, input, value_bytes, stages);
}

}  // namespace

void attend(const Attention& a, const StepInput& input, int most_tokens, int most_columns, Stream stream) {
  const int group = a.heads / a.kv_heads, together = queries_together(a.cache.head_size), queries = most_tokens * (group < together ? group : together);
  // How many queries a thread adds values for: 2 of up to 8 where there are enough threads, else 4. A value is loaded and widened once for all of them; more
  // queries per thread would leave too few warps.
  const bool two = a.cache.value_stride <= 128;
  if (most_tokens == 1 && fits_token(a)) attend_tokens(a, input, most_columns, stream);
  else if (queries <= 4) (two ? launch_attention<4, 2> : launch_attention<4, 4>)(a, input, most_columns, stream);
  else if (queries <= 8) (two ? launch_attention<8, 2> : launch_attention<8, 4>)(a, input, most_columns, stream);
  else launch_attention<16, 4>(a, input, most_columns, stream);
  if (a.partial)
    launch("merge_splits", merge_splits, {static_cast<unsigned>(a.heads), static_cast<unsigned>(most_columns), 1}, kMergeThreads, 0, stream, a, input);
}

}  // namespace paceline::cuda
