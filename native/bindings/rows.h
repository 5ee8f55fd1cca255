// Rows of a step as they come from Python, and its results as they go back; the same for every core.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstring>

#include "core.h"

namespace paceline_bindings {

namespace py = pybind11;

using FloatTable = py::array_t<float, py::array::c_style | py::array::forcecast>;

inline paceline::Tables tables(const FloatTable& cosine, const FloatTable& sine, const FloatTable& local_cosine, const FloatTable& local_sine, const FloatTable& temperatures) {
  const auto copy = [](const FloatTable& table) { return std::vector<float>(table.data(), table.data() + table.size()); };
  return {{copy(cosine), copy(sine)}, {copy(local_cosine), copy(local_sine)}, copy(temperatures)};
}

inline paceline::Sampling sampling_of(const py::object& source) {
  paceline::Sampling s;
  if (source.is_none()) return s;
  s.temperature = source.attr("temp").cast<float>();
  s.top_k = source.attr("top_k").cast<int>();
  s.top_p = source.attr("top_p").cast<float>();
  s.min_p = source.attr("min_p").cast<float>();
  s.repetition = source.attr("rep_penalty").cast<float>();
  s.frequency = source.attr("freq_penalty").cast<float>();
  s.presence = source.attr("pres_penalty").cast<float>();
  const py::object seed = source.attr("seed");
  s.seed = seed.is_none() ? 0 : seed.cast<uint64_t>();
  s.bias = source.attr("logit_bias").cast<std::vector<std::pair<int32_t, float>>>();
  s.logprobs = source.attr("logprobs").cast<int>();
  return s;
}

// Holds what the rows point into for as long as the step runs.
struct Rows {
  std::vector<paceline::Row> rows;
  std::vector<py::buffer_info> tables, allowed;
  std::vector<bool> wants_logits;
  bool any_logits = false;

  explicit Rows(const py::sequence& sources) {
    for (const py::handle source : sources) {
      paceline::Row row;
      row.slot = source.attr("slot").cast<int>();
      row.tokens = source.attr("tokens").cast<std::vector<int32_t>>();
      row.position = source.attr("position").cast<int>();
      row.outputs = source.attr("outputs").cast<int>();
      row.prompt_tokens = source.attr("prompt_tokens").cast<int>();
      row.ahead = source.attr("ahead").cast<int>();
      row.continues = source.attr("continues").cast<bool>();
      if (const py::object following = source.attr("following"); !following.is_none()) row.following = following.cast<int32_t>();
      row.sampling = sampling_of(source.attr("sampling"));
      tables.push_back(py::buffer(source.attr("table")).request());
      const py::buffer_info& table = tables.back();
      if (table.ndim != 1 || table.itemsize != 4 || table.strides[0] != 4) throw std::invalid_argument("a row's table must be a contiguous array of int32");
      row.table = static_cast<const int32_t*>(table.ptr);
      row.table_size = static_cast<int>(table.size);
      if (const py::object bits = source.attr("allowed"); !bits.is_none()) {
        allowed.push_back(py::buffer(bits).request());
        const py::buffer_info& words = allowed.back();
        if (!PyBuffer_IsContiguous(words.view(), 'C') || words.size * words.itemsize % sizeof(uint32_t)) throw std::invalid_argument("a row's allowed tokens must be whole words of 32 bits");
        row.allowed = static_cast<const uint32_t*>(words.ptr);
        row.allowed_words = static_cast<int>(words.size * words.itemsize / sizeof(uint32_t));
      }
      wants_logits.push_back(source.attr("logits").cast<bool>());
      any_logits = any_logits || wants_logits.back();
      rows.push_back(std::move(row));
    }
  }
};

// For each output (the token's log-probability, ((id, log-probability), ...) of the likeliest): of the model's own logits.
inline py::tuple logprobs_of(const paceline::Likeliest* likeliest, py::ssize_t outputs) {
  py::tuple told(outputs);
  for (py::ssize_t i = 0; i < outputs; ++i) {
    const paceline::Likeliest& one = likeliest[i];
    const double normalizer = one.normalizer();
    py::tuple top(one.top.size());
    for (size_t t = 0; t < one.top.size(); ++t) top[t] = py::make_tuple(one.top[t].first, one.top[t].second - normalizer);
    told[i] = py::make_tuple(one.chosen - normalizer, top);
  }
  return told;
}

// What Stepper.step gives: per row its Output, then the weight bytes.
inline py::tuple results_of(const Rows& rows, const paceline::StepResult& result, int vocab, size_t logits_stride) {
  py::list results;
  size_t output = 0;
  for (size_t r = 0; r < rows.rows.size(); ++r) {
    const py::ssize_t outputs = rows.rows[r].outputs;
    py::tuple tokens(outputs);
    for (py::ssize_t i = 0; i < outputs; ++i) tokens[i] = result.tokens[output + i];
    py::object logits = py::none();
    if (rows.wants_logits[r]) {
      py::array_t<float> copy({outputs, static_cast<py::ssize_t>(vocab)});
      for (py::ssize_t i = 0; i < outputs; ++i) std::memcpy(copy.mutable_data(i, 0), result.logits + (output + i) * logits_stride, sizeof(float) * vocab);
      logits = copy;
    }
    py::object logprobs = py::none();
    if (rows.rows[r].sampling.logprobs > 0) logprobs = logprobs_of(result.likeliest + output, outputs);
    results.append(py::make_tuple(tokens, logits, logprobs, result.drafted.empty() ? py::tuple() : py::tuple(py::cast(result.drafted[r]))));
    output += outputs;
  }
  return py::make_tuple(results, result.weight_bytes);
}

}  // namespace paceline_bindings
