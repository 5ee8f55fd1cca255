// Mixture of experts: which experts a column chooses, which columns an expert gets, and the weighted sum of the experts' outputs. Nothing returns
// to the host: lists and their number stay on the device, and grids are sized for the most that there could be.
#include "operations.h"

namespace paceline::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kGroupWarps = 16;
constexpr int kThreads = 256;

// The weights of a column's experts: a softmax of the logits, or the sigmoid of each, 0 where it is no number.
PACELINE_DEVICE void weigh_experts(const Routing& r, const float* logits, int lane, float* weights) {
  if (r.sigmoid) {
    for (int e = lane; e < r.experts; e += kWarp) {
      const float weight = sigmoid(logits[e]);
      weights[e] = weight >= 0.0f ? weight : 0.0f;
    }
    return;
  }
  float peak = -__builtin_huge_valf();
  for (int e = lane; e < r.experts; e += kWarp) peak = larger(logits[e], peak);
  for (int width = kWarp / 2; width > 0; width /= 2) peak = larger(peak, shuffle(peak, lane ^ width));
  for (int e = lane; e < r.experts; e += kWarp) weights[e] = exponential(logits[e] - peak);
  sync_warp();
  float all = 0.0f;
  for (int e = 0; e < r.experts; ++e) all = all + weights[e];
  sync_warp();
  for (int e = lane; e < r.experts; e += kWarp) weights[e] = weights[e] / all;
}

// Keys of experts outside the likeliest groups become -inf (native/cpu/step_feed_forward.cpp); a lane takes a group. kept: room for kWarp numbers.
PACELINE_DEVICE void keep_groups(const Routing& r, int lane, float* keys, int* kept) {
  const int size = r.experts / r.groups;
  const float none = -__builtin_huge_valf();
  float score = none;
  sync_warp();  // the keys are there
  if (lane < r.groups) {
    float first = none, second = none;
    for (int e = lane * size; e < (lane + 1) * size; ++e) {
      if (keys[e] > first) {
        second = first;
        first = keys[e];
      } else if (keys[e] > second) {
        second = keys[e];
      }
    }
    score = r.sigmoid && size > 1 ? first + second : first;
  }
  int better = 0;
  for (int other = 0; other < r.groups; ++other) {
    const float others = shuffle(score, other);
    better += others > score || (others == score && other < lane);
  }
  kept[lane] = better < r.groups_used;
  sync_warp();
  for (int e = lane; e < r.experts; e += kWarp)
    if (!kept[e / size]) keys[e] = none;
}

// A warp's room of kWarps' in shared memory.
struct ChoiceRoom {
  float *weights, *keys;  // [experts]; from the choice on, a lane reads only its own weights; keys: what the experts are chosen by
  int* chosen;            // [used]
  float* chosen_weights;  // [used]
  int* kept;              // [kWarp]

  PACELINE_DEVICE ChoiceRoom(SharedMemory& memory, const Routing& r) {
    const size_t warp = warp_index();
    weights = memory.take<float>(static_cast<size_t>(kWarps) * r.experts) + warp * r.experts;
    keys = memory.take<float>(static_cast<size_t>(kWarps) * r.experts) + warp * r.experts;
    chosen = memory.take<int>(static_cast<size_t>(kWarps) * r.used) + warp * r.used;
    chosen_weights = memory.take<float>(static_cast<size_t>(kWarps) * r.used) + warp * r.used;
    kept = memory.take<int>(kWarps * kWarp) + warp * kWarp;
  }
};

// The `used` largest, ties to the lower id. If any logit is infinite or NaN, all weights are NaN. By a warp.
PACELINE_DEVICE void choose(const Routing& r, int column, const ChoiceRoom& room) {
  const int lane = static_cast<int>(lane_index());
  const auto [weights, keys, chosen, chosen_weights, kept] = room;
  const float* const logits = r.logits + static_cast<size_t>(column) * r.stride;
  bool own_broken = false;
  for (int e = lane; e < r.experts; e += kWarp) own_broken = own_broken || logits[e] - logits[e] != 0.0f;
  const bool broken = any_of_warp(own_broken);
  weigh_experts(r, logits, lane, weights);
  for (int e = lane; e < r.experts; e += kWarp) keys[e] = r.choice_bias ? weights[e] + r.choice_bias[e] : weights[e];
  if (r.groups > 1) keep_groups(r, lane, keys, kept);
  float sum = 0.0f;
  for (int k = 0; k < r.used; ++k) {
    Largest best = {-__builtin_huge_valf(), r.experts};
    for (int e = lane; e < r.experts; e += kWarp)
      if (keys[e] > best.value) best = {keys[e], e};
    for (int width = kWarp / 2; width > 0; width /= 2) {
      const Largest other = {shuffle(best.value, lane ^ width), shuffle(best.id, lane ^ width)};
      if (other.value > best.value || (other.value == best.value && other.id < best.id)) best = other;
    }
    const int owner = best.id % kWarp;
    if (lane == owner) keys[best.id] = -__builtin_huge_valf();
    const float weight = shuffle(lane == owner ? weights[best.id] : 0.0f, owner);
    if (lane == 0) {
      chosen[k] = best.id;
      chosen_weights[k] = weight;
    }
    sum = sum + weight;
  }
  sum = sum + kNoWeights;
  sync_warp();
  for (int k = lane; k < r.used; k += kWarp) {
    int before = 0;  // how many of the chosen have a lower id
    for (int j = 0; j < r.used; ++j) before += chosen[j] < chosen[k];
    const float weight = r.normalize ? chosen_weights[k] / sum : chosen_weights[k];
    r.choices[static_cast<size_t>(column) * r.used + before] = {chosen[k], broken ? __builtin_nanf("") : weight, 0};
  }
}

PACELINE_KERNEL choose_of_column(Routing r, StepInput input) {
  begin_kernel();
  const int column = static_cast<int>(block_x()) * kWarps + static_cast<int>(warp_index());
  SharedMemory memory;
  const ChoiceRoom room(memory, r);
  if (column < input.counts->columns) choose(r, column, room);
}

// Assigns places by a counting sort, in the order of the choices: each warp counts a part of them, lane l the experts l, l + 32, ...; then
// the parts' counts become prefix sums. One thread block of so many warps.
template <int warps>
PACELINE_DEVICE void group(const Routing& r, int columns, int together, SharedMemory& memory) {
  constexpr int kThreads = warps * kWarp;
  int* const counts = memory.take<int>(static_cast<size_t>(warps) * r.experts);  // of each part; then the places taken by the parts before it
  int* const first_group = memory.take<int>(r.experts);
  int* const first_list = memory.take<int>(r.experts);
  int* const totals = memory.take<int>(r.experts);
  const int thread = static_cast<int>(thread_index()), warp = static_cast<int>(warp_index()), lane = static_cast<int>(lane_index());
  const int choices = columns * r.used, part = (choices + warps - 1) / warps;
  const int begin = warp * part, end = begin + part < choices ? begin + part : choices;
  int* const own = counts + warp * r.experts;
  for (int e = lane; e < r.experts; e += kWarp) own[e] = 0;
  for (int c = begin; c < end; ++c) {
    const int e = r.choices[c].expert;
    if (e % kWarp == lane) r.choices[c].place = own[e]++;
  }
  sync_block();
  for (int e = thread; e < r.experts; e += kThreads) {
    int total = 0;
    for (int w = 0; w < warps; ++w) {
      const int count = counts[w * r.experts + e];
      counts[w * r.experts + e] = total;
      total += count;
    }
    totals[e] = total;
  }
  sync_block();
  if (warp == 0) {
    const int each = (r.experts + kWarp - 1) / kWarp, first = lane * each, last = first + each < r.experts ? first + each : r.experts;
    int groups = 0, lists = 0;
    for (int e = first; e < last; ++e) {
      groups += (totals[e] + kColumns - 1) / kColumns;
      lists += (totals[e] + together - 1) / together;
    }
    int groups_before = 0, lists_before = 0, all = 0;
    for (int l = 0; l < kWarp; ++l) {
      const int g = shuffle(groups, l), n = shuffle(lists, l);
      if (l < lane) {
        groups_before += g;
        lists_before += n;
      }
      all += n;
    }
    for (int e = first; e < last; ++e) {
      first_group[e] = groups_before;
      first_list[e] = lists_before;
      groups_before += (totals[e] + kColumns - 1) / kColumns;
      lists_before += (totals[e] + together - 1) / together;
    }
    if (lane == 0) *r.list_count = all;
  }
  sync_block();
  for (int c = begin + lane; c < end; c += kWarp) {
    const int e = r.choices[c].expert;
    r.choices[c].place += own[e] + first_group[e] * kColumns;
  }
  for (int e = thread; e < r.experts; e += kThreads) {
    const int place = first_group[e] * kColumns;
    for (int i = 0; i * together < totals[e]; ++i) {
      const int rest = totals[e] - i * together;
      r.lists[first_list[e] + i] = {e, place + i * together, place + i * together + (rest < together ? rest : together)};
    }
  }
}

PACELINE_KERNEL_FOR(kGroupWarps * kWarp, 1) group_choices(Routing r, StepInput input, int together) {
  begin_kernel();
  SharedMemory memory;
  group<kGroupWarps>(r, input.counts->columns, together, memory);
}

// Both, for no more columns than one block chooses for.
PACELINE_KERNEL choose_and_group(Routing r, StepInput input, int together) {
  begin_kernel();
  SharedMemory memory;
  const ChoiceRoom room(memory, r);
  if (static_cast<int>(warp_index()) < input.counts->columns) choose(r, static_cast<int>(warp_index()), room);
  sync_block();
  group<kWarps>(r, input.counts->columns, together, memory);
}

// Copies a column's inputs to the place of each of its choices. A thread block takes a choice.
PACELINE_KERNEL gather_choice(Routing r, StepInput input, Activations from, Activations to) {
  begin_kernel();
  const int choice = static_cast<int>(block_x()), column = choice / r.used;
  if (column >= input.counts->columns) return;
  const int place = r.choices[choice].place;
  const int begin = static_cast<int>(thread_index());
  const size_t source = static_cast<size_t>(column / kColumns) * from.blocks * kColumns + column % kColumns;
  const size_t target = static_cast<size_t>(place / kColumns) * to.blocks * kColumns + place % kColumns;
  if (from.codes)
    for (int i = begin; i < from.blocks * 8; i += kThreads)
      to.codes[(target + static_cast<size_t>(i / 8) * kColumns) * 8 + i % 8] = from.codes[(source + static_cast<size_t>(i / 8) * kColumns) * 8 + i % 8];
  if (from.halves)
    for (int i = begin; i < from.blocks * 16; i += kThreads)
      to.halves[(target + static_cast<size_t>(i / 16) * kColumns) * 16 + i % 16] = from.halves[(source + static_cast<size_t>(i / 16) * kColumns) * 16 + i % 16];
  if (from.brains)
    for (int i = begin; i < from.blocks * kBlock; i += kThreads) {
      const int block = i / kBlock, word = i % kBlock / kBrainWords * kBrainRests + i % kBrainWords;
      to.brains[brain_place(to.blocks, place, block) + word] = from.brains[brain_place(from.blocks, column, block) + word];
    }
  if (from.about)
    for (int i = begin; i < from.blocks * kAboutFields; i += kThreads)
      *about_word(to, place, i / kAboutFields, i % kAboutFields) = *about_word(from, column, i / kAboutFields, i % kAboutFields);
  if (from.wide) {
    const int inputs = from.blocks * kBlock;
    for (int i = begin; i < inputs; i += kThreads) to.wide[wide_place(to.blocks, place, i)] = from.wide[wide_place(from.blocks, column, i)];
  }
}

// Adds the experts' outputs by ascending id, the shared expert's last.
PACELINE_KERNEL combine_column(Combination c, StepInput input) {
  begin_kernel();
  const int column = static_cast<int>(block_y()), i = static_cast<int>(block_x()) * kThreads + static_cast<int>(thread_index());
  if (column >= input.counts->columns || i >= c.size) return;
  const Choice* const choices = c.choices + static_cast<size_t>(column) * c.used;
  float sum = 0.0f;
  for (int k = 0; k < c.used; ++k) sum = fma(choices[k].weight, c.answers[static_cast<size_t>(choices[k].place) * c.stride + i], sum);
  const size_t place = static_cast<size_t>(column) * c.stride + i;
  if (c.shared) sum = fma(c.shared_logits ? sigmoid(c.shared_logits[static_cast<size_t>(column) * c.shared_stride]) : 1.0f, c.shared[place], sum);
  c.x[place] = c.adds ? c.x[place] + sum : sum;
}

}  // namespace

void choose_experts(const Routing& r, int together, const StepInput& input, int most, Stream stream) {
  const size_t chosen = ((static_cast<size_t>(kWarps) * r.used * 4 + 15) / 16 * 16) * 2, row = (static_cast<size_t>(r.experts) * 4 + 15) / 16 * 16;
  const size_t of_choice = 2 * (static_cast<size_t>(kWarps) * r.experts * 4) + chosen + kWarps * kWarp * sizeof(int);
  const auto of_groups = [&](int warps) { return static_cast<size_t>(warps) * r.experts * 4 + 3 * row; };
  if (most <= kWarps) {
    launch("choose_experts", choose_and_group, {}, kWarps * kWarp, of_choice + of_groups(kWarps), stream, r, input, together);
    return;
  }
  launch("choose_experts", choose_of_column, {static_cast<unsigned>((most + kWarps - 1) / kWarps), 1, 1}, kWarps * kWarp, of_choice, stream, r, input);
  launch("group_choices", group_choices, {}, kGroupWarps * kWarp, of_groups(kGroupWarps), stream, r, input, together);
}

void gather_choices(const Routing& r, const StepInput& input, const Activations& from, const Activations& to, int most, Stream stream) {
  launch("gather_choices", gather_choice, {static_cast<unsigned>(most * r.used), 1, 1}, kThreads, 0, stream, r, input, from, to);
}

void combine_experts(const Combination& c, const StepInput& input, int most, Stream stream) {
  const Grid grid = {static_cast<unsigned>((c.size + kThreads - 1) / kThreads), static_cast<unsigned>(most), 1};
  launch("combine_experts", combine_column, grid, kThreads, 0, stream, c, input);
}

}  // namespace paceline::cuda
