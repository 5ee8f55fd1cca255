// What a step is told of sampling, and what is told of it afterwards.
#include <algorithm>
#include <cstring>

#include "core.h"

namespace paceline::cuda {

// An entry for each output; the ids whose logits change, behind the page tables.
void DeviceCore::list_samples(const std::vector<Row>& rows, const Sizes& sizes) {
  counts_.resize(shape().vocab);
  std::vector<SampleInput> samples;
  std::vector<Change> changes;
  const size_t begin = InputLayout::rounded(input_.size());
  for (const Row& row : rows) {
    const Sampling& s = row.sampling;
    const int32_t* const history = slots_[row.slot].ids.data();
    const int end = row.position + static_cast<int>(row.tokens.size());
    for (int i = 0; i < row.outputs; ++i) {
      const int length = end - row.outputs + i + 1;  // of the history; the position of the new token
      SampleInput sample{};
      sample.draws = s.temperature >= kColdest;
      sample.factor = sample.draws ? 1.0f / s.temperature : 0.0f;
      sample.top_k = s.top_k;
      sample.top_p = s.top_p;
      sample.min_p = s.min_p;
      sample.repetition = s.repetition;
      sample.frequency = s.frequency;
      sample.presence = s.presence;
      sample.draw = draw(s.seed, static_cast<uint64_t>(length));
      sample.first_change = static_cast<int>(begin + changes.size() * sizeof(Change));
      sample.biases = static_cast<int>(s.bias.size());
      for (const auto& [id, bias] : s.bias) changes.push_back({id, bias, 0, 0.0f});
      if (s.penalizes()) {
        const size_t first = changes.size();
        for (int h = 0; h < length; ++h) {
          int32_t& count = counts_[history[h]];
          if (count == 0) {
            count = 1;
            changes.push_back({history[h], 0.0f, 0, 0.0f});
          }
          if (h >= row.prompt_tokens) ++count;
        }
        for (size_t c = first; c < changes.size(); ++c) {
          changes[c].count = counts_[changes[c].id] - 1;
          counts_[changes[c].id] = 0;
        }
        sample.penalties = static_cast<int>(changes.size() - first);
      }
      samples.push_back(sample);
    }
  }
  input_.resize(begin + changes.size() * sizeof(Change));
  std::memcpy(input_.data() + InputLayout{sizes.columns, true}.sample_begin(), samples.data(), samples.size() * sizeof(SampleInput));
  if (!changes.empty()) std::memcpy(input_.data() + begin, changes.data(), changes.size() * sizeof(Change));
}

bool DeviceCore::needs_logits(const std::vector<Row>& rows, bool keep_logits) const {
  return keep_logits || std::any_of(rows.begin(), rows.end(), [](const Row& row) { return row.outputs && row.sampling.logprobs > 0; });
}

StepResult DeviceCore::finish(const std::vector<Row>& rows, const int32_t* tokens, const float* logits) {
  const Kernels& kernels = choose_kernels("auto");
  const size_t stride = logits_stride(), vocab = shape().vocab;
  size_t outputs = 0, o = 0;
  for (const Row& row : rows) outputs += row.outputs;
  tokens_.assign(tokens, tokens + outputs);
  if (likeliest_.size() < outputs) likeliest_.resize(outputs);
  for (const Row& row : rows)
    for (int i = 0; i < row.outputs; ++i, ++o) {
      if (!logits || row.sampling.logprobs <= 0) continue;
      const float* const own = logits + o * stride;
      sampler_.reserve(static_cast<int>(vocab));
      sampler_.describe(kernels, own, static_cast<int>(vocab), row.sampling.logprobs, likeliest_[o]);
      likeliest_[o].chosen = own[tokens_[o]];
    }
  StepResult result;
  result.tokens = tokens_;
  result.logits = logits;
  result.likeliest = likeliest_.data();
  return result;
}

}  // namespace paceline::cuda
