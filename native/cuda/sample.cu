// Samples one token from a row of logits, the same as native/cpu/sampling.cpp: bias, penalties, what is allowed, temperature, top-k, top-p, min-p, draw.
// Top-k, top-p and the draw are searches for where a running sum passes a bound (candidates.h).
//
// A thread block takes a row. Log-probabilities (likeliest.h) are of the model's own logits, so they come first; changed logits are restored at the end.
#include "likeliest.h"

namespace paceline::cuda {
namespace {

PACELINE_DEVICE Change* changes_at(const SampleInput& s, const StepInput& input) {
  return reinterpret_cast<Change*>(const_cast<uint8_t*>(reinterpret_cast<const uint8_t*>(input.counts)) + s.first_change);
}

// The changes of an output's logits: biases, then penalties.
struct Changes {
  Change* all;
  int biases, count;
  int followed = kNoToken;  // the token that the output follows, if the host did not know it
  int more = 0;             // how often it appears in the output besides

  PACELINE_DEVICE int id(int i) const { return all[i].id < 0 ? followed : all[i].id; }
  PACELINE_DEVICE int appearances(int i) const { return all[i].count + (all[i].id == followed ? more : 0); }
};

// flag: shared.
PACELINE_DEVICE Changes changes_of(const SampleInput& s, const StepInput& input, int output, int* flag) {
  Changes found = {changes_at(s, input), s.biases, s.biases + s.penalties};
  const int last = found.count - 1;
  if (s.penalties == 0 || found.all[last].id >= 0) return found;
  found.followed = input.columns[input.output_columns[output]].token;
  found.more = found.all[last].count;
  if (thread_index() == 0) *flag = 0;
  sync_block();
  for (int i = s.biases + static_cast<int>(thread_index()); i < last; i += kRowThreads)
    if (found.all[i].id == found.followed) *flag = 1;  // at most one thread
  sync_block();
  found.count -= *flag;
  return found;
}

// Bias in the order given, by one thread; then penalties, in which each id appears once.
PACELINE_DEVICE void change_logits(const SampleInput& s, const Changes& changes, float* logits) {
  const int thread = static_cast<int>(thread_index());
  for (int i = thread; i < changes.count; i += kRowThreads) changes.all[i].before = logits[changes.id(i)];
  sync_block();
  if (thread == 0)
    for (int i = 0; i < changes.biases; ++i) logits[changes.id(i)] = logits[changes.id(i)] + changes.all[i].bias;
  sync_block();
  for (int i = changes.biases + thread; i < changes.count; i += kRowThreads) {
    float& logit = logits[changes.id(i)];
    logit = logit > 0.0f ? logit / s.repetition : logit * s.repetition;
    const int count = changes.appearances(i);
    if (count) logit = logit - static_cast<float>(count) * s.frequency - s.presence;
  }
  sync_block();
}

// An id may be biased twice, and penalized; all of its entries hold the model's own logit, but two threads never write to one place at once.
PACELINE_DEVICE void restore_logits(const Changes& changes, float* logits) {
  const int thread = static_cast<int>(thread_index());
  for (int i = changes.biases + thread; i < changes.count; i += kRowThreads) logits[changes.id(i)] = changes.all[i].before;
  sync_block();
  if (thread == 0)
    for (int i = 0; i < changes.biases; ++i) logits[changes.id(i)] = changes.all[i].before;
}

// Of those that are allowed (null: all); kNoToken if none of them is a number.
PACELINE_DEVICE int largest_of_row(const float* logits, const uint32_t* allowed, int size, Largest* shared) {
  Largest best = {-__builtin_huge_valf(), size};
  const auto join = [&](const Largest& other) {
    if (other.value > best.value || (other.value == best.value && other.id < best.id)) best = other;
  };
  for (int i = static_cast<int>(thread_index()); i < size; i += kRowThreads)
    if (logits[i] == logits[i] && (!allowed || has(allowed, i))) join({logits[i], i});
  for (int width = kWarp / 2; width > 0; width /= 2) {
    const int other = static_cast<int>(lane_index()) ^ width;
    join({shuffle(best.value, other), shuffle(best.id, other)});
  }
  if (lane_index() == 0) shared[warp_index()] = best;
  sync_block();
  for (int w = 0; w < kRowWarps; ++w) join(shared[w]);
  sync_block();
  return best.id == size ? kNoToken : best.id;
}

PACELINE_DEVICE int draw_token(const SampleInput& s, Candidates& d, int best, int* ids) {
  const bool cut = s.top_k > 0 && s.top_k < d.size, nucleus = s.top_p < 1.0f;
  const uint64_t kept_at_most = static_cast<uint64_t>(s.top_k);
  uint64_t of_all = 0;  // the total weight, where it is needed
  if (cut || nucleus)
    of_all = take_candidates(d, ids, [&](uint64_t count, uint64_t weight, uint64_t all) {
      return cut ? count >= kept_at_most : !(static_cast<double>(weight) < s.top_p * static_cast<double>(all));
    });
  const int bits = 32 + d.id_bits;
  const auto by_logit = [&](int id, float logit) { return d.by_logit(id, logit); };
  if (cut) d.lowest = key_of_place(d, kept_at_most);
  const auto weight = [&](int id, float logit) { return d.by_logit(id, logit) >= d.lowest ? d.whole(d.weight(logit)) : 0; };
  const auto total_of = [&](auto measure) {
    uint64_t total[1] = {0};
    each_candidate(d, d.ids, 0, d.count, [&](int id, float logit) { total[0] += measure(id, logit); });
    add_up(total, d.sums);
    return total[0];
  };
  if (nucleus) {
    const uint64_t all = cut ? total_of(weight) : of_all;
    const double enough = s.top_p * static_cast<double>(all);
    d.lowest = search(d, bits, by_logit, weight, [&](uint64_t sum) { return static_cast<double>(sum) >= enough; });
  }
  const auto kept = [&](int id, float logit) -> uint64_t {
    if (d.by_logit(id, logit) < d.lowest) return 0;
    const float w = d.weight(logit);
    return s.min_p > 0.0f && !(w >= s.min_p) ? 0 : d.whole(w);
  };
  const uint64_t total = total_of(kept), drawn = share_of(s.draw, total);
  if (total == 0) return best;
  const auto hit = [&](uint64_t sum) { return sum > drawn; };
  const uint64_t key = nucleus ? search(d, bits, by_logit, kept, hit) : search_ids(d, kept, hit);
  return d.id_of(key);
}

PACELINE_KERNEL_FOR(kRowThreads, 1) sample_row(Sample sample, StepInput input) {
  begin_kernel();
  const int output = static_cast<int>(block_x());
  if (output >= input.counts->outputs) return;
  const SampleInput& s = input.samples[output];
  const bool changes = s.biases + s.penalties > 0;
  SharedMemory memory;
  uint64_t* const sums = memory.take<uint64_t>(kRowWarps * kDigits);
  Largest* const largest = memory.take<Largest>(kRowWarps);
  uint64_t* const keys = memory.take<uint64_t>(kMostLogprobs);
  int* const flag = memory.take<int>(1);
  float* const logits = sample.logits + static_cast<size_t>(output) * sample.stride;
  int* const ids = sample.candidates + static_cast<size_t>(output) * kMostCandidates;
  Told* const told = reinterpret_cast<Told*>(sample.told + s.first_told);
  const int largest_id = sample.tokens[output];  // from choose_largest
  const int unchanged_best = largest_id == kNoToken ? 0 : largest_id;
  if (s.told) {
    Candidates d{logits, sample.size, sample.id_bits, logits[unchanged_best], 1.0f, nullptr, sample.size, sums};
    tell_likeliest(d, s.told, unchanged_best, ids, keys, told);
  }
  if (largest_id == kNoToken || (!s.draws && !changes && !s.allowed)) return;  // no change turns NaN into a number
  const uint32_t* const allowed = s.allowed ? reinterpret_cast<const uint32_t*>(reinterpret_cast<const uint8_t*>(input.counts) + s.allowed) : nullptr;
  const Changes own = changes_of(s, input, output, flag);
  if (changes) change_logits(s, own, logits);
  const int best = changes || allowed ? largest_of_row(logits, allowed, sample.size, largest) : unchanged_best;
  int token = best;
  if (s.draws && best != kNoToken && logits[best] - logits[best] == 0.0f) {  // beside an infinite one nothing weighs anything
    Candidates d{logits, sample.size, sample.id_bits, logits[best], s.factor, nullptr, sample.size, sums, allowed};
    token = draw_token(s, d, best, ids);
  }
  sync_block();
  if (thread_index() == 0) sample.tokens[output] = token;
  if (changes) restore_logits(own, logits);
  if (!s.told) return;
  sync_block();
  if (thread_index() == 0) told->chosen = logits[token == kNoToken ? 0 : token];
}

}  // namespace

void sample_tokens(const Sample& sample, const StepInput& input, int most, Stream stream) {
  constexpr size_t kShared = kRowWarps * (kDigits * sizeof(uint64_t) + sizeof(Largest)) + kTellingShared + sizeof(int);
  launch("sample_tokens", sample_row, {static_cast<unsigned>(most), 1, 1}, kRowThreads, kShared, stream, sample, input);
}

}  // namespace paceline::cuda
