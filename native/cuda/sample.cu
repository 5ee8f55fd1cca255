// One token from a row of logits: what native/cpu/sampling.cpp does, and the same token. Bias, penalties, temperature, top-k, top-p, min-p, draw.
//
// Candidates are ordered by (logit descending, id ascending), and each question (which are the k largest, which reach a share, whom does the draw hit)
// asks where in an order a sum passes a bound. Sums are of whole numbers, so any order of adding gives the same, and no candidate is ever sorted: a search by
// digits of the key, four bits a pass, finds the place. Before that, one pass takes those near the largest, few as a rule, out of the vocabulary.
//
// A block takes a row. Changed logits are put back at the end: what else reads them sees the model's own.
#include "../cpu/sampling.h"
#include "operations.h"

namespace paceline::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / kWarp;  // 512 would have too many registers on some architectures
constexpr int kDigits = 16, kDigitBits = 4;
constexpr int kCuts = 4;  // how far below the largest, in units of the temperature

struct Draws {
  const float* logits;
  const SampleInput* input;
  int size, id_bits;
  float peak, factor;
  const int* ids;      // of the candidates; null: all of the vocabulary
  int count;
  uint64_t* sums;      // [kWarps][kDigits]
  uint64_t lowest = 0; // the key of the last candidate

  PACELINE_DEVICE float weight(float logit) const { return exponential((logit - peak) * factor); }
  PACELINE_DEVICE uint64_t whole(float weight) const { return static_cast<uint64_t>(weight * kWholeWeight); }
  // Larger for who comes first.
  PACELINE_DEVICE uint64_t by_id(int id) const { return (uint64_t{1} << id_bits) - 1 - id; }
  PACELINE_DEVICE uint64_t by_logit(int id, float logit) const {
    const float x = logit == logit ? logit + 0.0f : -__builtin_huge_valf();  // what is no number comes last; no zero is negative
    const uint32_t bits = float_to_bits(x), ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return static_cast<uint64_t>(ordered) << id_bits | by_id(id);
  }
};

// work(id, logit) for a thread's part of ids [count], or of 0 .. count - 1 where ids are null; some logits are on their way together.
template <class Work>
PACELINE_DEVICE void each_candidate(const Draws& d, const int* ids, int count, Work work) {
  constexpr int kAhead = 4;
  for (int first = static_cast<int>(thread_index()); first < count; first += kAhead * kThreads) {
    int id[kAhead];
    float logit[kAhead];
    PACELINE_UNROLL
    for (int j = 0; j < kAhead; ++j) {
      const int i = first + j * kThreads;
      id[j] = i >= count ? -1 : ids ? ids[i] : i;
    }
    PACELINE_UNROLL
    for (int j = 0; j < kAhead; ++j) logit[j] = id[j] < 0 ? 0.0f : d.logits[id[j]];
    PACELINE_UNROLL
    for (int j = 0; j < kAhead; ++j)
      if (id[j] >= 0) work(id[j], logit[j]);
  }
}

// Sums of all threads, the same for all.
template <int n>
PACELINE_DEVICE void add_up(uint64_t (&values)[n], uint64_t* shared) {
  PACELINE_UNROLL
  for (int i = 0; i < n; ++i)
    for (int width = kWarp / 2; width > 0; width /= 2) values[i] += shuffle(values[i], static_cast<int>(lane_index()) ^ width);
  sync_block();  // whoever still reads what is written now
  if (lane_index() == 0)
    for (int i = 0; i < n; ++i) shared[warp_index() * n + i] = values[i];
  sync_block();
  PACELINE_UNROLL
  for (int i = 0; i < n; ++i) {
    values[i] = 0;
    for (int w = 0; w < kWarps; ++w) values[i] += shared[w * n + i];
  }
}

// The key at which the sum of measure(id, logit) over candidates, largest key first, is enough; where it never is, the smallest key.
template <class Key, class Measure, class Enough>
PACELINE_DEVICE uint64_t search(const Draws& d, int bits, Key key, Measure measure, Enough enough) {
  uint64_t prefix = 0, above = 0;
  for (int shift = (bits + kDigitBits - 1) / kDigitBits * kDigitBits - kDigitBits; shift >= 0; shift -= kDigitBits) {
    uint64_t sums[kDigits];
    PACELINE_UNROLL
    for (int i = 0; i < kDigits; ++i) sums[i] = 0;
    each_candidate(d, d.ids, d.count, [&](int id, float logit) {
      const uint64_t k = key(id, logit) >> shift;
      if (k >> kDigitBits != prefix) return;
      const uint64_t value = measure(id, logit);
      PACELINE_UNROLL
      for (int j = 0; j < kDigits; ++j) sums[j] += static_cast<int>(k % kDigits) == j ? value : 0;
    });
    add_up(sums, d.sums);
    int digit = 0;
    bool found = false;
    PACELINE_UNROLL
    for (int j = kDigits - 1; j >= 0; --j) {
      if (found) continue;
      if (enough(above + sums[j])) {
        digit = j;
        found = true;
      } else {
        above += sums[j];
      }
    }
    prefix = prefix << kDigitBits | digit;
  }
  return prefix;
}

// What the device writes of its input: the logits that were there before.
PACELINE_DEVICE Change* changes_of(const SampleInput& s, const StepInput& input) {
  return reinterpret_cast<Change*>(const_cast<uint8_t*>(reinterpret_cast<const uint8_t*>(input.counts)) + s.first_change);
}

// Bias in the order given, then penalties: an id is once among these.
PACELINE_DEVICE void change_logits(const SampleInput& s, Change* changes, float* logits) {
  const int thread = static_cast<int>(thread_index());
  for (int i = thread; i < s.biases + s.penalties; i += kThreads) changes[i].before = logits[changes[i].id];
  sync_block();
  if (thread == 0)
    for (int i = 0; i < s.biases; ++i) logits[changes[i].id] = logits[changes[i].id] + changes[i].bias;
  sync_block();
  for (int i = s.biases + thread; i < s.biases + s.penalties; i += kThreads) {
    float& logit = logits[changes[i].id];
    logit = logit > 0.0f ? logit / s.repetition : logit * s.repetition;
    if (changes[i].count) logit = logit - static_cast<float>(changes[i].count) * s.frequency - s.presence;
  }
  sync_block();
}

PACELINE_DEVICE int largest_of_row(const float* logits, int size, Largest* shared) {
  Largest best = {-__builtin_huge_valf(), size};
  const auto join = [&](const Largest& other) {
    if (other.value > best.value || (other.value == best.value && other.id < best.id)) best = other;
  };
  for (int i = static_cast<int>(thread_index()); i < size; i += kThreads)
    if (logits[i] == logits[i]) join({logits[i], i});
  for (int width = kWarp / 2; width > 0; width /= 2) {
    const int other = static_cast<int>(lane_index()) ^ width;
    join({shuffle(best.value, other), shuffle(best.id, other)});
  }
  if (lane_index() == 0) shared[warp_index()] = best;
  sync_block();
  for (int w = 0; w < kWarps; ++w) join(shared[w]);
  sync_block();
  return best.id == size ? 0 : best.id;
}

// Who is near enough to the largest that nobody else can be chosen, into `ids`, if there are few.
PACELINE_DEVICE void take_candidates(Draws& d, int* ids) {
  const SampleInput& s = *d.input;
  const float far[kCuts] = {4.0f, 8.0f, 12.0f, 20.0f};
  float bounds[kCuts];
  uint64_t found[2 * kCuts + 1];  // how many, their weights; the weight of all
  uint32_t own[kCuts];
  PACELINE_UNROLL
  for (int j = 0; j < kCuts; ++j) {
    bounds[j] = d.peak - far[j] / d.factor;
    own[j] = 0;
  }
  PACELINE_UNROLL
  for (int j = 0; j < 2 * kCuts + 1; ++j) found[j] = 0;
  each_candidate(d, nullptr, d.size, [&](int, float logit) {
    const uint64_t weight = d.whole(d.weight(logit));
    found[2 * kCuts] += weight;
    PACELINE_UNROLL
    for (int j = 0; j < kCuts; ++j) {
      if (!(logit >= bounds[j])) continue;
      ++own[j];
      found[kCuts + j] += weight;
    }
  });
  PACELINE_UNROLL
  for (int j = 0; j < kCuts; ++j) found[j] = own[j];
  add_up(found, d.sums);
  const bool cut = s.top_k > 0 && s.top_k < d.size;
  const double share = s.top_p * static_cast<double>(found[2 * kCuts]);
  int chosen = kCuts;
  uint32_t mine = 0;
  uint64_t all = 0;
  float bound = 0.0f;
  PACELINE_UNROLL
  for (int j = kCuts - 1; j >= 0; --j) {
    if (found[j] > kMostCandidates || (cut ? found[j] < static_cast<uint64_t>(s.top_k) : static_cast<double>(found[kCuts + j]) < share)) continue;
    chosen = j;
    mine = own[j];
    all = found[j];
    bound = bounds[j];
  }
  if (chosen == kCuts) return;
  // Where each thread's begin.
  uint32_t before = 0;
  int lane = static_cast<int>(lane_index());
  for (int l = 0; l < kWarp; ++l) {
    const uint32_t theirs = shuffle(mine, l);
    if (l < lane) before += theirs;
  }
  sync_block();
  if (lane == kWarp - 1) d.sums[warp_index()] = before + mine;
  sync_block();
  for (int w = 0; w < static_cast<int>(warp_index()); ++w) before += static_cast<uint32_t>(d.sums[w]);
  each_candidate(d, nullptr, d.size, [&](int id, float logit) {
    if (logit >= bound) ids[before++] = id;
  });
  sync_block();
  d.ids = ids;
  d.count = static_cast<int>(all);
}

PACELINE_DEVICE int draw_token(Draws& d, int best, int* ids) {
  const SampleInput& s = *d.input;
  const bool cut = s.top_k > 0 && s.top_k < d.size, nucleus = s.top_p < 1.0f;
  if (cut || nucleus) take_candidates(d, ids);
  const int bits = 32 + d.id_bits;
  const auto by_logit = [&](int id, float logit) { return d.by_logit(id, logit); };
  if (cut) {
    const uint64_t wanted = static_cast<uint64_t>(s.top_k);
    d.lowest = search(d, bits, by_logit, [](int, float) -> uint64_t { return 1; }, [&](uint64_t sum) { return sum >= wanted; });
  }
  const auto weight = [&](int id, float logit) { return d.by_logit(id, logit) >= d.lowest ? d.whole(d.weight(logit)) : 0; };
  const auto total_of = [&](const int* own, int count, auto measure) {
    uint64_t total[1] = {0};
    each_candidate(d, own, count, [&](int id, float logit) { total[0] += measure(id, logit); });
    add_up(total, d.sums);
    return total[0];
  };
  if (nucleus) {
    const bool of_all = !cut && d.ids;  // of those that were left out too
    const uint64_t all = of_all ? total_of(nullptr, d.size, [&](int, float logit) { return d.whole(d.weight(logit)); }) : total_of(d.ids, d.count, weight);
    const double enough = s.top_p * static_cast<double>(all);
    d.lowest = search(d, bits, by_logit, weight, [&](uint64_t sum) { return static_cast<double>(sum) >= enough; });
  }
  const auto kept = [&](int id, float logit) -> uint64_t {
    if (d.by_logit(id, logit) < d.lowest) return 0;
    const float w = d.weight(logit);
    return s.min_p > 0.0f && !(w >= s.min_p) ? 0 : d.whole(w);
  };
  const uint64_t total = total_of(d.ids, d.count, kept), drawn = share_of(s.draw, total);
  if (total == 0) return best;
  const auto hit = [&](uint64_t sum) { return sum > drawn; };
  const uint64_t mask = (uint64_t{1} << d.id_bits) - 1;
  const uint64_t key = nucleus ? search(d, bits, by_logit, kept, hit) : search(d, d.id_bits, [&](int id, float) { return d.by_id(id); }, kept, hit);
  return static_cast<int>(mask - (key & mask));
}

PACELINE_KERNEL_FOR(kThreads, 1) sample_row(Sample sample, StepInput input) {
  begin_kernel();
  const int output = static_cast<int>(block_x());
  if (output >= input.counts->outputs) return;
  const SampleInput& s = input.samples[output];
  const bool changes = s.biases + s.penalties > 0;
  if (!s.draws && !changes) return;  // choose_largest has been here
  SharedMemory memory;
  uint64_t* const sums = memory.take<uint64_t>(kWarps * kDigits);
  Largest* const largest = memory.take<Largest>(kWarps);
  float* const logits = sample.logits + static_cast<size_t>(output) * sample.stride;
  Change* const own = changes_of(s, input);
  if (changes) change_logits(s, own, logits);
  const int best = changes ? largest_of_row(logits, sample.size, largest) : sample.tokens[output];
  int token = best;
  if (s.draws) {
    Draws d{logits, &s, sample.size, sample.id_bits, logits[best], s.factor, nullptr, sample.size, sums};
    token = draw_token(d, best, sample.candidates + static_cast<size_t>(output) * kMostCandidates);
  }
  sync_block();
  if (thread_index() == 0) sample.tokens[output] = token;
  // An id may be biased and penalized; all of its entries hold the model's own logit.
  for (int i = static_cast<int>(thread_index()); i < s.biases + s.penalties; i += kThreads) logits[own[i].id] = own[i].before;
}

}  // namespace

void sample_tokens(const Sample& sample, const StepInput& input, int most, Stream stream) {
  constexpr size_t kShared = kWarps * (kDigits * sizeof(uint64_t) + sizeof(Largest));
  launch("sample_tokens", sample_row, {static_cast<unsigned>(most), 1, 1}, kThreads, kShared, stream, sample, input);
}

}  // namespace paceline::cuda
