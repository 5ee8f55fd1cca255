// The layer that drafts: behind a step it is given what the step has made sure of, and then what it predicts itself, token by token.
//
// Each of its passes is a ragged step of one layer, whose columns begin as a product of two norms: of a token's embedding, and of what the model made
// of the token before it. A drafted token is drawn as the model would draw it there, with its seed and penalties, so that both draw the same more often.
#include <algorithm>
#include <cstring>

#include "repack.h"
#include "step.h"

namespace paceline {

void Core::Step::run_draft(Member& me, const float* const* streams, const float* stream_norm) {
  Private& own = work.own[me.index];
  const Layer& layer = core.weights_.layers.back();
  join(me, own, streams, stream_norm);
  mix(me, own, layer);
  feed_forward(me, own, layer);
  if (outputs) predict(me, own, core.weights_.drafter_norm());
}

void Core::Step::join(Member& me, Private& own, const float* const* streams, const float* stream_norm) {
  const Drafter& drafter = core.weights_.drafter;
  const int blocks = work.join_input.blocks;
  const auto [begin, end] = me.share(columns);
  for (int c = begin; c < end; ++c) {
    float* const spare = x + c * work.stride_x;
    float* const inputs = normed(own, c, columns);
    read_row(core.weights_.embedding, token_of(c), spare);
    if (s.embedding_scale != 1.0f)
      for (int i = 0; i < s.width; ++i) spare[i] *= s.embedding_scale;
    kernels.rms_norm(spare, drafter.token_norm, s.norm_epsilon, s.width, inputs);
    kernels.rms_norm(streams[c], stream_norm, s.norm_epsilon, s.width, spare);
    kernels.rms_norm(spare, drafter.stream_norm, s.norm_epsilon, s.width, inputs + s.width);
    std::fill(inputs + 2 * s.width, inputs + blocks * kBlock, 0.0f);
    quantize_column(inputs, blocks, c, columns, work.join_input.views);
  }
  me.barrier.wait();
  interleave(me, work.normed.data(), work.stride_normed, blocks, columns, work.join_input.views);
  me.divide(drafter.join.tiles, [&](int t) { kernels.product(drafter.join, t, work.join_input.views, columns, Epilogue::Store, x, work.stride_x, own.scratch); });
}

void Core::draft(const std::vector<Row>& rows, StepResult& result) {
  const Work& step = *work_;
  Work& work = *draft_work_;
  const size_t stride = step.stride_x;
  result.drafted.resize(rows.size());
  std::vector<DraftRow> drafts = list_drafts(rows, step.tokens, shape_.context);
  std::vector<const float*> streams;
  for (const DraftRow& draft : drafts)
    for (size_t i = 0; i < draft.row.tokens.size(); ++i) streams.push_back(step.x.data() + (step.first_column[draft.index] + i) * stride);
  const float* norm = weights_.final_norm;
  while (!drafts.empty()) {
    std::vector<Row> passing;
    for (const DraftRow& draft : drafts) passing.push_back(draft.row);
    pass_drafts(passing, streams, norm, result);
    // Those that want more go on with what they predicted.
    std::vector<DraftRow> further;
    streams.clear();
    chained_streams_.reserve(drafts.size() * stride);
    int output = 0;
    for (DraftRow& draft : drafts) {
      if (!draft.row.outputs) continue;
      const int32_t token = work.tokens[output];
      const float* const stream = work.x.data() + work.output_column[output++] * stride;
      if (token < 0) continue;
      std::vector<int32_t>& drafted = result.drafted[draft.index];
      drafted.push_back(token);
      if (static_cast<int>(drafted.size()) == rows[draft.index].ahead || !may_go_on(draft.row, shape_.context)) continue;
      draft.row.position += static_cast<int>(draft.row.tokens.size());
      draft.row.tokens = {token};
      streams.push_back(static_cast<float*>(std::memcpy(chained_streams_.data() + streams.size() * stride, stream, sizeof(float) * shape_.width)));
      further.push_back(std::move(draft));
    }
    drafts = std::move(further);
    norm = weights_.drafter_norm();
  }
}

// One ragged step of the layer, the streams those of its columns.
void Core::pass_drafts(const std::vector<Row>& rows, const std::vector<const float*>& streams, const float* norm, StepResult& result) {
  Work& work = *draft_work_;
  for (const Row& row : rows) slots_.feed_behind(row);
  list_columns(rows, work);
  reserve(rows, work);
  Step pass(*this, work, rows, false);
  run_team(options_.threads, [&](Member& me) { pass.run_draft(me, streams.data(), norm); });
  result.weight_bytes += work.weight_bytes();
}

}  // namespace paceline
