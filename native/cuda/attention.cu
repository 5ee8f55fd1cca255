#include "attention.h"

namespace paceline::cuda {
namespace {

constexpr int kFewBlocks = 256;
constexpr size_t kLine = 128;  // of the L2 cache

template <int most>
struct Room {
  static constexpr size_t floats(int head_size) { return static_cast<size_t>(most) * (head_size + kSplit + 3 * kSplitPages + 4) + 4 * 8; }
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

// How many dimensions of keys are loaded ahead: more would force other values out of registers. A head that has no multiple of them ends with slow ones.
template <CacheType type, int most>
PACELINE_DEVICE void score_as(const Queries& queries, const CacheView& cache, const uint8_t* k, int page, int first) {
  constexpr int kUsual = type == CacheType::F32 ? 8 : 16;
  if constexpr (most == 1)
    if (cache.head_size % (2 * kUsual) == 0) return score_page<type, most, 2 * kUsual>(queries, cache, k, page, first);
  score_page<type, most, kUsual>(queries, cache, k, page, first);
}

// halves: keys and values are F16, as usual. Such a kernel has no code for other types: a step runs too many kernels for its instructions to stay in a cache, and each
// jump over those of other types costs a wait.
template <int most, bool halves>
PACELINE_DEVICE void score(const Queries& queries, const CacheView& cache, const uint8_t* k, int page, int first) {
  if constexpr (halves) return score_as<CacheType::F16, most>(queries, cache, k, page, first);
  switch (cache.key_type) {
    case CacheType::F32: return score_as<CacheType::F32, most>(queries, cache, k, page, first);
    case CacheType::F16: return score_as<CacheType::F16, most>(queries, cache, k, page, first);
    case CacheType::BF16: return score_as<CacheType::BF16, most>(queries, cache, k, page, first);
    case CacheType::Q8_0: return score_as<CacheType::Q8_0, most>(queries, cache, k, page, first);
    case CacheType::Q4_0: return score_as<CacheType::Q4_0, most>(queries, cache, k, page, first);
  }
}

template <int own, bool halves>
PACELINE_DEVICE void add_values(const Queries& queries, int first, int step, const CacheView& cache, int page, int page_begin, const uint8_t* v, int d,
                                OwnValues<own>& values) {
  const auto add = [&]<CacheType type>() { add_page<type>(queries, first, step, cache.window, page, page_begin, v, cache.value_stride, d, values); };
  if constexpr (halves) return add.template operator()<CacheType::F16>();
  switch (cache.value_type) {
    case CacheType::F32: return add.template operator()<CacheType::F32>();
    case CacheType::F16: return add.template operator()<CacheType::F16>();
    case CacheType::BF16: return add.template operator()<CacheType::BF16>();
    case CacheType::Q8_0: return add.template operator()<CacheType::Q8_0>();
    case CacheType::Q4_0: return add.template operator()<CacheType::Q4_0>();
  }
}

// Merges a split's (peak, sum) into the (peak, sum) so far; returns the factors for both sides' values.
struct Merge {
  float before, after;
};
PACELINE_DEVICE Merge merge(float& peak, float& sum, float split_peak, float split_sum) {
  const float next = peak > split_peak ? peak : split_peak;
  const Merge factors = {exponential(peak - next), exponential(split_peak - next)};
  sum = fma(sum, factors.before, split_sum * factors.after);
  peak = next;
  return factors;
}

// Gates dimension d of a head's output and stores it as an activation; a warp does so for the block of 32 that d is in.
PACELINE_DEVICE void join_block(const Attention& a, int column, int head, int d, float y) {
  if (a.padded) return store_block(a.joined, head * a.padded + column, d / kBlock, y);
  const int input = head * a.cache.head_size + d;
  if (a.gates) y = y * sigmoid(a.gates[static_cast<size_t>(column) * a.heads * a.cache.head_size + input]);
  store_block(a.joined, column, input / kBlock, y);
}

// Where a query's partial result for a split is stored.
PACELINE_DEVICE float* part_of(const Attention& a, const Queries& queries, int i, int split) {
  return a.partial + ((static_cast<size_t>(queries.column(i)) * a.heads + queries.head(i)) * a.splits + split) * (a.cache.value_stride + 2);
}

// The first and last page of a split that any of this block's queries sees, counted from the split's begin.
struct Pages {
  int first, last;
};

// staged: values come through shared memory; else each thread reads its own from the page.
template <int most, int own, bool staged, bool halves>
PACELINE_KERNEL_FOR(kAttentionThreads, 2) attend_item(Attention a, StepInput input, size_t key_bytes, size_t value_bytes, int stages) {
  let_next_begin();
  const int item_index = static_cast<int>(block_z());
  const int items = a.local ? input.counts->local_items : input.counts->items;
  if (item_index >= items) return wait_for_earlier();
  const Item item = (a.local ? input.local_items : input.items)[item_index];
  const CacheView& cache = a.cache;
  const int group = a.heads / a.kv_heads, parts = (group + most - 1) / most, kv_head = static_cast<int>(block_y()) / parts, part = static_cast<int>(block_y()) % parts;
  const int last_position = item.position + item.count - 1, lowest = cache.window > 0 && item.position - cache.window + 1 > 0 ? item.position - cache.window + 1 : 0;
  const int own_split = static_cast<int>(block_x());
  const int first_split = a.partial ? own_split : lowest / kSplit, end_split = a.partial ? own_split + 1 : last_position / kSplit + 1;
  if (first_split < lowest / kSplit || first_split > last_position / kSplit) return wait_for_earlier();
  const auto page_at = [&](int position) {
    return cache.pool + static_cast<size_t>(input.pages[item.table + position / kPage]) * cache.page_stride + kv_head * a.head_stride;
  };
  if (part == 0 && items * a.kv_heads * a.splits <= kFewBlocks) {  // too few blocks to keep memory busy; prefetched only, as the previous kernel may still write
    const int position = first_split * kSplit + static_cast<int>(warp_index()) * kPage;
    if (position <= last_position && position + kPage > lowest)
      for (size_t i = lane_index() * kLine; i < key_bytes; i += kWarp * kLine) fetch_ahead(page_at(position) + cache.key_offset + i);
  }
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
  queries.peaks = memory.take<float>(most * kSplitPages);
  queries.corrections = memory.take<float>(most * kSplitPages);
  queries.sums = memory.take<float>(most * kSplitPages);
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
    if (warp >= pages.first && warp <= pages.last) score<most, halves>(queries, cache, page_at(begin + warp * kPage) + cache.key_offset, warp, begin + warp * kPage);
    sync_block();
    const int count = pages.last + 1 - pages.first;
    for (int i = warp; i < queries.count * count; i += kAttentionWarps) weigh_page(queries, i / count, cache.window, begin, pages.first + i % count);
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
        const Softmax softmax = softmax_of_split(queries, thread, cache.window, begin, pages.last + 1);
        float* const to = part_of(a, queries, thread, own_split);
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
        const Softmax softmax = softmax_of_split(queries, thread, cache.window, begin, pages.last + 1);
        factors = merge(m[0], m[1], softmax.peak, softmax.sum);
      }
      m[2] = factors.before;
      m[3] = sees ? factors.after : -1.0f;
    }
    sync_block();
    PACELINE_UNROLL
    for (int n = 0; n < own; ++n) {
      const int i = first + n * step;
      if (!adds || i >= queries.count) continue;
      const float before = queries.merged[4 * i + 2], after = queries.merged[4 * i + 3];
      if (after < 0.0f) continue;
      values.total[n].low = fma(values.total[n].low, before, values.split[n].low * after);
      values.total[n].high = fma(values.total[n].high, before, values.split[n].high * after);
    }
  }
  PACELINE_UNROLL
  for (int n = 0; n < own; ++n) {
    const int i = first + n * step;
    if (!adds || i >= queries.count) continue;
    if (a.partial) {
      float* const to = part_of(a, queries, i, own_split);
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
  const bool present = column < input.counts->columns;
  const int position = present ? input.columns[column].position : 0;
  wait_for_earlier();
  if (!present) return;
  const int lowest = a.cache.window > 0 && position - a.cache.window + 1 > 0 ? position - a.cache.window + 1 : 0;
  const int end = position / kSplit + 1;
  const float* const parts = a.partial + (static_cast<size_t>(column) * a.heads + head) * a.splits * (stride + 2);
  for (int d = static_cast<int>(thread_index()); d < a.cache.value_size; d += kMergeThreads) {
    float peak = a.sinks ? a.sinks[head] : -__builtin_huge_valf(), sum = a.sinks ? 1.0f : 0.0f, total = 0.0f;
    for (int split = lowest / kSplit; split < end; split += kSplitsAhead) {
      float peaks[kSplitsAhead], sums[kSplitsAhead], values[kSplitsAhead];
      PACELINE_UNROLL
      for (int i = 0; i < kSplitsAhead; ++i) {
        const float* const part = parts + (split + i < end ? split + i : split) * (stride + 2);
        peaks[i] = part[stride];
        sums[i] = part[stride + 1];
        values[i] = part[d];
      }
      PACELINE_UNROLL
      for (int i = 0; i < kSplitsAhead; ++i) {
        if (split + i >= end) continue;
        const Merge factors = merge(peak, sum, peaks[i], sums[i]);
        total = fma(total, factors.before, values[i] * factors.after);
      }
    }
    const float y = total * (1.0f / sum);
    if (a.ends_with_blocks()) join_block(a, column, head, d, y);
    else a.out[static_cast<size_t>(column) * a.out_stride + head * a.cache.head_size + d] = y;
  }
}

template <int most, int own>
void launch_attention(const Attention& a, const StepInput& input, int most_items, Stream stream) {
  const size_t value_bytes = cache_bytes(a.cache.value_type, static_cast<size_t>(kPage) * a.cache.value_stride);
  const size_t key_bytes = cache_bytes(a.cache.key_type, static_cast<size_t>(kPage) * a.cache.head_size);
  const size_t rest = Room<most>::floats(a.cache.head_size) * sizeof(float);
  const int stages = stages_for(value_bytes, rest, most <= 4), group = a.heads / a.kv_heads;
  const size_t shared = value_bytes * stages + rest;
  const Grid grid = {a.partial ? static_cast<unsigned>(a.splits) : 1u, static_cast<unsigned>(a.kv_heads * ((group + most - 1) / most)), static_cast<unsigned>(most_items)};
  const bool halves = a.cache.key_type == CacheType::F16 && a.cache.value_type == CacheType::F16;
  auto* kernel = halves ? attend_item<most, own, true, true> : attend_item<most, own, true, false>;
  if constexpr (most == 4 && own == 4)  // head dimensions this large have at most 4 queries per block
    if (stages == 0) kernel = attend_item<most, own, false, false>;
  launch("attend", kernel, grid, kAttentionThreads, shared, stream, a, input, key_bytes, value_bytes, stages);
}

}  // namespace

void attend(const Attention& a, const StepInput& input, int most_tokens, int most_columns, Stream stream) {
  const int group = a.heads / a.kv_heads, together = queries_together(a.cache.head_size), queries = most_tokens * (group < together ? group : together);
  const int blocks = most_columns * a.heads * (a.partial ? a.splits : 1);  // of one head each
  // One or a few sequences leave most of a GPU idle: then each query head has a thread block of its own, and reads its group's keys from L2.
  // How many queries a thread adds values for: 2 of up to 8 where there are enough threads, else 4. A value is loaded and widened once for all of them; more
  // queries per thread would leave too few warps.
  const bool two = a.cache.value_stride <= 128;
  if (most_tokens == 1 && blocks <= 2 * multiprocessors() && together > 4) launch_attention<1, 1>(a, input, most_columns, stream);
  else if (queries <= 4 && two && blocks <= 8 * multiprocessors()) launch_attention<4, 1>(a, input, most_columns, stream);  // 4 queries to a block: few blocks
  else if (queries <= 4) (two ? launch_attention<4, 2> : launch_attention<4, 4>)(a, input, most_columns, stream);
  else if (queries <= 8) (two ? launch_attention<8, 2> : launch_attention<8, 4>)(a, input, most_columns, stream);
  else launch_attention<16, 4>(a, input, most_columns, stream);
  if (a.partial)
    launch("merge_splits", merge_splits, {static_cast<unsigned>(a.heads), static_cast<unsigned>(most_columns), 1}, kMergeThreads, 0, stream, a, input);
}

}  // namespace paceline::cuda
