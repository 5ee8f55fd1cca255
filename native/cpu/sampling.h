// One token from one row of logits. Order: bias, penalties, what is allowed, temperature, top-k, top-p, min-p, draw.
//
// The draw is a function of (seed, position) alone: Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011) with the seed as key and the position of the new token as counter. Company, slot and history of
// calls can't change it. Candidates are ordered by (logit descending, id ascending), so ties have one answer. Weights, at
// most 1, are summed as multiples of 2^-40: exactly, so that any machine may add them in any order and draw the same.
// So are those of log-probabilities: what is left out of 2^18 of them is less than 2.4e-7 of their sum.
#pragma once

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

namespace paceline {

struct Kernels;

struct Sampling {
  float temperature = 0.0f;  // 0: the largest logit
  int top_k = 0;             // 0: all
  float top_p = 1.0f;
  float min_p = 0.0f;
  float repetition = 1.0f;   // over prompt and output: logit > 0 ? logit / r : logit * r
  float frequency = 0.0f;    // over output: logit - count * frequency
  float presence = 0.0f;     // over output: logit - presence, once
  uint64_t seed = 0;
  std::vector<std::pair<int32_t, float>> bias;  // added to the logits of these ids
  int logprobs = 0;                             // how many of the likeliest are told beside the token; 0: nothing is

  bool operator==(const Sampling&) const = default;
  bool penalizes() const { return repetition != 1.0f || frequency != 0.0f || presence != 0.0f; }
  bool changes() const { return penalizes() || !bias.empty(); }
};

// What the logits were before anything changed them: of the likeliest ids and, once it is chosen, of the token.
struct Likeliest {
  std::vector<std::pair<int32_t, float>> top;  // id and logit, likeliest first
  float peak = 0.0f;                           // the largest logit
  uint64_t sum = 0;                            // of exp(logit - peak) over the vocabulary, each a whole number of 2^-40
  float chosen = 0.0f;                         // the token's logit

  // A token's log-probability is its logit less this. Where nothing can be summed, the largest being no number or infinite, it is the largest.
  double normalizer() const { return peak + (sum ? std::log(static_cast<double>(sum) * 0x1p-40) : 0.0); }
};

// Room for one thread's sampling over a vocabulary of `size`.
class Sampler {
 public:
  // Makes the room; what follows allocates nothing.
  void reserve(int size);

  // logits [size, padded to 16] are changed where bias and penalties apply, and where `allowed` (words_of(size) words; null: all) has a zero bit.
  // history [length]: all ids before the new token, of which the first `prompt` are the prompt's. position = length, that of the new token. kNoToken where
  // nothing that is allowed is a number.
  int sample(const Kernels& kernels, const Sampling& sampling, const uint32_t* allowed, float* logits, int size, const int32_t* history, int length, int prompt);

  // The `count` likeliest of logits [size, padded to 16].
  void describe(const Kernels& kernels, const float* logits, int size, int count, Likeliest& likeliest);

 private:
  void penalize(const Sampling& sampling, float* logits, const int32_t* history, int length, int prompt);

  void group(const float* logits, float peak, float factor, int count);
  template <class Measure, class Enough>
  int shortest(const float* logits, int count, Measure measure, Enough enough);
  int draw_of_all(const Kernels& kernels, float least, uint32_t drawn, int size);

  std::vector<float> weights_;
  std::vector<int32_t> found_;   // ids near the largest logit, ascending
  std::vector<int32_t> order_;   // the same, in groups of similar logits
  std::vector<int> ends_;        // of the groups in order_
  std::vector<uint64_t> sums_;   // of weights, by stretch of ids
  std::vector<int32_t> counts_;  // [size], all zero between calls: appearances in the output
  std::vector<uint8_t> seen_;    // [size], all zero between calls
};

// Uniform in [0, 2^32), and in [0, 1).
uint32_t draw(uint64_t seed, uint64_t position);
inline double uniform(uint64_t seed, uint64_t position) { return draw(seed, position) * 0x1p-32; }

constexpr int kNoToken = -1;               // where all that is allowed is NaN: the model has broken down, and no token is its answer
constexpr int kMostLogprobs = 1024;        // likeliest that can be asked for
constexpr float kColdest = 1e-30f;         // 1 / temperature must stay finite; a temperature below this is greedy
// A set of ids: bit id % 32 of word id / 32.
constexpr int words_of(int size) { return (size + 31) / 32; }
constexpr bool has(const uint32_t* set, int id) { return set[id / 32] >> id % 32 & 1; }
// drawn / 2^32 of total, rounded down
constexpr uint64_t share_of(uint32_t drawn, uint64_t total) { return drawn * (total >> 32) + (drawn * (total & 0xffffffffu) >> 32); }

}  // namespace paceline
