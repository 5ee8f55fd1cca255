// The kernels of one instruction set, as table.cpp collects them. Their contracts are in kernels.h.
#pragma once

#include "kernels.h"

namespace paceline::PACELINE_ISA {

void product(const Matrix&, int, const Activations&, int, Epilogue, float*, size_t, Scratch&);
void gated_product(const Matrix&, const Matrix&, Curve, int, const Activations&, int, const Activations&, int, Scratch&);
void rms_norm(const float*, const float*, float, int, float*);
void center(const float*, int, float*);
void quantize(const float*, int, int, int, int, const Activations&);
void rotate(float*, int, int, int, bool, const float*, const float*);
void write_cache(const CacheView&, int, int, const float*, const float*);
void attend(const CacheView&, const int32_t*, int, const float* const*, const int*, const float*, float* const*, const SplitPart*, const uint8_t*, float*);
void merge_splits(const CacheView&, int, float, const float*, float*, float*);
int largest(const float*, int);
int find_larger(const float*, float, int, int32_t*);
void weigh(const float*, float, float, int, float*);
uint64_t add_weights(const float*, float, int);
void add_scaled(const float*, float, int, float*);
void multiply_gate(const float*, bool, int, float*);
void multiply_heads(const float*, int, int, float*);
void activate(const float*, const float*, Activation, int, float*);
void soft_cap(float, int, float*);
void convolve(const float* const*, const float*, const float*, int, size_t, int, bool, float*);
void divide_by_length(float, float, int, float*);
void delta_gates(const float*, const float*, const float*, const float*, int, float*, float*);
void delta_rule(const DeltaRule&, int);
void read_through(const uint8_t*, size_t);
uint64_t multiply_codes(int);

}  // namespace paceline::PACELINE_ISA
