// Queries, keys and values of a token, head by head: norm, RoPE, and the write of keys and values into their KV cache page. A warp takes a head.
#include "cache_write.h"
#include "operations.h"

namespace paceline::cuda {
namespace {

constexpr int kWarps = 4;

// A warp's own of some floats, the first `most` of a lane in registers before the kernel waits for the one before: behind that it would wait for L2 once more for each.
template <int most>
struct EarlyFloats {
  const float* from;
  int size;
  float own[most];

  PACELINE_DEVICE EarlyFloats(const float* floats, int count) : from(floats), size(floats ? count : 0) {
    PACELINE_UNROLL
    for (int j = 0; j < most; ++j) {
      const int i = static_cast<int>(lane_index()) + j * kWarp;
      own[j] = i < size ? from[i] : 0.0f;
    }
  }
};
// use(i, j): of each of a warp's `size` places, the j-th of its lane, or `most` for all behind as many.
template <int most, class Use>
PACELINE_DEVICE void each_place(int size, Use use) {
  const int lane = static_cast<int>(lane_index());
  PACELINE_UNROLL
  for (int j = 0; j < most; ++j)
    if (lane + j * kWarp < size) use(lane + j * kWarp, j);
  for (int i = lane + most * kWarp; i < size; i += kWarp) use(i, most);
}
template <int most>
PACELINE_DEVICE float early(const EarlyFloats<most>& floats, int i, int j) { return j < most ? floats.own[j < most ? j : 0] : floats.from[i]; }

PACELINE_KERNEL place_heads(Place p, StepInput input) {
  let_next_begin();
  const int column = static_cast<int>(block_y()), lane = static_cast<int>(lane_index());
  const int unit = static_cast<int>(block_x()) * kWarps + static_cast<int>(warp_index());
  if (column >= load_early(&input.counts->columns) || unit >= p.heads + 2 * p.kv_heads) return wait_for_earlier();
  const int position = load_early(&input.columns[column].position), table = load_early(&input.columns[column].table);
  const int half = p.rope_size / 2, page_number = load_early(input.pages + table + position / kPage);
  const bool is_query = unit < p.heads, is_key = !is_query && unit < p.heads + p.kv_heads;
  const int index = is_query ? unit : is_key ? unit - p.heads : unit - p.heads - p.kv_heads;  // of its kind
  const float* const norm = is_query ? p.q_norm : is_key ? p.k_norm : p.v_norm;
  const float* const weight = norm && p.whole_norms && (is_query || is_key) ? norm + index * p.head_size : norm;
  const bool turns = is_query || is_key, norms_last = turns && p.rotates_first;
  constexpr int kWeights = 8, kTurns = 4;
  const EarlyFloats<kWeights> weights(weight, p.head_size);
  const EarlyFloats<kTurns> cosines(turns ? p.cosine + static_cast<size_t>(position) * half : nullptr, half);
  const EarlyFloats<kTurns> sines(turns ? p.sine + static_cast<size_t>(position) * half : nullptr, half);
  const float temperature = is_query && p.temperatures ? p.temperatures[position] : 1.0f;
  wait_for_earlier();
  SharedMemory memory;
  const int room = (p.head_size + kBlock - 1) / kBlock * kBlock;
  float* const head = memory.take<float>(static_cast<size_t>(kWarps) * room) + warp_index() * room;
  const float* const from = p.mixed + static_cast<size_t>(column) * p.stride +
                            (is_query ? (p.gates ? 2 * index : index) * p.head_size : (is_key ? p.key_offset : p.value_offset) + index * p.head_size);
  for (int i = lane; i < room; i += kWarp) head[i] = i < p.head_size ? from[i] : 0.0f;
  sync_warp();
  const auto norm_head = [&] {
    const bool whole = p.whole_norms && turns;
    const float scale = whole ? inverse_rms(from - index * p.head_size, (is_query ? p.heads : p.kv_heads) * p.head_size, p.epsilon) : inverse_rms(head, p.head_size, p.epsilon);
    sync_warp();  // all have read the head
    each_place<kWeights>(p.head_size, [&](int i, int j) { head[i] = head[i] * scale * early(weights, i, j); });
    sync_warp();
  };
  if (weight && !norms_last) norm_head();
  if (turns) {
    each_place<kTurns>(half, [&](int i, int j) {
      float& first = head[p.pairs ? 2 * i : i];
      float& second = head[p.pairs ? 2 * i + 1 : i + half];
      const float a = first, b = second, cosine = early(cosines, i, j), sine = early(sines, i, j);
      first = fma(a, cosine, -(b * sine));
      second = fma(a, sine, b * cosine);
    });
    sync_warp();
  }
  if (weight && norms_last) norm_head();
  if (is_query) {
    const size_t to = (static_cast<size_t>(column) * p.heads + index) * p.head_size;
    const float scale = p.query_scale * temperature;
    for (int i = lane; i < p.head_size; i += kWarp) {
      p.queries[to + i] = head[i] * scale;
      if (p.gates) p.gates[to + i] = from[p.head_size + i];
    }
    return;
  }
  uint8_t* const page = p.cache.pool + static_cast<size_t>(page_number) * p.cache.page_stride + index * p.head_stride;
  if (is_key) write_key(p.cache.key_type, page + p.cache.key_offset, p.head_size, position % kPage, head);
  else write_value(p.cache.value_type, page + p.cache.value_offset, p.cache.value_stride, p.head_size, position % kPage, head);
}

}  // namespace

void place_keys(const Place& place, const StepInput& input, int most, Stream stream) {
  const int units = place.heads + 2 * place.kv_heads, room = (place.head_size + kBlock - 1) / kBlock * kBlock;
  launch("place_keys", place_heads, {static_cast<unsigned>((units + kWarps - 1) / kWarps), static_cast<unsigned>(most), 1}, kWarps * kWarp,
         static_cast<size_t>(kWarps) * room * sizeof(float), stream, place, input);
}

}  // namespace paceline::cuda
