#include "sampling.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace paceline {

namespace {
struct Before {
  const float* logits;

  float key(int32_t id) const { return logits[id] == logits[id] ? logits[id] : -std::numeric_limits<float>::infinity(); }  // NaN comes last
  bool operator()(int32_t a, int32_t b) const { return key(a) != key(b) ? key(a) > key(b) : a < b; }
};

// Weights are at most 1. As whole numbers their sums are exact, and so the same in any order.
uint64_t whole(float weight) { return static_cast<uint64_t>(weight * kWholeWeight); }
}  // namespace

void Sampler::reserve(int size) {
  weights_.resize((size + 15) / 16 * 16);
  order_.resize(size);
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

// The shortest run of candidates, largest first, whose weights reach `share` of all in [begin, end). Sorts no more than it needs.
template <class Iterator, class Before>
Iterator Sampler::nucleus(Iterator begin, Iterator end, float share, const Before& before) const {
  uint64_t total = 0, reached = 0;
  for (auto it = begin; it != end; ++it) total += whole(weights_[*it]);
  const double enough = share * static_cast<double>(total);
  auto sorted = begin;
  for (ptrdiff_t take = 256; sorted != end; take *= 8) {
    const auto next = end - sorted > take ? sorted + take : end;
    std::nth_element(sorted, next - 1, end, before);
    std::sort(sorted, next, before);
    for (; sorted != next; ++sorted) {
      reached += whole(weights_[*sorted]);
      if (static_cast<double>(reached) >= enough) return sorted + 1;
    }
  }
  return end;
}

int Sampler::sample(const Kernels& kernels, const Sampling& sampling, float* logits, int size, const int32_t* history, int length, int prompt) {
  for (const auto& [id, bias] : sampling.bias) logits[id] += bias;
  if (sampling.penalizes()) penalize(sampling, logits, history, length, prompt);
  const int best = kernels.largest(logits, size);
  if (logits[best] != logits[best]) return kNoToken;
  if (sampling.temperature < kColdest) return best;

  kernels.weigh(logits, logits[best], 1.0f / sampling.temperature, size, weights_.data());
  const Before before{logits};
  std::iota(order_.begin(), order_.end(), 0);
  auto end = order_.end();
  const bool cut = sampling.top_k > 0 && sampling.top_k < size;
  if (cut) {
    end = order_.begin() + sampling.top_k;
    std::nth_element(order_.begin(), end - 1, order_.end(), before);
  }
  if (sampling.top_p < 1.0f) {
    end = nucleus(order_.begin(), end, sampling.top_p, before);
  } else if (cut) {
    std::sort(order_.begin(), end);
  }
  if (sampling.min_p > 0.0f) end = std::remove_if(order_.begin(), end, [&](int32_t id) { return !(weights_[id] >= sampling.min_p); });
  uint64_t total = 0;
  for (auto it = order_.begin(); it != end; ++it) total += whole(weights_[*it]);
  uint64_t left = share_of(draw(sampling.seed, static_cast<uint64_t>(length)), total);
  for (auto it = order_.begin(); it != end; ++it) {
    const uint64_t weight = whole(weights_[*it]);
    if (left < weight) return *it;
    left -= weight;
  }
  return best;  // infinite logits
}

void Sampler::describe(const Kernels& kernels, const float* logits, int size, int count, Likeliest& likeliest) {
  likeliest.peak = logits[kernels.largest(logits, size)];
  kernels.weigh(logits, likeliest.peak, 1.0f, size, weights_.data());
  likeliest.sum = 0;
  for (int i = 0; i < size; ++i) likeliest.sum += whole(weights_[i]);
  std::iota(order_.begin(), order_.end(), 0);
  const auto end = order_.begin() + std::min(count, size);
  const Before before{logits};
  std::partial_sort(order_.begin(), end, order_.end(), before);
  likeliest.top.clear();
  for (auto it = order_.begin(); it != end; ++it) likeliest.top.emplace_back(*it, logits[*it]);
}

}  // namespace paceline
