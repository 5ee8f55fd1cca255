// A model: its shape, its layers, and its tensors as they are loaded, whatever memory they are put in.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tile.h"

namespace paceline {

enum class LayerKind { Attention, Sliding, Recurrent, FeedForward };  // the last mixes no positions

// The sizes of a layer's attention.
struct Heads {
  int heads, kv_heads, head_size, rope_size, value_size;
  int queries() const { return heads * head_size; }
};

// Zero means that a model has no such thing.
struct Shape {
  int layers = 0, width = 0, heads = 0, kv_heads = 0, head_size = 0, ffn = 0, vocab = 0, context = 0;
  std::vector<LayerKind> kinds;     // [layers + drafting]
  int drafting = 0;                 // 1: behind the layers is one that drafts
  int rope_size = 0;                // dimensions of a head that turn
  bool rope_pairs = false;          // neighbours turn together; otherwise the two halves
  float norm_epsilon = 0.0f;
  float post_norm_epsilon = 0.0f;   // of norms after a branch; 0: as elsewhere
  bool embedding_norm = false;      // a token's embedding is normed before anything reads it
  bool tied = false;                // the head is the embedding
  bool qkv_bias = false, output_bias = false, expert_bias = false;  // of queries, keys and values; of attention's output; of router and experts
  bool sinks = false;               // each head has a score without a key: it takes a share of the attention
  bool qk_norm = false;             // each head of queries and keys is normed before it turns
  bool whole_qk_norm = false;       // not each head: those of all heads as one vector
  bool rotates_first = false;       // queries and keys are normed after they turn
  bool value_norm = false;          // each head of values is normed
  bool keys_as_values = false;      // layers with full attention have no value matrix: values are the keys before norm and rotation
  bool gated_attention = false;     // a query head's rows are followed by its gate's; outputs times sigmoid(gate)
  bool head_gates = false;          // a head's outputs are multiplied by the softplus of a logit
  bool pre_norms = true;            // a branch norms the residual stream before it reads it
  bool post_norms = false;          // a branch is normed again before it joins the residual stream
  bool layer_norm = false;          // norms of the residual stream subtract its mean first
  bool parallel = false;            // a layer's feed-forward part reads what its attention has read, not the stream that this has changed
  bool one_branch = false;          // a layer is either what mixes positions or a feed-forward part
  Activation activation = Activation::Silu;
  int window = 0;                   // of sliding layers
  int local_heads = 0, local_kv_heads = 0, local_head_size = 0, local_rope_size = 0;  // of sliding layers; 0: as elsewhere
  int borrowing_layers = 0;         // the last ones, which read the keys and values of the last layer of their kind before them
  int borrowing_ffn = 0;            // the width of their feed-forward; 0: as elsewhere
  int latent = 0;                   // values of a token from which all heads' keys and values follow, by a matrix each; a cached key is these and rope_size more
  int query_rank = 0;               // queries come of so many values, 0: of the residual stream itself
  int latent_keys = 0, latent_values = 0;  // of each head, without what turns
  bool layer_scale = false;         // what leaves a layer is multiplied by a number of its own
  int token_inputs = 0;             // values that each layer takes of a token itself, by a table and by a product of its embedding
  float embedding_scale = 1.0f, query_scale = 1.0f;
  float attention_softcap = 0.0f, final_softcap = 0.0f;
  int experts = 0, experts_used = 0, expert_ffn = 0, shared_ffn = 0;
  int dense_layers = 0;             // the first ones, which have no experts
  bool sigmoid_routing = false;     // an expert's weight is the sigmoid of its own logit, not its share of a softmax
  bool choice_bias = false;         // added to the weights where experts are chosen, not where they count
  int expert_groups = 1, groups_used = 1;  // experts are chosen from the likeliest groups only, all of one size
  bool normalize_experts = false;   // the chosen experts' weights are divided by their sum
  bool shared_gated = false;        // the shared expert's output is multiplied by the sigmoid of a logit
  bool expert_norms = false;        // router, experts and shared expert each have norms of their own
  int conv_kernel = 0, key_heads = 0, value_heads = 0, key_size = 0, value_size = 0;  // of recurrent layers
  bool gated_convolution = false;   // recurrent layers are a convolution of gated inputs, and have no heads
  bool state_space = false;         // recurrent layers are selective state spaces: no beta, a bias of the convolution, norms of gated groups
  bool grouped_heads = false;       // value head h reads key head h / (value_heads / key_heads); otherwise h mod key_heads

  Heads heads_of(LayerKind kind) const {
    if (latent) return {heads, 1, head_size, rope_size, latent};
    if (kind != LayerKind::Sliding) return {heads, kv_heads, head_size, rope_size, head_size};
    const int size = local_head_size ? local_head_size : head_size;
    return {local_heads ? local_heads : heads, local_kv_heads ? local_kv_heads : kv_heads, size, local_rope_size ? local_rope_size : rope_size, size};
  }
  int latent_queries() const { return heads * (latent_keys + rope_size); }
  int attention_outputs() const { return latent ? heads * latent_values : queries(); }  // the inputs of the last product of attention, at most
  Heads heads_that_slide() const { return heads_of(LayerKind::Sliding); }
  int most_heads() const { return std::max(heads, local_heads); }
  int queries() const { return std::max(heads_of(LayerKind::Attention).queries(), heads_that_slide().queries()); }  // at most
  int ffn_of(int layer) const { return borrowing_ffn && layer >= layers - borrowing_layers ? borrowing_ffn : ffn; }
  // The layer whose keys and values it reads: itself, or the last of its kind that keeps any; -1 where there is none.
  int keeper_of(int layer) const;
  int inner() const { return value_heads * value_size; }
  int recurrent_norm_size() const { return state_space ? inner() / key_heads : value_size; }  // outputs of a recurrent layer that are normed together
  int dense_ffn() const { return std::max({experts && !dense_layers ? 0 : ffn, borrowing_ffn, shared_ffn}); }  // the most inputs of a last product that is no expert's
  int channels() const { return gated_convolution ? width : 2 * key_heads * key_size + inner(); }  // of the convolution: inputs, or queries, keys, values
  // Where the channels of queries, keys and values begin; a state space has them the other way around.
  int query_channel() const { return state_space ? inner() + key_heads * key_size : 0; }
  int key_channel() const { return state_space ? inner() : key_heads * key_size; }
  int value_channel() const { return state_space ? 0 : 2 * key_heads * key_size; }
  int key_head(int value_head) const { return grouped_heads ? value_head / (value_heads / key_heads) : value_head % key_heads; }
  float post_epsilon() const { return post_norm_epsilon > 0.0f ? post_norm_epsilon : norm_epsilon; }
  bool gated() const { return activation != Activation::SquaredRelu && activation != Activation::Xielu; }  // feed-forward parts
  bool feeds_forward(LayerKind kind) const { return !one_branch || kind == LayerKind::FeedForward; }
  static bool attends(LayerKind kind) { return kind == LayerKind::Attention || kind == LayerKind::Sliding; }
  bool has_values(LayerKind kind) const { return !keys_as_values || kind != LayerKind::Attention; }  // a matrix of them
  int recurrent_layers() const;
  int all_layers() const { return layers + drafting; }
  // Throws std::invalid_argument naming a size that no model has: what is computed from them indexes memory.
  void check() const;
};

// A tensor as it comes: its GGUF name, its type's name, its bytes in the file's layout.
struct Source {
  std::string name, type;
  int rows, columns;
  const uint8_t* data;
  size_t size;
  std::vector<float> scales;  // factors of a matrix, one or one per expert; none: 1
  bool mapped = false;        // data lies in a file mapped for reading: a matrix is forgotten piece by piece as it is read
};

struct FeedForward {
  Matrix gate, up, down;
  const float* curve = nullptr;  // [3], the constants of its activation, or null
};

struct Layer {
  LayerKind kind = LayerKind::Attention;
  int number = 0;
  int ordinal = 0;         // among the layers that keep keys and values, or among those of its own kind; that of the keeper where they are another's
  bool keeps = true;       // keys and values of its own
  Heads heads{};
  const float *attention_norm = nullptr, *ffn_norm = nullptr;                       // [width], or null: no norm
  const float *attention_post_norm = nullptr, *ffn_post_norm = nullptr;             // [width]
  const float* scale = nullptr;                                                     // [1], of what leaves the layer

  Matrix q, k, v, output;  // output: of recurrent layers too
  const float *q_norm = nullptr, *k_norm = nullptr, *v_norm = nullptr;              // [head_size], of whole norms of all heads
  Matrix q_b;                      // latent: q gives query_rank values, or all of q_b's itself; k gives the latent values and what turns of a key
  std::vector<Matrix> k_b, v_b;    // latent: [latent] and [latent_values], of each head
  const float* sinks = nullptr;                                                     // [heads]
  Matrix gate;                     // [heads], of attention with gates of heads; [inner], of a recurrent layer

  Matrix mixed, alpha, beta;                        // recurrent: [channels], [value_heads] twice; of a gated convolution mixed alone, [3 * channels]; of a state space no beta
  const float *convolution = nullptr, *convolution_bias = nullptr;  // [conv_kernel][channels padded to 16]; [channels], or null
  const float *decay = nullptr, *time_bias = nullptr;  // [value_heads]: -exp(A), dt
  const float* skip = nullptr;                      // [value_heads] of a state space: D
  const float* recurrent_norm = nullptr;            // [value_size], or of a state space [inner]

  FeedForward ffn;                                  // dense, or the shared expert
  Matrix router, shared_gate;                       // [experts], [1]
  const float* choice_bias = nullptr;               // [experts]
  std::vector<FeedForward> experts;                 // none where the feed-forward part is dense
  const float *router_norm = nullptr, *expert_norm = nullptr, *expert_post_norm = nullptr, *shared_post_norm = nullptr;  // [width]

  Matrix token_gate, token_output;                  // [token_inputs], [width]
  const float* token_norm = nullptr;                // [width]

  template <class Function>
  void each_dense_matrix(Function f) const {
    for (const Matrix* m : {&q, &k, &v, &output, &mixed, &gate, &alpha, &beta, &ffn.gate, &ffn.up, &ffn.down, &router, &shared_gate, &token_gate, &token_output, &q_b})
      if (m->data) f(*m);
  }
  template <class Function>
  void each_matrix(Function f) const {
    each_dense_matrix(f);
    for (const std::vector<Matrix>* heads : {&k_b, &v_b})
      for (const Matrix& m : *heads) f(m);
    for (const FeedForward& expert : experts)
      for (const Matrix* m : {&expert.gate, &expert.up, &expert.down})
        if (m->data) f(*m);
  }
};

// What a layer that drafts has before and behind it. It reads a token's embedding and what the model made of the token before.
struct Drafter {
  Matrix join;                                                        // [width] of both, the embedding first
  const float *token_norm = nullptr, *stream_norm = nullptr;          // [width] of each
  const float* final_norm = nullptr;                                  // [width] of what it gives, or null: the model's
};

// The weight types of a GGUF file that have tiles, by name; throws std::invalid_argument naming them all.
Format format_named(const std::string& tensor, const std::string& type);
// Throws std::invalid_argument unless `columns` is a whole number of the format's blocks.
void check_columns(const std::string& tensor, Format format, const std::string& type, int columns);

// Where tensors are put, in the form in which a core reads them.
class Store {
 public:
  virtual ~Store() = default;
  virtual const uint8_t* matrix(const Matrix& matrix, const Source& source) = 0;  // all of `matrix` but its data is known
  virtual const float* vector(const float* values, size_t count) = 0;             // readable for kBlock floats more, zeros
};

class Weights {
 public:
  explicit Weights(const Shape& shape);

  // Throws std::invalid_argument when name, shape or size is off.
  void load(const Source& source, Store& store);
  // Throws std::invalid_argument naming a tensor that is not there.
  void check_loaded();

  const Matrix& head() const { return shape.tied ? embedding : own_head; }
  size_t logits_stride() const { return static_cast<size_t>(head().tiles) * kTileRows; }

  const Shape shape;
  Matrix embedding, own_head;
  Matrix token_table, token_product;      // [vocab, layers * token_inputs], and the product of a token's embedding with as many rows
  const float* token_norm = nullptr;      // [token_inputs]
  const float *embedding_norm = nullptr, *final_norm = nullptr;  // [width]; the first may be null
  std::vector<Layer> layers;              // [all_layers]
  Drafter drafter;

  uint64_t token_bytes() const;  // that a step of one token reads, but for what drafts
  uint64_t draft_bytes() const;  // that one drafted token takes; 0: no layer drafts
  const float* drafter_norm() const { return drafter.final_norm ? drafter.final_norm : final_norm; }

 private:
  uint64_t layer_bytes(const Layer& layer) const;
  void load_layer(Layer& layer, const std::string& part, const Source& source, Store& store);
  void load_matrix(Matrix& matrix, const Source& source, Store& store, int rows, int columns, bool paired = false);
  void load_experts(Layer& layer, Matrix FeedForward::*part, const Source& source, Store& store, int rows, int columns, bool paired = false);
  void load_heads(std::vector<Matrix>& heads, const Source& source, Store& store, int rows, int columns);
  void load_vector(const float*& vector, const Source& source, Store& store, int size);
  void load_expert_biases(Layer& layer, Matrix FeedForward::*part, const Source& source, Store& store, int size);
  void load_choice_bias(Layer& layer, const Source& source, Store& store);
  void load_convolution(Layer& layer, const Source& source, Store& store);

  bool loaded_ = false;  // whether every tensor is known to be there
};

}  // namespace paceline
