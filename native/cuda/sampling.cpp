// The host's side of sampling: its part of a step's input, and of the results.
#include <algorithm>
#include <cstring>

#include "core.h"

namespace paceline::cuda {

// Writes an entry for each output and, behind the page tables, the ids whose logits change and the sets of ids that are allowed.
void DeviceCore::list_samples(const std::vector<Row>& rows, const Sizes& sizes, int ahead) {
  counts_.resize(shape().vocab);
  std::vector<SampleInput> samples;
  std::vector<Change> changes;
  std::vector<uint32_t> allowed;
  const int words = words_of(shape().vocab);
  const size_t begin = InputLayout::rounded(input_.size());
  size_t told = 0;
  for (const Row& row : rows) {
    const Sampling& s = row.sampling;
    const int32_t* const history = slots_[row.slot].ids.data();
    const int end = row.position + static_cast<int>(row.tokens.size());
    const bool unknown = row.tokens.back() < 0;  // the last token of the history, of a step that is begun before it is predicted
    for (int i = 0; i < row.outputs; ++i) {
      const int length = end - row.outputs + i + 1 + ahead;  // of the history; the position of the new token
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
      sample.told = likeliest_of(row);
      sample.first_told = static_cast<int>(told);
      if (sample.told) told += bytes_told(sample.told);
      sample.biases = static_cast<int>(s.bias.size());
      for (const auto& [id, bias] : s.bias) changes.push_back({id, bias, 0, 0.0f});
      if (s.penalizes()) {
        const size_t first = changes.size();
        changes.reserve(first + std::min(length, shape().vocab) + 1);  // at once: out of memory among the counts would leave them
        for (int h = 0; h < length - unknown; ++h) {
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
        if (unknown) changes.push_back({-1, 0.0f, length > row.prompt_tokens, 0.0f});
        sample.penalties = static_cast<int>(changes.size() - first);
      }
      if (row.allowed) {
        sample.allowed = static_cast<int>(1 + allowed.size());  // its place, once that of the first is known
        allowed.insert(allowed.end(), row.allowed + i * words, row.allowed + (i + 1) * words);
      }
      samples.push_back(sample);
    }
  }
  const size_t sets = begin + changes.size() * sizeof(Change);
  for (SampleInput& sample : samples)
    if (sample.allowed) sample.allowed = static_cast<int>(sets + (sample.allowed - 1) * sizeof(uint32_t));
  input_.resize(sets + allowed.size() * sizeof(uint32_t));
  std::memcpy(input_.data() + layout_of(sizes.columns, true).sample_begin(), samples.data(), samples.size() * sizeof(SampleInput));
  if (!changes.empty()) std::memcpy(input_.data() + begin, changes.data(), changes.size() * sizeof(Change));
  if (!allowed.empty()) std::memcpy(input_.data() + sets, allowed.data(), allowed.size() * sizeof(uint32_t));
}

// How many of the likeliest ids are reported for each of a row's outputs.
int DeviceCore::likeliest_of(const Row& row) const { return std::min(row.sampling.logprobs, shape().vocab); }

size_t DeviceCore::told_bytes(const std::vector<Row>& rows) const {
  size_t bytes = 0;
  for (const Row& row : rows)
    if (const int count = likeliest_of(row)) bytes += row.outputs * bytes_told(count);
  return bytes;
}

StepResult DeviceCore::finish(const std::vector<Row>& rows, const int32_t* tokens, const uint8_t* told, const float* logits) {
  slots_.reach(rows);
  size_t outputs = 0, o = 0;
  for (const Row& row : rows) outputs += row.outputs;
  tokens_.assign(tokens, tokens + outputs);
  if (likeliest_.size() < outputs) likeliest_.resize(outputs);
  for (const Row& row : rows) {
    const int count = likeliest_of(row);
    for (int i = 0; i < row.outputs; ++i, ++o) {
      if (!count) continue;
      Told own;
      std::memcpy(&own, told, sizeof own);
      Likeliest& likeliest = likeliest_[o];
      likeliest.sum = own.sum;
      likeliest.peak = own.peak;
      likeliest.chosen = own.chosen;
      likeliest.top.resize(count);
      for (int t = 0; t < count; ++t) {
        Likely one;
        std::memcpy(&one, told + bytes_told(t), sizeof one);
        likeliest.top[t] = {one.id, one.logit};
      }
      told += bytes_told(count);
    }
  }
  StepResult result;
  result.tokens = tokens_;
  result.logits = logits;
  result.likeliest = likeliest_.data();
  if (shape().drafting) result.drafted = drafted_;
  result.weight_bytes = read_by_drafts_;
  return result;
}

}  // namespace paceline::cuda
