// A pass of the layer that drafts. Passes read the streams of the one before, the first those of the step, and leave their own in the other of two places.
#include <utility>

#include "work.h"

namespace paceline::cuda {

// By the kind of pass: the first and all with an even number write to the second place, those with an odd one to the first.
void DeviceCore::enqueue_draft(const Sizes& sizes, int pass_kind, Stream stream) {
  Work& work = *work_;
  const StepInput input = input_at(input_place_, layout_of(sizes.columns, sizes.sampled != 0));
  const Pass pass = {sizes, input, stream, sizes.columns, &input.counts->columns};
  const bool swaps = pass_kind != 1;
  if (swaps) std::swap(work.x, work.earlier_x);
  embed_tokens(pass);
  join_streams(pass_kind, pass);
  const Layer& layer = weights_.layers.back();
  if (shape().latent) list_heads(pass);
  mix(layer, pass);
  feed_forward(layer, pass);
  if (sizes.outputs) predict(weights_.drafter_norm(), pass);
  if (swaps) std::swap(work.x, work.earlier_x);
}

// x = join * (norm of the token's embedding, norm of the stream)
void DeviceCore::join_streams(int pass_kind, const Pass& pass) {
  const auto& [sizes, input, stream, most, columns] = pass;
  const Shape& s = shape();
  const Drafter& drafter = weights_.drafter;
  Work& work = *work_;
  const Norm token = {work.x, work.stride_x, s.width, drafter.token_norm, s.norm_epsilon, columns, nullptr, {}};
  const float* const last_norm = pass_kind == 0 ? weights_.final_norm : weights_.drafter_norm();
  norm_streams({token, work.earlier_x, kept_streams_, input.streams, last_norm, drafter.stream_norm, work.joined, work.stride_joined}, most, stream);
  quantize(work.joined, work.stride_joined, 2 * s.width, nullptr, 0, columns, work.join_input, most, stream);
  run_product_of(drafter.join, work.join_input, columns, work.x, work.stride_x, false, most, stream);
}

std::vector<Copy> DeviceCore::keep_streams() {
  std::vector<Copy> copies;
  for (const auto& [slot, column] : kept_columns_)
    copies.push_back({reinterpret_cast<uint8_t*>(work_->x + static_cast<size_t>(column) * work_->stride_x), reinterpret_cast<uint8_t*>(kept_streams_ + static_cast<size_t>(slot) * work_->stride_x)});
  return copies;
}

}  // namespace paceline::cuda
