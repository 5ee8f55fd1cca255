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

// xIELU (https://arxiv.org/abs/2411.13010): p x^2 + l x above 0, n (e^x - 1 - x) + l x below.
inline Lanes xielu(const float* curve, Lanes x) {
  const Lanes above = larger(zero(), x), below = smaller(zero(), x);
  const Lanes line = fma(broadcast(curve[1]), power_of_e_less_one(larger(broadcast(-87.0f), below)) - below, broadcast(curve[2]) * x);
  return fma(broadcast(curve[0]) * above, above, line);
}

inline Lanes ungated(Curve curve, Lanes up) { return curve.activation == Activation::Xielu ? xielu(curve.constants, up) : squared_relu(up); }

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
