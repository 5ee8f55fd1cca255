// Rotary position embedding: (a, b) -> (a cos - b sin, a sin + b cos), on neighbours (pairs) or on the two halves of the rotated part.
#include "operations.h"

namespace paceline::PACELINE_ISA {

void rotate(float* x, int heads, int head_size, int rope_size, bool pairs, const float* cosine, const float* sine) {
  const int half = rope_size / 2;
  for (int h = 0; h < heads; ++h) {
    float* head = x + static_cast<size_t>(h) * head_size;
    for (int i = 0; i < half; ++i) {
      float& first = head[pairs ? 2 * i : i];
      float& second = head[pairs ? 2 * i + 1 : i + half];
      const float a = first, b = second;
      first = __builtin_fmaf(a, cosine[i], -(b * sine[i]));
      second = __builtin_fmaf(a, sine[i], b * cosine[i]);
    }
  }
}

}  // namespace paceline::PACELINE_ISA
