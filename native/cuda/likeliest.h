// What log-probabilities are made of, from the unmodified logits: the same bits as Sampler::describe (native/cpu/sampling.cpp). By the sampling block, first.
#pragma once

#include "candidates.h"

namespace paceline::cuda {

constexpr size_t kTellingShared = kMostLogprobs * sizeof(uint64_t);

// d: at temperature 1. best: the id of the largest logit. keys: shared [kMostLogprobs].
PACELINE_DEVICE void tell_likeliest(Candidates& d, int count, int best, int* ids, uint64_t* keys, Told* told) {
  const uint64_t wanted = static_cast<uint64_t>(count);
  const uint64_t sum = take_candidates(d, ids, [&](uint64_t found, uint64_t, uint64_t) { return found >= wanted; });
  d.lowest = key_of_place(d, wanted);
  uint32_t mine = 0;
  each_candidate(d, d.ids, 0, d.count, [&](int id, float logit) { mine += d.by_logit(id, logit) >= d.lowest; });
  uint32_t at = counted_before(d, mine);
  each_candidate(d, d.ids, 0, d.count, [&](int id, float logit) {
    const uint64_t key = d.by_logit(id, logit);
    if (key >= d.lowest) keys[at++] = key;
  });
  sync_block();
  Likely* const top = reinterpret_cast<Likely*>(told + 1);
  for (int i = static_cast<int>(thread_index()); i < count; i += kRowThreads) {
    int place = 0;  // no two keys are equal
    for (int j = 0; j < count; ++j) place += keys[j] > keys[i];
    const int id = d.id_of(keys[i]);
    top[place] = {id, d.logits[id]};
  }
  if (thread_index() == 0) *told = {sum, d.logits[best], d.logits[best]};
}

}  // namespace paceline::cuda
