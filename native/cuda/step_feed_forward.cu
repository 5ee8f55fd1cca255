// The feed-forward of a layer: dense, or experts (experts.cu).
#include "work.h"

namespace paceline::cuda {

void DeviceCore::feed_forward(const Layer& layer, const Pass& pass) {
  if (!layer.experts.empty()) {
    read_stream(layer.ffn_norm, pass);
    return run_experts(layer, pass);
  }
  const Product product = shape().parallel ? product_of(work_->width_input, pass.columns, work_->stride_mixed)  // as attention has read it
                                           : product_of_stream(layer.ffn_norm, {&layer.ffn.gate, &layer.ffn.up}, pass);
  join(layer.ffn.down, dense(product, layer.ffn, shape().ffn_of(layer.number), pass), layer.ffn_post_norm, last_scale(layer), pass);
}

// product: of the first matrices, but for them. Returns the inputs of the last.
Activations DeviceCore::dense(const Product& product, const FeedForward& ffn, int size, const Pass& pass) {
  Work& work = *work_;
  Activations inputs = work.ffn_input;
  inputs.blocks = ffn.down.blocks;
  if (runs_gated(ffn)) {
    run_gated(product, ffn, nullptr, inputs, pass);
    return inputs;
  }
  run_pair(product, ffn, nullptr, work.mixed, pass);
  const float* const up = work.mixed + ffn.gate.tiles * kTileRows;  // without a gate it is both
  gate({work.mixed, up, work.stride_mixed, work.stride_mixed, size, shape().activation, pass.columns, nullptr, 1, inputs, ffn.curve}, pass.most, pass.stream);
  return inputs;
}

// Gate and up, or up alone.
void DeviceCore::run_pair(const Product& product, const FeedForward& ffn, const ExpertTables* tables, float* out, const Pass& pass) {
  const Matrix* const both[] = {&ffn.gate, &ffn.up};
  const ExpertWeights* const both_experts[] = {tables ? tables->gate : nullptr, tables ? tables->up : nullptr};
  const int first = ffn.gate.data ? 0 : 1;
  run_products(product, both + first, tables ? both_experts + first : nullptr, 2 - first, out, pass.most, pass.stream);
}

// Gate, up and the activation function run as one kernel where both matrices have the same integer format.
bool DeviceCore::runs_gated(const FeedForward& ffn) { return ffn.gate.data && ffn.gate.format == ffn.up.format && !is_float(ffn.gate.format); }

void DeviceCore::run_gated(Product product, const FeedForward& ffn, const ExpertTables* tables, const Activations& out, const Pass& pass) {
  product.items[0] = {ffn.gate.data, nullptr, ffn.gate.scale, ffn.gate.tiles, tables ? tables->gate : nullptr, ffn.gate.bias};
  product.items[1] = {ffn.up.data, nullptr, ffn.up.scale, ffn.up.tiles, tables ? tables->up : nullptr, ffn.up.bias};
  product.count = 2;
  product.blocks = ffn.gate.blocks;
  product.activation = shape().activation;
  product.gated = out;
  run_gated_product(ffn.gate.format, product, pass.most, pass.stream);
}

// Columns are gathered by expert, so that an expert's weights are read once for all columns that chose it. One column stays where it is.
void DeviceCore::run_experts(const Layer& layer, const Pass& pass) {
  const Shape& s = shape();
  Work& work = *work_;
  const int together = experts_together(pass.most), choices = pass.most * s.experts_used;
  if (s.expert_norms) {
    add_shared_expert(layer, pass);
    read_stream(layer.router_norm, pass);
  }
  const Matrix* const routers[] = {&layer.router, &layer.shared_gate};
  run_products(product_of(work.width_input, pass.columns, work.stride_router), routers, nullptr, s.shared_gated ? 2 : 1, work.router, pass.most, pass.stream);
  const Routing routing = {work.router, work.stride_router, s.experts, s.experts_used, s.expert_groups, s.groups_used, s.sigmoid_routing, s.normalize_experts, layer.choice_bias,
                           work.choices, work.lists, work.list_count};
  choose_experts(routing, together, pass.input, pass.most, pass.stream);
  if (s.expert_norms) read_stream(layer.expert_norm, pass);

  const ExpertTables& tables = work.experts[&layer - weights_.layers.data()];
  const FeedForward& any = layer.experts[0];
  const bool one = pass.most == 1 && any.up.blocks <= kAloneBlocks && !is_float(any.up.format) && !(any.gate.data && is_float(any.gate.format));
  if (!one) gather_choices(routing, pass.input, work.width_input, work.expert_input, pass.most, pass.stream);
  const auto grouped = [&](const Activations& input, int stride) {
    Product product = product_of(input, work.list_count, stride);
    product.lists = work.lists;
    product.most_lists = most_groups(s.experts, choices, together);
    return product;
  };
  Product first = grouped(one ? work.width_input : work.expert_input, work.stride_expert);
  first.one_input = one;
  if (runs_gated(any)) {
    run_gated(first, any, &tables, work.expert_ffn, pass);
  } else {
    run_pair(first, any, &tables, work.expert_mixed, pass);
    const float* const up = work.expert_mixed + any.gate.tiles * kTileRows;
    gate({work.expert_mixed, up, work.stride_expert, work.stride_expert, s.expert_ffn, s.activation, pass.columns, work.choices, s.experts_used, work.expert_ffn}, pass.most,
         pass.stream);
  }
  const Matrix* const down[] = {&any.down};
  run_products(grouped(work.expert_ffn, work.stride_x), down, &tables.down, 1, work.answers, pass.most, pass.stream);

  Combination sum{work.choices, s.experts_used, s.width, work.stride_x, work.answers, nullptr, nullptr, work.stride_router, work.x, true};
  if (s.shared_ffn && !s.expert_norms) {
    add_shared_expert(layer, pass);
    sum.shared = work.branch;
    if (s.shared_gated) sum.shared_logits = work.router + layer.router.tiles * kTileRows;
  }
  if (!layer.ffn_post_norm) return combine_experts(sum, pass.input, pass.most, pass.stream);
  sum.x = work.combined;
  sum.adds = false;
  combine_experts(sum, pass.input, pass.most, pass.stream);
  const Norm last = {work.combined, work.stride_x, s.width, layer.ffn_post_norm, s.post_epsilon(), pass.columns, nullptr, {}};
  if (s.expert_norms) return add_norm_of_pair({last, work.branch, layer.expert_post_norm, layer.shared_post_norm}, last_scale(layer), work.x, pass.most, pass.stream);
  add_norm(last, last_scale(layer), work.x, pass.most, pass.stream);
}

void DeviceCore::add_shared_expert(const Layer& layer, const Pass& pass) {
  Work& work = *work_;
  const Activations inputs = dense(product_of(work.width_input, pass.columns, work.stride_mixed), layer.ffn, shape().shared_ffn, pass);
  run_product_of(layer.ffn.down, inputs, pass.columns, work.branch, work.stride_x, false, pass.most, pass.stream);
}

const ExpertWeights* DeviceCore::upload_weights(const std::vector<ExpertWeights>& weights) {
  uint8_t* const place = allocate(weights.size() * sizeof(ExpertWeights));
  memory_.upload(place, weights.data(), weights.size() * sizeof(ExpertWeights));
  return reinterpret_cast<const ExpertWeights*>(place);
}

// Uploads pointers to the experts of every layer, and to its heads' matrices, once all weights are loaded.
void DeviceCore::list_experts() {
  Work& work = *work_;
  if (shape().latent && work.heads.empty())
    for (const Layer& layer : weights_.layers) {
      const auto table = [&](const std::vector<Matrix>& heads) {
        std::vector<ExpertWeights> all;
        for (const Matrix& m : heads) all.push_back({m.data, m.bias, m.scale});
        return upload_weights(all);
      };
      work.heads.push_back({table(layer.k_b), table(layer.v_b)});
    }
  if (!shape().experts || !work.experts.empty()) return;
  for (const Layer& layer : weights_.layers) {
    if (layer.experts.empty()) {
      work.experts.push_back({});
      continue;
    }
    const auto table = [&](Matrix FeedForward::*part) {
      std::vector<ExpertWeights> all;
      for (const FeedForward& expert : layer.experts) all.push_back({(expert.*part).data, (expert.*part).bias, (expert.*part).scale});
      return upload_weights(all);
    };
    work.experts.push_back({table(&FeedForward::gate), table(&FeedForward::up), table(&FeedForward::down)});
  }
}

}  // namespace paceline::cuda
