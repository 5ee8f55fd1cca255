// What becomes of a gate and its up, or of up alone.
#pragma once

#include "simd.h"
#include "tile.h"

namespace paceline::PACELINE_ISA {

// gelu(x) = x * sigmoid(slope), in the tanh form: slope = 2 sqrt(2 / pi) (x + 0.044715 x^3)
inline Lanes gelu_slope(Lanes x) { return x * fma(x * x, broadcast(0.0713548163f), broadcast(1.59576912f)); }

// larger() returns its second operand where either is NaN.
inline Lanes squared_relu(Lanes up) {
  const Lanes positive = larger(zero(), up);
  return positive * positive;
}

inline Lanes activated(Activation activation, Lanes gate, Lanes up) {
  if (activation == Activation::Clamped) {  // smaller() and larger() return their second operand where either is NaN
    const Lanes most = broadcast(kClampedMost);
    gate = smaller(most, gate);
    up = larger(broadcast(-kClampedMost), smaller(most, up)) + broadcast(1.0f);
  }
  const Lanes slope = activation == Activation::Gelu ? gelu_slope(gate) : activation == Activation::Clamped ? gate * broadcast(kClampedSlope) : gate;
  return gate / (broadcast(1.0f) + exponential(zero() - slope)) * up;
}

}  // namespace paceline::PACELINE_ISA
