// Attention of rows of one token. A warp computes a page by itself: scores, weights, and its sums of values, each lane some dimensions of them. So all pages of a split
// are on their way at once, and nothing waits for another warp before they merge. A thread block has some of the query heads that share a KV head.
#include "attention.h"

namespace paceline::cuda {
namespace {

constexpr int kMostStride = 256;

template <int most>
struct Room {
  static constexpr int kPages = kSplitPages * most;
  static constexpr size_t bytes(int head_size, int stride) {
    const size_t floats = static_cast<size_t>(most) * (head_size + kSplit + (kSplitPages + 1) * stride + 4);
    return floats * sizeof(float) + kPages * sizeof(PageSoftmax) + 4 * 16;
  }
};

// A lane's two weights for each query -> to [64 keys][most]
template <int most>
PACELINE_DEVICE void store_weights(float* to, const float (&low)[most], const float (&high)[most]) {
  float* const own = to + 2 * most * static_cast<int>(lane_index());
  if constexpr (most == 1) {
    store_two(own, low[0], high[0]);
  } else {
    PACELINE_UNROLL
    for (int i = 0; i < most; i += 4) {
      Word4 words[2];
      for (int j = 0; j < 4; ++j) words[0].v[j] = float_to_bits(low[i + j]), words[1].v[j] = float_to_bits(high[i + j]);
      *reinterpret_cast<Word4*>(own + i) = words[0];
      *reinterpret_cast<Word4*>(own + most + i) = words[1];
    }
  }
}
template <int most>
PACELINE_DEVICE void load_weights(const float* from, float (&weights)[most]) {
  if constexpr (most == 1) {
    weights[0] = from[0];
  } else {
    PACELINE_UNROLL
    for (int i = 0; i < most; i += 4) {
      const Word4 words = *reinterpret_cast<const Word4*>(from + i);
      for (int j = 0; j < 4; ++j) weights[i + j] = bits_to_float(words.v[j]);
    }
  }
}

// The sums of a page's values, by one warp -> to [most][stride]. weights [64][most]
template <CacheType type, int most, int width>
PACELINE_DEVICE void add_page(const uint8_t* v, int stride, const Seen& seen, const float* weights, float* to) {
  constexpr int kAhead = type == CacheType::F16 && most < 8 ? 16 : 8;
  PACELINE_UNROLL_BY(1)
  for (int first = 0; first < stride; first += kWarp * width) {
    const int own = first + width * static_cast<int>(lane_index()), d = own < stride ? own : 0;
    ValueRows<type, width> rows(v, stride, seen.begin, d);
    StoredValues<type, width> ahead[kAhead];
    float sums[most][width];
    PACELINE_UNROLL
    for (int i = 0; i < most; ++i)
      for (int j = 0; j < width; ++j) sums[i][j] = 0.0f;
    const auto add_key = [&](int key, const float (&x)[width]) {
      float weight[most];
      load_weights(weights + key * most, weight);
      PACELINE_UNROLL
      for (int i = 0; i < most; ++i)
        for (int n = 0; n < width; ++n) sums[i][n] = fma(weight[i], x[n], sums[i][n]);
    };
    int key = seen.begin;
    PACELINE_UNROLL
    for (int j = 0; j < kAhead; ++j)
      if (key + j < seen.end) rows.load_next(ahead[j]);
    PACELINE_UNROLL_BY(1)
    for (; key + kAhead <= seen.end; key += kAhead) {
      PACELINE_UNROLL
      for (int j = 0; j < kAhead; ++j) {
        float x[width];
        rows.widen(ahead[j], x);
        if (key + kAhead + j < seen.end) rows.load_next(ahead[j]);
        add_key(key + j, x);
      }
    }
    PACELINE_UNROLL
    for (int j = 0; j < kAhead; ++j) {
      if (key + j >= seen.end) break;
      float x[width];
      rows.widen(ahead[j], x);
      add_key(key + j, x);
    }
    if (own >= stride) continue;
    PACELINE_UNROLL
    for (int i = 0; i < most; ++i)
      for (int j = 0; j < width; j += 2) store_two(to + i * stride + own + j, sums[i][j], sums[i][j + 1]);
  }
}

// width: dimensions of values to a lane. dims: of keys that are on their way, where these are F16.
template <int most, int width, bool halves, int dims = kKeyDims<CacheType::F16>>
PACELINE_KERNEL_FOR(kAttentionThreads, most == 8 && !halves ? 1 : 2) attend_token(Attention a, StepInput input) {
  let_next_begin();
  const int item_index = static_cast<int>(block_z()), items = load_early(a.local ? &input.counts->local_items : &input.counts->items);
  if (item_index >= items) return wait_for_earlier();
  const Item item = load_early((a.local ? input.local_items : input.items) + item_index);
  const CacheView& cache = a.cache;
  const int group = a.heads / a.kv_heads, parts = (group + most - 1) / most, kv_head = static_cast<int>(block_y()) / parts, part = static_cast<int>(block_y()) % parts;
  const int first_head = kv_head * group + part * most, heads = group - part * most < most ? group - part * most : most;
  const int position = item.position, lowest = cache.window > 0 && position - cache.window + 1 > 0 ? position - cache.window + 1 : 0, stride = cache.value_stride;
  const int own_split = static_cast<int>(block_x()), first_split = a.partial ? own_split : lowest / kSplit, last_split = a.partial ? own_split : position / kSplit;
  if (first_split < lowest / kSplit || first_split > position / kSplit) return wait_for_earlier();
  const int thread = static_cast<int>(thread_index()), warp = static_cast<int>(warp_index());
  const auto seen_of = [&](int split) { return seen_of_page(position, cache.window, split * kSplit + warp * kPage); };
  const auto own_page = [&](int split, bool early = false) {
    const int* const number = input.pages + item.table + split * kSplitPages + warp;
    return cache.pool + static_cast<size_t>(early ? load_early(number) : *number) * cache.page_stride + kv_head * a.head_stride;
  };
  const auto fetch_own = [&](int split, bool early = false) {
    const Seen seen = seen_of(split);
    if (seen.begin < seen.end) fetch_page(cache, own_page(split, early));
  };
  const bool few = are_few(a, items);
  if (part == 0 && few) fetch_own(first_split, true);
  wait_for_earlier();
  if (part == 0 && !few) fetch_own(first_split);

  SharedMemory memory;
  float* const q = memory.take<float>(static_cast<size_t>(most) * cache.head_size);         // [head_size][most]
  float* const weights = memory.take<float>(static_cast<size_t>(most) * kSplit) + most * kPage * warp;  // [64][most], the warp's own
  float* const values = memory.take<float>(static_cast<size_t>(most) * kSplitPages * stride);  // [8][most][stride]: sums of pages
  float* const totals = memory.take<float>(static_cast<size_t>(most) * stride);             // [most][stride]: of all splits so far
  PageSoftmax* const pages = memory.take<PageSoftmax>(Room<most>::kPages);                  // [8][most]
  PageSoftmax* const all = memory.take<PageSoftmax>(most);                                  // [most]: of all splits so far, and the last merge
  // A thread has outputs thread, thread + 256, ... of [heads][size].
  const auto each_output = [&](int size, auto use) {
    int query = 0, d = thread;
    PACELINE_UNROLL_BY(1)
    for (int i = thread; i < heads * size; i += kAttentionThreads, d += kAttentionThreads) {
      for (; d >= size; d -= size) ++query;
      use(query, d);
    }
  };
  const auto begin_queries = [&] {
    const float* const from = a.queries + (static_cast<size_t>(item.first_column) * a.heads + first_head) * cache.head_size;
    each_output(cache.head_size, [&](int query, int d) { q[d * most + query] = from[query * cache.head_size + d]; });
    each_output(stride, [&](int query, int d) { totals[query * stride + d] = 0.0f; });
    if (thread < most) {
      const bool sink = a.sinks && thread < heads;  // it comes first, before all splits
      all[thread].softmax = {sink ? a.sinks[first_head + thread] : -__builtin_huge_valf(), sink ? 1.0f : 0.0f};
    }
    PACELINE_UNROLL_BY(1)
    for (int i = heads * cache.head_size + thread; i < most * cache.head_size; i += kAttentionThreads) q[i % cache.head_size * most + i / cache.head_size] = 0.0f;
    sync_block();
  };

  for (int split = first_split; split <= last_split; ++split) {
    const Seen seen = seen_of(split);
    const bool sees = seen.begin < seen.end;
    const uint8_t* const page = sees ? own_page(split) : nullptr;
    if (part == 0 && split < last_split) fetch_own(split + 1);
    float low[most], high[most];
    if constexpr (halves) {
      PageScores<CacheType::F16, most, dims> scores;
      if (sees) scores.begin(page + cache.key_offset, cache.head_size);
      if (split == first_split) begin_queries();  // their loads wait together with those of keys
      if (sees) scores.add(q, low, high);
    } else {
      if (split == first_split) begin_queries();
      if (sees)
        with_type<false>(cache.key_type, [&]<CacheType type>() {
          PageScores<type, most, kKeyDims<type>> scores;
          scores.begin(page + cache.key_offset, cache.head_size);
          scores.add(q, low, high);
        });
    }
    if (sees) {
      PACELINE_UNROLL
      for (int i = 0; i < most; ++i) {
        const Softmax softmax = weigh_page(cache, seen, low[i], high[i]);
        if (lane_index() == 0) pages[warp * most + i].softmax = softmax;
      }
      store_weights<most>(weights, low, high);
      sync_warp();
      with_type<halves>(cache.value_type, [&]<CacheType type>() {
        add_page<type, most, width>(page + cache.value_offset, stride, seen, weights, values + static_cast<size_t>(warp) * most * stride);
      });
    }
    sync_block();
    const int begin = split * kSplit, first = lowest > begin ? (lowest - begin) / kPage : 0, last = position < begin + kSplit ? (position - begin) / kPage : kSplitPages - 1;
    for (int i = thread; i < Room<most>::kPages; i += kAttentionThreads)
      if (i / most >= first && i / most <= last) find_factors(pages + i % most, most, first, i / most);
    sync_block();
    if (thread < heads) {
      const Softmax softmax = merge_pages(pages + thread, most, first, last);
      if (a.partial) store_two(part_of(a, item.first_column, first_head + thread, own_split) + stride, softmax.peak, softmax.sum);
      else all[thread].factors = merge(all[thread].softmax, softmax);
    }
    if (!a.partial) sync_block();
    each_output(stride, [&](int query, int d) {
      const float* const own = values + query * stride + d;
      float sum = 0.0f;
      PACELINE_UNROLL_BY(2)
      for (int p = first; p <= last; ++p) sum = merged(sum, own[p * most * stride], pages[p * most + query].factors);
      if (a.partial) part_of(a, item.first_column, first_head + query, own_split)[d] = sum;
      else totals[query * stride + d] = merged(totals[query * stride + d], sum, all[query].factors);
    });
    sync_block();
  }
  if (a.partial) return;
  if (!a.ends_with_blocks()) {
    float* const out = a.out + static_cast<size_t>(item.first_column) * a.out_stride + first_head * cache.head_size;
    each_output(cache.value_size, [&](int query, int d) { out[query * cache.head_size + d] = totals[query * stride + d] * (1.0f / all[query].softmax.sum); });
    return;
  }
  const int blocks = cache.value_size / kBlock;
  PACELINE_UNROLL_BY(1)
  for (int i = warp; i < heads * blocks; i += kAttentionWarps) {
    const int query = i / blocks, d = i % blocks * kBlock + static_cast<int>(lane_index());
    join_block(a, item.first_column, first_head + query, d, totals[query * stride + d] * (1.0f / all[query].softmax.sum));
  }
}

template <int most, int width>
void launch_tokens(const Attention& a, const StepInput& input, int most_items, Stream stream) {
  const int group = a.heads / a.kv_heads;
  const Grid grid = {a.partial ? static_cast<unsigned>(a.splits) : 1u, static_cast<unsigned>(a.kv_heads * ((group + most - 1) / most)), static_cast<unsigned>(most_items)};
  const bool halves = a.cache.key_type == CacheType::F16 && a.cache.value_type == CacheType::F16;
  auto* kernel = halves ? attend_token<most, width, true> : attend_token<most, width, false>;
  if constexpr (most == 1) {  // one query leaves registers for more, if that leaves no dimensions to the end
    constexpr int kMore = 2 * kKeyDims<CacheType::F16>;
    if (halves && a.cache.head_size % kMore == 0) kernel = attend_token<most, width, true, kMore>;
  }
  launch("attend_token", kernel, grid, kAttentionThreads,
         Room<most>::bytes(a.cache.head_size, a.cache.value_stride), stream, a, input);
}

template <int most>
bool fits(const Attention& a) { return Room<most>::bytes(a.cache.head_size, a.cache.value_stride) <= kMostShared; }

}  // namespace

bool fits_token(const Attention& a) { return a.cache.value_stride <= kMostStride && fits<4>(a); }

void attend_tokens(const Attention& a, const StepInput& input, int most_items, Stream stream) {
  const bool narrow = a.cache.value_stride <= 2 * kWarp;
  const int group = a.heads / a.kv_heads, blocks = most_items * a.heads * (a.partial ? a.splits : 1);  // of one head each
  // One or a few sequences leave most of a GPU idle: then each query head has a block of its own, and reads its group's keys from L2. With more, L2 would be what limits.
  if (group == 1 || blocks <= multiprocessors()) (narrow ? launch_tokens<1, 2> : launch_tokens<1, 4>)(a, input, most_items, stream);
  else if (group <= 4 || !fits<8>(a)) (narrow ? launch_tokens<4, 2> : launch_tokens<4, 4>)(a, input, most_items, stream);
  else (narrow ? launch_tokens<8, 2> : launch_tokens<8, 4>)(a, input, most_items, stream);
}

}  // namespace paceline::cuda
