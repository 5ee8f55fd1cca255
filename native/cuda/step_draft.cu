// A pass of the layer that drafts. Passes read the streams of the one before, the first those of the step, and leave their own in the other of two places.
#include <utility>

#include "work.h"

namespace paceline::cuda {

namespace {

struct Swapped {  // as long as it lives
  float *&one, *&other;
  bool swaps;
  void swap() const {
    if (swaps) std::swap(one, other);
  }
  Swapped(float*& a, float*& b, bool swaps_them) : one(a), other(b), swaps(swaps_them) { swap(); }
  ~Swapped() { swap(); }
  Swapped(const Swapped&) = delete;
};

}  // namespace

// By the kind of pass: the first and all with an even number write to the second place, those with an odd one to the first.
void DeviceCore::enqueue_draft(const Sizes& sizes, int pass_kind, Stream stream) {
  Work& work = *work_;
  const StepInput input = input_at(input_place_, layout_of(sizes.columns, sizes.sampled != 0));
  const Pass pass = {sizes, input, stream, sizes.columns, &input.counts->columns};
  const Swapped places(work.x, work.earlier_x, pass_kind != 1);
  embed_tokens(pass);
  join_streams(pass_kind, pass);
  const Layer& layer = weights_.layers.back();
  if (shape().latent) list_heads(pass);
  mix(layer, pass);
  feed_forward(layer, pass);
  if (sizes.outputs) predict(weights_.drafter_norm(), pass);
}

// x = join * (norm of the token's embedding, norm of the stream)
void DeviceCore::join_streams(int pass_kind, const Pass& pass) {
  const auto& [sizes, input, stream, most, columns] = pass;
  const Shape& s = shape();
  const Drafter& drafter = weights_.drafter;
  Work& work = *work_;
  const Norm token = {work.x, work.stride_x, s.width, drafter.token_norm, s.norm_epsilon, columns, nullptr, {}};
  const float* const last_norm = pass_kind == 0 ? weights_.final_norm : weights_.drafter_norm();
  norm_streams({token, work.earlier_x, input.streams, last_norm, drafter.stream_norm, work.joined, work.stride_joined}, most, stream);
  quantize(work.joined, work.stride_joined, 2 * s.width, nullptr, 0, columns, work.join_input, most, stream);
  run_product_of(drafter.join, work.join_input, columns, work.x, work.stride_x, false, most, stream);
}

}  // namespace paceline::cuda
