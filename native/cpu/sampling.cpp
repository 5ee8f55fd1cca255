#include "sampling.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "kernels.h"

namespace paceline {

namespace {
constexpr float kNear = 8.0f;         // in units of the temperature below the largest logit; usually enough, and usually few are in it
constexpr float kLightest = 0x1p-40f; // what weighs less counts for nothing
constexpr int kGroups = 2048;
constexpr float kGroupsPerUnit = 64.0f;
constexpr int kStretch = 1024;

struct Before {
  const float* logits;

  float key(int32_t id) const { return logits[id] == logits[id] ? logits[id] : -std::numeric_limits<float>::infinity(); }  // NaN comes last
  bool operator()(int32_t a, int32_t b) const { return key(a) != key(b) ? key(a) > key(b) : a < b; }
};

// Last, so that neither bias nor penalty brings back what is not allowed.
void forbid(const uint32_t* allowed, float* logits, int size) {
  for (int first = 0; first < size; first += 32) {
    if (allowed[first / 32] == ~uint32_t{0}) continue;
    const int end = std::min(size, first + 32);
    for (int id = first; id < end; ++id)
      if (!has(allowed, id)) logits[id] = -std::numeric_limits<float>::infinity();
  }
}

// The first that is allowed of those that have no larger logit than what is not.
int first_allowed(const uint32_t* allowed, const float* logits, int size) {
  for (int id = 0; id < size; ++id)
    if (has(allowed, id) && logits[id] == logits[id]) return id;
  return kNoToken;
}
}  // namespace

void Sampler::reserve(int size) {
  weights_.resize((size + 15) / 16 * 16);
  found_.resize(size);
  order_.resize(size);
  ends_.resize(kGroups);
  sums_.resize((size + kStretch - 1) / kStretch);
  counts_.resize(size);
  seen_.resize(size);
}

uint32_t draw(uint64_t seed, uint64_t position) {
  uint32_t c[4] = {static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), 0, 0};
  uint32_t key[2] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * c[0], b = uint64_t{0xCD9E8D57u} * c[2];
    const uint32_t next[4] = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ key[0], static_cast<uint32_t>(b),
                              static_cast<uint32_t>(a >> 32) ^ c[3] ^ key[1], static_cast<uint32_t>(a)};
    std::copy(next, next + 4, c);
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return c[0];
}

void Sampler::penalize(const Sampling& sampling, float* logits, const int32_t* history, int length, int prompt) {
  for (int i = prompt; i < length; ++i) ++counts_[history[i]];
  for (int i = 0; i < length; ++i) {
    const int id = history[i];
    if (seen_[id]) continue;
    seen_[id] = 1;
    float& logit = logits[id];
    logit = logit > 0.0f ? logit / sampling.repetition : logit * sampling.repetition;
    if (counts_[id]) logit = logit - static_cast<float>(counts_[id]) * sampling.frequency - sampling.presence;
  }
  for (int i = 0; i < length; ++i) counts_[history[i]] = seen_[history[i]] = 0;
}

// The first `count` of found_ -> order_, by logit but for the order within each group. A group is a range of logits, and sorted where it matters.
void Sampler::group(const float* logits, float peak, float factor, int count) {
  const float scale = factor * kGroupsPerUnit;
  const auto group_of = [=](int32_t id) {
    const float below = (peak - logits[id]) * scale;
    return below < kGroups - 1 ? static_cast<int>(below) : kGroups - 1;
  };
  std::fill(ends_.begin(), ends_.end(), 0);
  for (int i = 0; i < count; ++i) ++ends_[group_of(found_[i])];
  std::exclusive_scan(ends_.begin(), ends_.end(), ends_.begin(), 0);
  for (int i = 0; i < count; ++i) order_[ends_[group_of(found_[i])]++] = found_[i];
}

// How many of the first `count` of order_, likeliest first, it takes until the sum of their measures is enough; all if it never is. Those are sorted by logit
// as far as groups are, and the last one is the one that it ends with.
template <class Measure, class Enough>
int Sampler::shortest(const float* logits, int count, Measure measure, Enough enough) {
  uint64_t sum = 0;
  for (int group = 0, begin = 0; begin < count; begin = ends_[group++]) {
    const int end = std::min(ends_[group], count);
    uint64_t own = 0;
    for (int i = begin; i < end; ++i) own += measure(order_[i]);
    if (begin == end || !enough(sum + own)) {
      sum += own;
      continue;
    }
    std::sort(order_.begin() + begin, order_.begin() + end, Before{logits});
    for (int i = begin; i < end; ++i) {
      sum += measure(order_[i]);
      if (enough(sum)) return i + 1;
    }
  }
  return count;
}

// The id at which the running sum, by id, of the weights of at least `least` passes the share of their sum that is drawn.
int Sampler::draw_of_all(const Kernels& kernels, float least, uint32_t drawn, int size) {
  uint64_t total = 0;
  for (int first = 0; first < size; first += kStretch)
    total += sums_[first / kStretch] = kernels.add_weights(weights_.data() + first, least, std::min(kStretch, size - first));
  uint64_t left = share_of(drawn, total);
  int id = 0;
  for (size_t stretch = 0; left >= sums_[stretch]; ++stretch, id += kStretch) left -= sums_[stretch];
  for (;; ++id) {
    const uint64_t weight = weights_[id] >= least ? whole(weights_[id]) : 0;
    if (left < weight) return id;
    left -= weight;
  }
}

int Sampler::sample(const Kernels& kernels, const Sampling& sampling, const uint32_t* allowed, float* logits, int size, const int32_t* history, int length,
                    int prompt) {
  for (const auto& [id, bias] : sampling.bias) logits[id] += bias;
  if (sampling.penalizes()) penalize(sampling, logits, history, length, prompt);
  if (allowed) forbid(allowed, logits, size);
  const int best = kernels.largest(logits, size);
  if (allowed && !(logits[best] > -std::numeric_limits<float>::infinity())) return first_allowed(allowed, logits, size);
  if (logits[best] != logits[best]) return kNoToken;
  if (sampling.temperature < kColdest) return best;

  const float peak = logits[best], factor = 1.0f / sampling.temperature;
  if (peak - peak != 0.0f) return best;  // infinite: nothing beside it weighs anything
  kernels.weigh(logits, peak, factor, size, weights_.data());
  const uint32_t drawn = draw(sampling.seed, static_cast<uint64_t>(length));
  const bool cut = sampling.top_k > 0 && sampling.top_k < size, nucleus = sampling.top_p < 1.0f;
  const float least = std::min(1.0f, sampling.min_p);  // the largest weighs 1, so something is always drawn
  if (!cut && !nucleus) return draw_of_all(kernels, least, drawn, size);

  const auto weight = [&](int32_t id) { return whole(weights_[id]); };
  const auto sum = [&](const std::vector<int32_t>& ids, int count) {
    return std::accumulate(ids.begin(), ids.begin() + count, uint64_t{0}, [&](uint64_t sum, int32_t id) { return sum + weight(id); });
  };
  const auto reaches = [&](uint64_t sum, uint64_t total) { return static_cast<double>(sum) >= sampling.top_p * static_cast<double>(total); };
  uint64_t total = cut ? 0 : kernels.add_weights(weights_.data(), 0.0f, size);
  int count = kernels.find_larger(logits, peak - kNear * sampling.temperature, size, found_.data());
  if (cut ? count < sampling.top_k : !reaches(sum(found_, count), total)) count = kernels.find_larger(weights_.data(), kLightest, size, found_.data());
  group(logits, peak, factor, count);
  if (cut) {
    count = shortest(logits, count, [](int32_t) { return 1; }, [&](uint64_t sum) { return sum >= static_cast<uint64_t>(sampling.top_k); });
    total = sum(order_, count);
  }
  if (nucleus) count = shortest(logits, count, weight, [&](uint64_t sum) { return reaches(sum, total); });

  const auto kept = [&](int32_t id) { return weights_[id] >= least ? weight(id) : 0; };
  total = std::accumulate(order_.begin(), order_.begin() + count, uint64_t{0}, [&](uint64_t sum, int32_t id) { return sum + kept(id); });
  const uint64_t left = share_of(drawn, total);
  if (nucleus) return order_[shortest(logits, count, kept, [&](uint64_t sum) { return sum > left; }) - 1];
  std::sort(order_.begin(), order_.begin() + count);
  uint64_t passed = 0;
  return *std::find_if(order_.begin(), order_.begin() + count, [&](int32_t id) { return (passed += kept(id)) > left; });
}

void Sampler::describe(const Kernels& kernels, const float* logits, int size, int count, Likeliest& likeliest) {
  likeliest.peak = logits[kernels.largest(logits, size)];
  kernels.weigh(logits, likeliest.peak, 1.0f, size, weights_.data());
  likeliest.sum = kernels.add_weights(weights_.data(), 0.0f, size);
  count = std::min(count, size);
  int found = kernels.find_larger(logits, likeliest.peak - kNear, size, found_.data());
  if (found < count || likeliest.peak == -std::numeric_limits<float>::infinity()) {  // NaN is as likely then
    std::iota(found_.begin(), found_.end(), 0);
    found = size;
  }
  std::partial_sort(found_.begin(), found_.begin() + count, found_.begin() + found, Before{logits});
  likeliest.top.clear();
  for (int i = 0; i < count; ++i) likeliest.top.emplace_back(found_[i], logits[found_[i]]);
}

}  // namespace paceline
