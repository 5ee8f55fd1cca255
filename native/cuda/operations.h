// The operations of a step, each with its kernel in a file of its own. All are asynchronous, in stream order; `most` is how many columns or outputs the grid is
// sized for, `input.counts` on the device says how many there are.
#pragma once

#include "../cpu/cache.h"
#include "activations.h"
#include "product.h"
#include "step_input.h"

namespace paceline::cuda {

struct Largest {
  float value;
  int id;
};

// An expert that a column chose, its weight, and the column's place among those gathered for the experts.
struct Choice {
  int expert;
  float weight;
  int place;
};

// embed.cu: rows of the embedding times `scale` -> x [columns][stride]. predicted: [outputs of the step before], of which columns may ask for a token
void embed(Format format, const ProductItem& embedding, int blocks, int width, float scale, const StepInput& input, const int* predicted, float* x, int stride, int most, Stream stream);

// norm.cu: x / rms(x) * weight, as activations. from: which columns of x, those of outputs or null for all.
struct Norm {
  const float* x;        // [columns][stride]
  int stride, size;
  const float* weight;   // [size]
  float epsilon;
  const int* count;      // columns of the output, on the device
  const int* from;       // [count], or null
  Activations out;
  bool centers = false;  // the mean is subtracted first; for rms_norm() alone
};
void rms_norm(const Norm& norm, int most, Stream stream);
// x [columns][stride], norm's own, becomes its norm
void norm_in_place(const Norm& norm, float* x, int most, Stream stream);
// sum [columns][stride] += branch / rms(branch) * weight, then *= *scale unless that is null
void add_norm(const Norm& branch, const float* scale, float* sum, int most, Stream stream);
// The same of the sum of two branches, each normed first. branch: the first; its weight is that of the last norm.
struct NormedPair {
  Norm branch;
  const float* second;             // [columns][stride]
  const float *first_weight, *second_weight;  // [size]
};
void add_norm_of_pair(const NormedPair& pair, const float* scale, float* sum, int most, Stream stream);

// The input of the layer that drafts: out [columns][out_stride] gets the norm of each column of x, and behind it the norm of the last norm of a stream.
struct NormedStreams {
  Norm token;                      // its `out` is not used
  const float* streams;            // [columns of the pass before][stride]
  const int* from;                 // StepInput::streams
  const float *last_weight, *stream_weight;  // [size]
  float* out;
  int out_stride;
};
void norm_streams(const NormedStreams& both, int most, Stream stream);

// place.cu: norms and rotation of queries and keys; keys and values into the cache.
struct Place {
  const float* mixed;              // [columns][stride]: queries (each followed by its gate where there are gates), keys, values
  int stride, key_offset, value_offset;
  float* queries;                  // [columns][heads * head_size], rotated and scaled
  float* gates;                    // [columns][heads * head_size] where attention is gated, or null
  const float *q_norm, *k_norm, *v_norm;  // or null
  bool whole_norms;                // of queries and keys: those of all heads as one vector
  bool rotates_first;              // their norms come after their rotation
  float epsilon, query_scale;
  const float *cosine, *sine;      // [positions][rope_size / 2]
  const float* temperatures;       // [positions], of queries, or null
  int heads, kv_heads, head_size, rope_size;  // kv_heads: 0 where keys and values are another layer's
  bool pairs;
  CacheView cache;                 // of kv head 0; the next is head_stride bytes on
  size_t head_stride;
};
void place_keys(const Place& place, const StepInput& input, int most, Stream stream);

// Logits [columns][stride], or null, by whose softplus all outputs of a head, of `size`, are multiplied.
struct HeadGates {
  const float* logits = nullptr;
  int stride = 0, size = 1;
};
PACELINE_DEVICE float gate_of_head(const HeadGates& gates, int column, int head) { return softplus(gates.logits[static_cast<size_t>(column) * gates.stride + head]); }

// attention.cu
struct Attention {
  const float* queries;            // [columns][heads * head_size]
  int heads, kv_heads;
  CacheView cache;                 // of kv head 0; the next is head_stride bytes on
  size_t head_stride;
  bool local;                      // its items are the list of sliding layers
  int splits;                      // of 512 positions, that the grid is for
  float* partial;                  // [columns][heads][splits][value_stride + 2]: a split's sums of values, its peak, its sum of weights; null: no merge
  float* out;                      // [columns][out_stride], where head_size is no multiple of 32
  int out_stride;
  const float* gates;              // [columns][heads * head_size], or null: outputs are multiplied by their sigmoid, in `joined` only
  const float* sinks;              // [heads], or null: scores that take part in the softmax and have no value
  Activations joined;              // in place of `out`, where a head's values are a multiple of 32
  int padded = 0;                  // of latent attention: places of `joined` to a head, whose columns lie together; 0: a column's heads do
  HeadGates head_gates = {};       // in place of `gates`
  PACELINE_HOST_DEVICE bool ends_with_blocks() const { return cache.value_size % kBlock == 0; }
};
// most_tokens: of an item, at most tokens_together()
void attend(const Attention& attention, const StepInput& input, int most_tokens, int most_columns, Stream stream);
bool fits_token(const Attention& attention);  // whether rows of one token have their own kernel, in attention_token.cu; heads may be too large for it
constexpr int kMostHeadSize = 768, kMostValueSize = 512;

// latent.cu
// Each head's columns, as an expert's; head h has the places from h * padded on.
struct HeadLists {
  ExpertColumns* lists;            // [heads * ceil(columns / together)]
  int* count;
  int padded;
};
void list_head_columns(const HeadLists& lists, int heads, int together, const StepInput& input, Stream stream);
// `size` inputs of each head of x -> activations. from_places: x is [places][stride] and the activations are a column's, head after head; otherwise x is
// [columns][stride], a head at head * head_stride, and the activations are at the places.
struct HeadInputs {
  const float* x;
  int stride, head_stride, size, heads, padded;
  bool from_places;
  const float* temperatures;       // [positions]: inputs are multiplied by that of their column, or null
  Activations out;
};
void quantize_of_heads(const HeadInputs& inputs, const StepInput& input, int most, Stream stream);
struct LatentPlace {
  const float* queries_from;       // [columns][query_stride], a head has head_keys, then rope_size values
  int query_stride;
  const float* absorbed;           // [places][absorbed_stride]: queries for the latent values
  int absorbed_stride, padded;
  const float* keys_from;          // [columns][key_stride]: latent values, then rope_size
  int key_stride;
  const float* norm;               // [latent]
  float epsilon, query_scale;
  const float *cosine, *sine;      // [positions][rope_size / 2]
  const float* temperatures;       // [positions], of queries, or null
  int heads, latent, head_keys, rope_size;
  bool pairs;
  float* queries;                  // [columns][heads * (latent + rope_size)]
  CacheView cache;
  int room = 0;                    // of a warp, floats
};
void place_latents(LatentPlace place, const StepInput& input, int most, Stream stream);

// gate.cu
// x [columns][stride], times sigmoid(gates) where there are gates -> activations of `size` inputs
void quantize(const float* x, int stride, int size, const float* gates, int gate_stride, const int* count, const Activations& out, int most, Stream stream);
// x [columns][stride] times gates of heads -> activations of `size` inputs
void quantize_gated_heads(const float* x, int stride, int size, const HeadGates& gates, const int* count, const Activations& out, int most, Stream stream);
// The activation of gate [columns][stride] and up [columns][up_stride] (the same where there is no gate) -> inputs of the next product, `size` of them
struct Gate {
  const float *gate, *up;
  int stride, up_stride, size;
  Activation activation;
  const int* count;                // columns, on the device
  const Choice* choices;           // for experts: columns are the places of these, `used` per column of the step
  int used;
  Activations out;
  const float* curve = nullptr;    // [3] of xIELU, in place of `activation`, or null
};
void gate(const Gate& gate, int most, Stream stream);

// experts.cu
struct Routing {
  const float* logits;             // [columns][stride]
  int stride, experts, used;
  int groups, groups_used;         // of experts, of which the likeliest are chosen from
  bool sigmoid, normalize;
  const float* choice_bias;        // [experts], or null
  Choice* choices;                 // [columns][used], each column's by ascending expert
  ExpertColumns* lists;            // [most_groups(experts, choices, together)]
  int* list_count;
};
// Chooses each column's experts, and lists each expert's columns, at most `together` in a list.
void choose_experts(const Routing& routing, int together, const StepInput& input, int most, Stream stream);
void gather_choices(const Routing& routing, const StepInput& input, const Activations& from, const Activations& to, int most, Stream stream);
// The most lists of `together` columns (or groups of kColumns places) that so many choices can need: each expert begins a new one.
constexpr int most_groups(int experts, int choices, int together) { return choices / together + (experts < choices ? experts : choices); }
// x [columns][stride] += the experts' outputs times their weights, and the shared expert's; or becomes that
struct Combination {
  const Choice* choices;
  int used, size, stride;
  const float* answers;            // [places][stride]
  const float* shared;             // [columns][stride], or null
  const float* shared_logits;      // [columns][shared_stride], or null: it counts whole
  int shared_stride;
  float* x;
  bool adds;
};
void combine_experts(const Combination& combination, const StepInput& input, int most, Stream stream);

// token_inputs.cu: inputs += products / rms(products) * weight, layer by layer
struct TokenInputs {
  const float* products;           // [columns][stride], of which each layer has `size`
  float* inputs;                   // [columns][stride]
  int stride, layers, size;
  const float* weight;             // [size]
  float epsilon;
  const int* count;
};
constexpr int kMostTokenInputs = 2048;  // of eight warps in shared memory
void add_token_norms(const TokenInputs& inputs, int most, Stream stream);

// recurrent.cu
// Where the states of a layer are, laid out as in native/cpu/recurrent.h; `layer` counts recurrent layers only.
struct RecurrentState {
  float *states, *updates;
  int layers, layer, channel_stride, value_stride, replay;
  size_t conv_size, matrix_size, state_size, update_size;

  PACELINE_DEVICE float* conv(int slot, int which) const { return states + ((static_cast<size_t>(slot) * 2 + which) * layers + layer) * state_size; }
  PACELINE_DEVICE float* matrix(int slot, int which, int head) const { return conv(slot, which) + conv_size + matrix_size * head; }
  PACELINE_DEVICE float* update(int slot, int token) const { return updates + ((static_cast<size_t>(slot) * layers + layer) * replay + token) * update_size; }
};
struct Recurrent {
  RecurrentState state;
  const float* mixed;              // [columns][stride]: inputs of the convolution, and at the offsets alpha and beta; null: a row's updates are replayed
  int stride, alpha_offset, beta_offset;
  const float *taps_weights, *taps_bias, *decay, *time_bias;  // [taps][channel_stride], [channels] or null, [value_heads] twice
  const float* skip;               // [value_heads] of a state space, which has no beta; otherwise null
  int taps, key_heads, value_heads, key_size, value_size;
  int query_channel, key_channel, value_channel;  // where they begin among the channels
  bool grouped_heads;
  float query_scale;
  float* convolved;                // [columns][channel_stride]: queries and keys, of unit length but of a state space; values
  float* gates;                    // [columns][2 * value_heads]: decay, beta
  float* out;                      // [columns][out_stride], or null
  int out_stride;
};
// A gated short convolution: of a column's [gate | gate of the output | inputs], gate * inputs is convolved over the last tokens, and the result times its gate.
struct GatedConvolution {
  RecurrentState state;
  const float* mixed;              // [columns][stride]; null: a row's updates are replayed
  int stride;
  const float* taps_weights;       // [taps][channel_stride]
  int taps, width;
  Activations out;
};
void convolve_gated(const GatedConvolution& convolution, const RowInput* rows, const Column* columns, const int* count, int most, Stream stream);
// Both read the committed state and write the other. columns: null where all are of the first row.
void convolve(const Recurrent& recurrent, const RowInput* rows, const Column* columns, const int* count, int most, Stream stream);
void delta_rule(const Recurrent& recurrent, const RowInput* rows, const int* count, int most_rows, Stream stream);
// recurrent_join.cu
// x / rms(x) * weight, part by part, times silu(gates) -> activations; or x times silu(gates) first, and then the norms
struct RecurrentJoin {
  const float* x;                  // [columns][stride]
  int stride;
  const float* gates;              // [columns][gate_stride]
  int gate_stride;
  const float* weight;             // [size], or [parts * size] where gates come first
  int parts, size;                 // that are normed together: heads, or groups of gated ones
  bool gates_first;
  float epsilon;
  const int* count;
  Activations out;
};
void join_recurrent(const RecurrentJoin& join, int most, Stream stream);
// recurrent_token.cu: convolve and delta_rule of rows of one token, where they fit_recurrent_token(), and of heads that joins_heads(), join_recurrent, too; otherwise
// join.weight is null.
bool fits_recurrent_token(const Recurrent& recurrent);
bool joins_heads(const Recurrent& recurrent, const RecurrentJoin& join);
void recurrent_token(const Recurrent& recurrent, const RecurrentJoin& join, const RowInput* rows, const int* count, int most_rows, Stream stream);
constexpr int kMostNormed = 24576;  // outputs of groups that a block has in shared memory, where gates come first

// vocabulary.cu
void soft_cap(float cap, float* logits, int stride, int size, const int* count, int most, Stream stream);
// The largest of logits [count][stride], ties to the lower id -> tokens [count]. parts: room for kVocabularyParts pairs each.
constexpr int kVocabularyParts = 32;
void choose_largest(const float* logits, int stride, int size, const int* count, Largest* parts, int* tokens, int most, Stream stream);


// sample.cu: after choose_largest, for outputs that want more
constexpr int kMostCandidates = 4096;
struct Sample {
  float* logits;                   // [outputs][stride]
  int stride, size, id_bits;       // size <= 2^id_bits
  int* candidates;                 // [outputs][kMostCandidates]
  int* tokens;                     // [outputs]
  uint8_t* told;                   // a Told and its Likely for each output that asks for log-probabilities
};
void sample_tokens(const Sample& sample, const StepInput& input, int most, Stream stream);

}  // namespace paceline::cuda
