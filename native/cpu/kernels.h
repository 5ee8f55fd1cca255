// What an instruction set provides: one table of kernels each for plain, avx2, avxvnni, avx512 and amx, or plain, neon and dotprod, chosen when the core is made.
// Every kernel gives the same bits in all of them, for any number of columns and any split among threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bounds.h"
#include "cache.h"
#include "tile.h"

namespace paceline {

// What becomes of the sums of a product: written over, or added to, out[column][row].
enum class Epilogue { Store, Add };

// One value head of a recurrent layer over the tokens of a row (delta_rule.cpp). A token's vectors are `stride` floats after the
// last one's, its gates `gate_stride`. queries and keys are of unit length, queries scaled too, but of a state space.
struct DeltaRule {
  int tokens, key_size, value_size, value_stride;
  const float *queries, *keys, *values;  // [tokens] of [key_size] twice, [value_size]; values readable up to whole lanes
  size_t stride;
  const float *decay, *beta;
  size_t gate_stride;
  const float* state;                    // [key_size][value_stride]; null: zeros
  float* updated;                        // likewise
  float* out;                            // [tokens] of [value_size]; null: not wanted
  size_t out_stride;
  const float* skip;                     // of a state space, which has no delta: the share of a value that the output has beside the state's; otherwise null
};

// Splits begin .. end - 1 of the histories of some queries. states: of each query, split_state(value_stride) floats for every split of the longest history
// among them, those before begin too.
struct SplitPart {
  int begin, end;
  float* const* states;
};
constexpr size_t split_state(int value_stride) { return static_cast<size_t>(value_stride) + 16; }  // the sums of values, their peak, their weight

constexpr float kNoSink = -__builtin_huge_valf();

struct Kernels {
  const char* name;

  // Row tile `tile` of `weights` times `columns` columns, plus the bias: sums of 16 outputs each, stored in or added to out + c * stride + 16 * tile.
  void (*product)(const Matrix& weights, int tile, const Activations& input, int columns, Epilogue epilogue, float* out, size_t stride,
                  Scratch& scratch);

  // Row tiles 2*pair and 2*pair+1 of gate and up together: 32 outputs of the activation, written as block `pair` of `output`. A gate without data: that of up alone.
  void (*gated_product)(const Matrix& gate, const Matrix& up, Curve curve, int pair, const Activations& input, int columns, const Activations& output,
                        int output_blocks, Scratch& scratch);

  // x [size] / rms(x) * weight [size] -> y [padded to 32, zeros past size]; y may be x. 64 lanes folded 32-16-8-4-2-1.
  void (*rms_norm)(const float* x, const float* weight, float epsilon, int size, float* y);

  // x [size] minus its mean -> y [padded to 32, zeros past size]; the sum is folded as that of rms_norm.
  void (*center)(const float* x, int size, float* y);

  // y [blocks * 32] as blocks first .. first+blocks-1 of column `column` of `output`, in the forms that it has.
  void (*quantize)(const float* y, int first, int blocks, int column, int output_blocks, const Activations& output);

  // Rotates heads of x [heads][head_size] in place; cosine, sine [rope_size / 2] of the position. The rest of a head stays.
  void (*rotate)(float* x, int heads, int head_size, int rope_size, bool pairs, const float* cosine, const float* sine);

  // k [head_size], v [value_size] into key `position % 64` of the page.
  void (*write_cache)(const CacheView& cache, int page, int position, const float* k, const float* v);

  // `queries` queries q[i] [head_size], already scaled, at positions[i], over the keys up to it, or those of its window -> out[i] [value_size].
  // sinks[i]: a score that takes part in the softmax and has no value; kNoSink: none.
  // part: only some splits, whose states are kept for merge_splits(); out is not used then. May be null.
  // then: keys that will be read next, of any head, their values at the same distance as here; prefetched meanwhile. May be null.
  // scratch: attention_scratch(head_size, value_stride) floats.
  void (*attend)(const CacheView& cache, const int32_t* table, int queries, const float* const* q, const int* positions, const float* sinks,
                 float* const* out, const SplitPart* part, const uint8_t* then, float* scratch);

  // The states of all splits of a query's history -> out [value_size], as attend() gives it. scratch as there.
  void (*merge_splits)(const CacheView& cache, int position, float sink, const float* states, float* out, float* scratch);

  // Index of the largest of x [size]; the lower index on ties.
  int (*largest)(const float* x, int size);

  // The indexes of all x [size] of at least `least`, ascending -> ids [size]; returns how many. NaN is none of them.
  int (*find_larger)(const float* x, float least, int size, int32_t* ids);

  // e^((x[i] - peak) * factor) -> y [size]; x may be y.
  void (*weigh)(const float* x, float peak, float factor, int size, float* y);

  // The sum of all weights [size] of at least `least`, as whole numbers.
  uint64_t (*add_weights)(const float* weights, float least, int size);

  // sum[i] = fma(weight, y[i], sum[i]) for size rounded up to 16
  void (*add_scaled)(const float* y, float weight, int size, float* sum);

  // x [size] times sigmoid(gate), or silu(gate)
  void (*multiply_gate)(const float* gate, bool silu, int size, float* x);

  // x [heads][size], each head times the softplus of its gate
  void (*multiply_heads)(const float* gates, int heads, int size, float* x);

  // The activation of gate and up -> out [size rounded up to 16]; out may be gate.
  void (*activate)(const float* gate, const float* up, Activation activation, int size, float* out);

  // x = cap * tanh(x / cap) for size rounded up to 16
  void (*soft_cap)(float cap, int size, float* x);

  // silu(bias + sum of weights[tap] * inputs[tap]) -> out [channels rounded up to 16]; weights [kernel][stride], inputs [kernel]; bias may be null
  void (*convolve)(const float* const* inputs, const float* weights, const float* bias, int kernel, size_t stride, int channels, bool activated, float* out);

  // x [size] * scale / sqrt(sum of squares + epsilon)
  void (*divide_by_length)(float epsilon, float scale, int size, float* x);

  // decay = e^(a * softplus(alpha + time_bias)), beta = sigmoid(b), or where b is null softplus(alpha + time_bias), each [heads]
  void (*delta_gates)(const float* alpha, const float* b, const float* a, const float* time_bias, int heads, float* decay, float* beta);

  // Values [part * kDeltaPart, + kDeltaPart) of a head; of a row of one token that has a state, part 0 is all of them.
  void (*delta_rule)(const DeltaRule& rule, int part);

  // For benchmarks: reads data [bytes], 64-byte aligned; multiplies codes in registers and returns how many.
  void (*read_through)(const uint8_t* data, size_t bytes);
  uint64_t (*multiply_codes)(int rounds);
};

constexpr int kQueryTile = 28;   // most queries to one attend call
constexpr size_t attention_scratch(int head_size, int value_stride) { return kQueryTile * (static_cast<size_t>(kPage) + head_size + 3 * value_stride); }

namespace plain { const Kernels& kernels(); }
namespace avx2 { const Kernels& kernels(); }
namespace avxvnni { const Kernels& kernels(); }
namespace avx512 { const Kernels& kernels(); }
namespace amx { const Kernels& kernels(); }
namespace neon { const Kernels& kernels(); }
namespace dotprod { const Kernels& kernels(); }

// Those that this build and this processor have, the slowest first.
std::vector<const char*> instruction_sets();

// "auto" or one of these names; throws std::invalid_argument for one that is unknown or that is not there.
const Kernels& choose_kernels(const char* name);

}  // namespace paceline
