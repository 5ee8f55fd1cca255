// Latent attention's own parts (native/cpu/step_latent.cpp): inputs and outputs of the heads' products move between columns, where a head follows the other,
// and places, where a head's columns lie together as an expert's do; queries and keys turn; keys and values go into the cache.
#include "cache_write.h"
#include "operations.h"

namespace paceline::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / kWarp;
constexpr int kPlaceWarps = 4;

// Each head is an expert that every column chose.
PACELINE_KERNEL list_heads(HeadLists lists, int heads, int together, StepInput input) {
  begin_kernel();
  const int columns = input.counts->columns, of_head = (columns + together - 1) / together;
  for (int i = static_cast<int>(thread_index()); i < heads * of_head; i += kThreads) {
    const int head = i / of_head, first = i % of_head * together, rest = columns - first;
    lists.lists[i] = {head, head * lists.padded + first, head * lists.padded + first + (rest < together ? rest : together)};
  }
  if (thread_index() == 0) *lists.count = heads * of_head;
}

// A warp takes a block of 32 inputs of a column's head.
PACELINE_KERNEL quantize_heads(HeadInputs h, StepInput input) {
  begin_kernel();
  const int column = static_cast<int>(block_y()), unit = static_cast<int>(block_x()) * kWarps + static_cast<int>(warp_index()), blocks = h.size / kBlock;
  if (column >= input.counts->columns || unit >= h.heads * blocks) return;
  const int head = unit / blocks, block = unit % blocks, place = head * h.padded + column;
  const size_t from = (h.from_places ? static_cast<size_t>(place) : static_cast<size_t>(column)) * h.stride + (h.from_places ? 0 : head * h.head_stride);
  float y = h.x[from + block * kBlock + lane_index()];
  if (h.temperatures) y *= h.temperatures[input.columns[column].position];
  if (h.from_places) store_block(h.out, column, unit, y);
  else store_block(h.out, place, block, y);
}

// Of each column: its queries, one head to a warp, and by one more warp its key and value.
PACELINE_KERNEL place_latent(LatentPlace p, StepInput input) {
  let_next_begin();
  const int column = static_cast<int>(block_y()), unit = static_cast<int>(block_x()) * kPlaceWarps + static_cast<int>(warp_index()), lane = static_cast<int>(lane_index());
  if (column >= load_early(&input.counts->columns) || unit > p.heads) return wait_for_earlier();
  const int position = load_early(&input.columns[column].position), table = load_early(&input.columns[column].table);
  const int half = p.rope_size / 2, page_number = load_early(input.pages + table + position / kPage), head_size = p.latent + p.rope_size;
  const float* const cosines = p.cosine + static_cast<size_t>(position) * half;
  const float* const sines = p.sine + static_cast<size_t>(position) * half;
  wait_for_earlier();
  SharedMemory memory;
  float* const head = memory.take<float>(static_cast<size_t>(kPlaceWarps) * p.room) + warp_index() * p.room;
  const bool is_query = unit < p.heads;
  const float* const turning = is_query ? p.queries_from + static_cast<size_t>(column) * p.query_stride + unit * (p.head_keys + p.rope_size) + p.head_keys
                                        : p.keys_from + static_cast<size_t>(column) * p.key_stride + p.latent;
  const float temperature = is_query && p.temperatures ? p.temperatures[position] : 1.0f;
  for (int i = lane; i < p.rope_size; i += kWarp) head[p.latent + i] = turning[i] * temperature;
  const float* const still = is_query ? p.absorbed + static_cast<size_t>(unit * p.padded + column) * p.absorbed_stride : turning - p.latent;
  for (int i = lane; i < p.latent; i += kWarp) head[i] = still[i];
  sync_warp();
  if (!is_query) {
    const float scale = inverse_rms(head, p.latent, p.epsilon);
    sync_warp();  // all have read it
    for (int i = lane; i < p.latent; i += kWarp) head[i] = head[i] * scale * p.norm[i];
  }
  for (int i = lane; i < half; i += kWarp) {
    float& first = head[p.latent + (p.pairs ? 2 * i : i)];
    float& second = head[p.latent + (p.pairs ? 2 * i + 1 : i + half)];
    const float a = first, b = second, cosine = cosines[i], sine = sines[i];
    first = fma(a, cosine, -(b * sine));
    second = fma(a, sine, b * cosine);
  }
  sync_warp();
  if (is_query) {
    float* const to = p.queries + (static_cast<size_t>(column) * p.heads + unit) * head_size;
    for (int i = lane; i < head_size; i += kWarp) to[i] = i < p.latent ? head[i] : head[i] * p.query_scale;
    return;
  }
  uint8_t* const page = p.cache.pool + static_cast<size_t>(page_number) * p.cache.page_stride;
  write_key(p.cache.key_type, page + p.cache.key_offset, head_size, position % kPage, head);
  write_value(p.cache.value_type, page + p.cache.value_offset, p.cache.value_stride, p.latent, position % kPage, head);
}

}  // namespace

void list_head_columns(const HeadLists& lists, int heads, int together, const StepInput& input, Stream stream) {
  launch("list_heads", list_heads, {}, kThreads, 0, stream, lists, heads, together, input);
}

void quantize_of_heads(const HeadInputs& inputs, const StepInput& input, int most, Stream stream) {
  const int units = inputs.heads * (inputs.size / kBlock);
  launch("quantize_heads", quantize_heads, {static_cast<unsigned>((units + kWarps - 1) / kWarps), static_cast<unsigned>(most), 1}, kThreads, 0, stream, inputs, input);
}

void place_latents(LatentPlace place, const StepInput& input, int most, Stream stream) {
  place.room = (place.latent + place.rope_size + kBlock - 1) / kBlock * kBlock;
  launch("place_latents", place_latent, {static_cast<unsigned>((place.heads + 1 + kPlaceWarps - 1) / kPlaceWarps), static_cast<unsigned>(most), 1}, kPlaceWarps * kWarp,
         static_cast<size_t>(kPlaceWarps) * place.room * sizeof(float), stream, place, input);
}

}  // namespace paceline::cuda
