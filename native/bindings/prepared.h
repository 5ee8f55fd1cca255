// A step of the CUDA core between its check and its results.
#pragma once

#include <optional>
#include <tuple>
#include <vector>

#include "../cuda/core.h"
#include "rows.h"

namespace paceline_bindings {

namespace cuda = paceline::cuda;

using SizeTuple = std::tuple<int, int, int, int, int>;
inline cuda::Sizes sizes_of(const SizeTuple& t) { return {std::get<0>(t), std::get<1>(t), std::get<2>(t), std::get<3>(t), std::get<4>(t)}; }

inline SizeTuple tuple_of(const cuda::Sizes& sizes) { return {sizes.columns, sizes.outputs, sizes.splits, sizes.tokens, sizes.sampled}; }

using Tokens = py::array_t<int32_t, py::array::c_style>;
using Told = py::array_t<uint8_t, py::array::c_style>;
using Logits = std::optional<py::array_t<float, py::array::c_style>>;

// Rows that were checked, and what the device gives for them: for them alone or, if it has begun already, for all rows of that step.
struct Prepared {
  Rows rows;
  SizeTuple sizes;
  size_t outputs = 0, told_bytes = 0;
  std::optional<cuda::Begun> begun = std::nullopt;
};

// What a step that has begun already gives, for the rows that were asked for.
struct Chosen {
  std::vector<int32_t> tokens;
  std::vector<uint8_t> told;
  std::vector<float> logits;

  Chosen(const cuda::Begun& begun, const int32_t* all_tokens, const uint8_t* all_told, const float* all_logits, size_t stride) {
    for (size_t r = 0; r < begun.places.size(); ++r) {
      const size_t place = begun.places[r], end = place + 1 < begun.told.size() ? begun.told[place + 1] : begun.told_bytes;
      tokens.push_back(all_tokens[place]);
      told.insert(told.end(), all_told + begun.told[place], all_told + end);
      if (all_logits) logits.insert(logits.end(), all_logits + place * stride, all_logits + (place + 1) * stride);
    }
  }
};

}  // namespace paceline_bindings
