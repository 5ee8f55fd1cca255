// The feed-forward of a layer: dense, or experts. Tokens that chose the same expert are its columns, so that its weights are
// read once for all of them. A column's sum: experts by ascending id, the shared one last.
#include <algorithm>
#include <cstring>
#include <limits>

#include "step.h"

namespace paceline {

void Core::Step::feed_forward(Member& me, Private& own, const Layer& layer) {
  if (!s.parallel) norm_columns(me, own, layer.ffn_norm);  // else attention has left its own inputs there
  if (layer.experts.empty()) {
    dense(me, own, layer.ffn);
    return add_product(me, own, layer.ffn.down, work.ffn_input.views, layer.ffn_post_norm, last_scale(layer));
  }
  if (s.expert_norms) {
    shared_expert(me, own, layer);
    norm_columns(me, own, layer.router_norm);
  }
  choose_experts(me, own, layer);
  if (s.expert_norms) norm_columns(me, own, layer.expert_norm);
  gather(me);
  run_experts(me, own, layer);
  if (s.shared_ffn && !s.expert_norms) shared_expert(me, own, layer);
  combine(me, own, layer);
}

void Core::Step::shared_expert(Member& me, Private& own, const Layer& layer) {
  dense(me, own, layer.ffn);
  me.divide(layer.ffn.down.tiles, [&](int t) {
    kernels.product(layer.ffn.down, t, work.ffn_input.views, columns, Epilogue::Store, work.branch.data(), work.stride_x, own.scratch);
  });
}

void Core::Step::dense(Member& me, Private& own, const FeedForward& ffn) {
  me.divide(ffn.up.tiles / 2, [&](int pair) {
    kernels.gated_product(ffn.gate, ffn.up, {s.activation, ffn.curve}, pair, work.width_input.views, columns, work.ffn_input.views, ffn.down.blocks, own.scratch);
  });
}

// The experts_used largest, ties to the lower id. A logit that is no finite number leaves no weight one.
void Core::Step::choose_experts(Member& me, Private& own, const Layer& layer) {
  ExpertWork& experts = work.experts;
  const size_t shared = static_cast<size_t>(layer.router.tiles) * kTileRows, stride = router_stride(s);
  me.divide(layer.router.tiles + layer.shared_gate.tiles, [&](int t) {
    const bool routes = t < layer.router.tiles;
    kernels.product(routes ? layer.router : layer.shared_gate, routes ? t : 0, work.width_input.views, columns, Epilogue::Store,
                    experts.router.data() + (routes ? 0 : shared), stride, own.scratch);
  });
  const auto [begin, end] = me.share(columns);
  for (int c = begin; c < end; ++c) {
    float* weights = experts.router.data() + c * stride;
    float* keys = weights + shared + kTileRows;  // what the experts are chosen by
    float broken = 0.0f;  // or NaN
    for (int e = 0; e < s.experts; ++e) broken += weights[e] * 0.0f;
    weigh_experts(weights, keys);
    for (int e = 0; e < s.experts; ++e) keys[e] = layer.choice_bias ? weights[e] + layer.choice_bias[e] : weights[e];
    if (s.expert_groups > 1) keep_groups(keys);
    float chosen = 0.0f;
    Choice* choices = experts.choices.data() + static_cast<size_t>(c) * s.experts_used;
    for (int k = 0; k < s.experts_used; ++k) {
      int best = 0;
      for (int e = 1; e < s.experts; ++e)
        if (keys[e] > keys[best]) best = e;
      choices[k] = {best, weights[best], 0};
      keys[best] = -std::numeric_limits<float>::infinity();
      chosen += choices[k].weight;
    }
    chosen += kNoWeights;
    for (int k = 0; k < s.experts_used; ++k) choices[k].weight = (s.normalize_experts ? choices[k].weight / chosen : choices[k].weight) + broken;
    std::sort(choices, choices + s.experts_used, [](const Choice& a, const Choice& b) { return a.expert < b.expert; });
  }
  me.barrier.wait();
  if (me.index == 0) group_choices();
  me.barrier.wait();
}

// weights: the experts' logits, which become their weights: a softmax, or the sigmoid of each, 0 where it is no number.
void Core::Step::weigh_experts(float* weights, float* spare) {
  if (s.sigmoid_routing) {
    std::fill(spare, spare + s.experts, 1.0f);
    kernels.multiply_gate(weights, false, s.experts, spare);
    for (int e = 0; e < s.experts; ++e) weights[e] = spare[e] >= 0.0f ? spare[e] : 0.0f;
    return;
  }
  kernels.weigh(weights, weights[kernels.largest(weights, s.experts)], 1.0f, s.experts, weights);
  float all = 0.0f;
  for (int e = 0; e < s.experts; ++e) all += weights[e];
  for (int e = 0; e < s.experts; ++e) weights[e] /= all;
}

// Only the experts of the likeliest groups can be chosen: those with the largest sums of two keys, or, where the weights are a softmax, with the largest keys
// (https://arxiv.org/abs/2412.19437, https://arxiv.org/abs/2405.04434). Ties go to the lower group.
void Core::Step::keep_groups(float* keys) {
  const int size = s.experts / s.expert_groups;
  const float none = -std::numeric_limits<float>::infinity();
  float scores[kMostGroups];
  for (int g = 0; g < s.expert_groups; ++g) {
    float first = none, second = none;
    for (int e = g * size; e < (g + 1) * size; ++e) {
      if (keys[e] > first) second = first, first = keys[e];
      else if (keys[e] > second) second = keys[e];
    }
    scores[g] = s.sigmoid_routing && size > 1 ? first + second : first;
  }
  for (int g = 0; g < s.expert_groups; ++g) {
    int better = 0;
    for (int other = 0; other < s.expert_groups; ++other) better += scores[other] > scores[g] || (scores[other] == scores[g] && other < g);
    if (better >= s.groups_used) std::fill(keys + g * size, keys + (g + 1) * size, none);
  }
}

// By one thread.
void Core::Step::group_choices() {
  ExpertWork& experts = work.experts;
  experts.count.assign(s.experts, 0);
  experts.first_group.assign(s.experts, 0);
  experts.active.clear();
  for (Choice& choice : experts.choices) choice.place = experts.count[choice.expert]++;
  int group = 0;
  for (int e = 0; e < s.experts; ++e) {
    if (!experts.count[e]) continue;
    experts.active.push_back(e);
    experts.first_group[e] = group;
    group += (experts.count[e] + kGroup - 1) / kGroup;
  }
  for (Choice& choice : experts.choices) choice.place += experts.first_group[choice.expert] * kGroup;
}

// The columns' inputs to the places of the experts that they chose. Members share the inputs, as in interleave().
void Core::Step::gather(Member& me) {
  const ActivationRoom &from = work.width_input, &to = work.experts.input;
  const auto [begin, end] = me.share(from.blocks);
  for (int c = 0; c < columns; ++c)
    for (int k = 0; k < s.experts_used; ++k) {
      const int place = work.experts.choices[static_cast<size_t>(c) * s.experts_used + k].place;
      for (int b = begin; b < end; ++b) {
        const size_t source = (static_cast<size_t>(c / kGroup) * from.blocks + b) * kGroup, target = (static_cast<size_t>(place / kGroup) * to.blocks + b) * kGroup;
        if (to.views.quantized) to.views.quantized[target + place % kGroup] = from.views.quantized[source + c % kGroup];
        if (!to.views.wide) continue;
        for (int i = b * kBlock; i < (b + 1) * kBlock; ++i)
          to.views.wide[to.views.wide_place(to.blocks, place, i)] = from.views.wide[from.views.wide_place(from.blocks, c, i)];
      }
    }
  me.barrier.wait();
}

void Core::Step::run_experts(Member& me, Private& own, const Layer& layer) {
  ExpertWork& experts = work.experts;
  const int active = static_cast<int>(experts.active.size());
  const int pairs = layer.experts[0].up.tiles / 2, tiles = layer.experts[0].down.tiles;
  me.divide(active * pairs, [&](int unit) {
    const int e = experts.active[unit / pairs], group = experts.first_group[e];
    const FeedForward& expert = layer.experts[e];
    kernels.gated_product(expert.gate, expert.up, {s.activation}, unit % pairs, experts.input.from(group), experts.count[e], experts.ffn.from(group), experts.ffn.blocks, own.scratch);
  });
  me.divide(active * tiles, [&](int unit) {
    const int e = experts.active[unit / tiles], group = experts.first_group[e];
    kernels.product(layer.experts[e].down, unit % tiles, experts.ffn.from(group), experts.count[e], Epilogue::Store,
                    experts.out.data() + static_cast<size_t>(group) * kGroup * work.stride_x, work.stride_x, own.scratch);
  });
}

void Core::Step::combine(Member& me, Private& own, const Layer& layer) {
  const size_t shared = static_cast<size_t>(layer.router.tiles) * kTileRows, stride = router_stride(s);
  const auto [begin, end] = me.share(columns);
  for (int c = begin; c < end; ++c) {
    const Choice* choices = work.experts.choices.data() + static_cast<size_t>(c) * s.experts_used;
    float* sum = work.mixed.data() + c * work.stride_mixed;
    std::fill(sum, sum + work.stride_x, 0.0f);
    for (int k = 0; k < s.experts_used; ++k)
      kernels.add_scaled(work.experts.out.data() + static_cast<size_t>(choices[k].place) * work.stride_x, choices[k].weight, s.width, sum);
    float* const beside = work.branch.data() + c * work.stride_x;  // what the shared expert gave
    if (s.expert_norms) {
      kernels.rms_norm(sum, layer.expert_post_norm, s.norm_epsilon, s.width, sum);
      kernels.rms_norm(beside, layer.shared_post_norm, s.norm_epsilon, s.width, beside);
    }
    if (s.shared_ffn) {
      float open[kLanesWide] = {1.0f};
      if (s.shared_gated) kernels.multiply_gate(work.experts.router.data() + c * stride + shared, false, 1, open);
      kernels.add_scaled(beside, open[0], s.width, sum);
    }
    if (layer.ffn_post_norm) add_normed(own, sum, layer.ffn_post_norm, last_scale(layer), c);
    else kernels.add_scaled(sum, 1.0f, s.width, x + c * work.stride_x);
  }
  me.barrier.wait();
}

}  // namespace paceline
