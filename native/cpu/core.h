// The CPU core: weights in tiles, a pool of cache pages, slots, and the ragged step (blueprint: one primitive).
//
// A step computes rows (slot, tokens, position) of any lengths in any number and predicts the next token after each of a
// row's last `outputs` tokens. It changes nothing that counts: keys and values go to positions that are scratch until
// commit(slot, position) moves the slot. A step can therefore be tried again, probed, or thrown away.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels.h"
#include "memory.h"
#include "recurrent.h"
#include "sampling.h"

namespace paceline {

enum class LayerKind { Attention, Sliding, Recurrent };

// Zero means that a model has no such thing.
struct Shape {
  int layers = 0, width = 0, heads = 0, kv_heads = 0, head_size = 0, ffn = 0, vocab = 0, context = 0;
  std::vector<LayerKind> kinds;     // [layers]
  int rope_size = 0;                // dimensions of a head that turn
  bool rope_pairs = false;          // neighbours turn together; otherwise the two halves
  float norm_epsilon = 0.0f;
  bool tied = false;                // the head is the embedding
  bool qkv_bias = false;            // queries, keys and values have a bias
  bool qk_norm = false;             // each head of queries and keys is normed before it turns
  bool gated_attention = false;     // a query head's rows are followed by its gate's; outputs times sigmoid(gate)
  bool post_norms = false;          // a branch is normed again before it joins the residual stream
  bool gelu = false;                // the feed-forward's gate; otherwise SiLU
  int window = 0;                   // of sliding layers
  float embedding_scale = 1.0f, query_scale = 1.0f;
  float attention_softcap = 0.0f, final_softcap = 0.0f;
  int experts = 0, experts_used = 0, expert_ffn = 0, shared_ffn = 0;
  bool normalize_experts = false;   // the chosen experts' weights are divided by their sum
  int conv_kernel = 0, key_heads = 0, value_heads = 0, key_size = 0, value_size = 0;  // of recurrent layers
  bool grouped_heads = false;       // value head h reads key head h / (value_heads / key_heads); otherwise h mod key_heads

  int queries() const { return heads * head_size; }
  int keys() const { return kv_heads * head_size; }
  int inner() const { return value_heads * value_size; }
  int channels() const { return 2 * key_heads * key_size + inner(); }  // of the convolution: queries, keys, values
  int key_head(int value_head) const { return grouped_heads ? value_head / (value_heads / key_heads) : value_head % key_heads; }
  int layers_of(bool recurrent) const;
  // Throws std::invalid_argument naming a size that no model has: what is computed from them indexes memory.
  void check() const;
};

// The tables of rotation, each [context][rope_size / 2]; sliding layers may have their own.
struct Rotation {
  std::vector<float> cosine, sine;
};

struct Options {
  int slots = 1;
  int pages = 1;
  int threads = 1;
  int states = 0;  // kept copies of a slot's recurrent state
  std::string isa = "auto";
  CacheType key_type = CacheType::F16, value_type = CacheType::F16;
};

struct Row {
  int slot;
  std::vector<int32_t> tokens;    // [n], ids fed at position, position + 1, ...
  int position;                   // where the slot stands
  int outputs;                    // predictions wanted, for the last `outputs` tokens
  int prompt_tokens;              // ids of the history that are the prompt's
  const int32_t* table;           // [pages of the slot], pool page of positions 64i .. 64i+63
  int table_size;
  Sampling sampling;
};

struct StepResult {
  std::vector<int32_t> tokens;    // [sum of outputs], row after row
  const float* logits = nullptr;  // [sum of outputs][logits_stride], valid until the next step; before bias and penalties
  const Likeliest* likeliest = nullptr;  // [sum of outputs], those whose rows ask for logprobs; valid until the next step
  uint64_t weight_bytes = 0;      // counted where tiles are unpacked
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
};

struct Layer {
  LayerKind kind = LayerKind::Attention;
  int ordinal = 0;         // among the layers that have a cache, or among the recurrent ones
  const float *attention_norm = nullptr, *ffn_norm = nullptr;                       // [width]
  const float *attention_post_norm = nullptr, *ffn_post_norm = nullptr;             // [width]

  Matrix q, k, v, output;  // output: of recurrent layers too
  const float *q_bias = nullptr, *k_bias = nullptr, *v_bias = nullptr;              // [queries], [keys] twice
  const float *q_norm = nullptr, *k_norm = nullptr;                                 // [head_size]

  Matrix mixed, gate, alpha, beta;                  // recurrent: [channels], [inner], [value_heads] twice
  const float* convolution = nullptr;               // [conv_kernel][channels padded to 16]
  const float *decay = nullptr, *time_bias = nullptr;  // [value_heads]: -exp(A), dt
  const float* recurrent_norm = nullptr;            // [value_size]

  FeedForward ffn;                                  // dense, or the shared expert
  Matrix router, shared_gate;                       // [experts], [1]
  std::vector<FeedForward> experts;

  template <class Function>
  void each_matrix(Function f) const {
    for (const Matrix* m : {&q, &k, &v, &output, &mixed, &gate, &alpha, &beta, &ffn.gate, &ffn.up, &ffn.down, &router, &shared_gate})
      if (m->data) f(*m);
    for (const FeedForward& expert : experts)
      for (const Matrix* m : {&expert.gate, &expert.up, &expert.down})
        if (m->data) f(*m);
  }
};

// The weight types of a GGUF file that have tiles, by name; throws std::invalid_argument naming them all.
Format format_named(const std::string& tensor, const std::string& type);
// Throws std::invalid_argument unless `columns` is a whole number of the format's blocks.
void check_columns(const std::string& tensor, Format format, const std::string& type, int columns);

class Core {
 public:
  // Throws std::invalid_argument, std::bad_alloc. `local`: of sliding layers, empty where they turn like the others.
  Core(const Shape& shape, const Options& options, Rotation rotation, Rotation local);

  // Throws std::invalid_argument when name, shape or size is off.
  void load(const Source& source);

  // Rows are checked first; std::invalid_argument leaves everything as it was.
  StepResult step(const std::vector<Row>& rows, bool keep_logits);

  // Moves the slot to `position`: where it stands, anywhere its last step reached, or 0. Absolute, so it can be repeated.
  // A model with recurrent layers keeps the updates of rows of at most kReplay tokens: longer rows are committed whole.
  void commit(int slot, int position);
  static constexpr int kReplay = 64;

  // seats.cpp: all throw std::invalid_argument, and then nothing has changed.
  // Puts the slot where it would stand had it been fed exactly `ids`. Their keys and values are wherever the tables of its
  // later rows point; what recurrent layers made of them is the kept state `state`, which only models with such layers take.
  void seat(int slot, const std::vector<int32_t>& ids, std::optional<int> state);
  void keep(int slot, int state);  // the committed recurrent state of the slot, and its position, into kept state `state`
  void copy_page(int source, int target);  // keys and values of all layers
  void read_page(int page, uint8_t* out) const;  // [page_bytes()]
  void write_page(int page, const uint8_t* data, size_t size);
  void read_state(int state, uint8_t* out) const;  // [state_file_bytes()]: the position as int64, then the state as it lies
  void write_state(int state, const uint8_t* data, size_t size);

  size_t page_bytes() const { return cache_.page_bytes(); }
  size_t state_bytes() const { return states_ ? states_->layout().state_bytes() : 0; }  // of one kept state
  size_t state_file_bytes() const { return sizeof(int64_t) + state_bytes(); }
  static RecurrentLayout recurrent_layout(const Shape& shape);  // without slots and kept states
  static CacheLayout cache_layout(const Shape& shape, CacheType key_type, CacheType value_type);
  const Shape& shape() const { return shape_; }
  const char* isa() const { return kernels_.name; }
  size_t logits_stride() const;
  uint64_t weight_bytes() const;  // of one step in which some row wants a prediction and every expert is chosen
  uint64_t head_bytes() const { return head().bytes(); }
  uint64_t loaded_bytes() const { return arena_.bytes(); }  // all weights, as they lie in memory

 private:
  struct Slot {
    int position = 0;    // committed
    int reached = 0;     // end of the last step's row
    int state = 0;       // which of its two recurrent states is the committed one
    std::vector<int32_t> ids;  // [context]: ids fed, by position
  };
  struct Work;
  class Step;

  static constexpr int kNothing = -1;

  const Matrix& head() const { return shape_.tied ? embedding_ : head_; }
  void check(const std::vector<Row>& rows) const;
  void check_slot(int slot) const;
  void check_state(int state) const;   // that there is such a one
  void check_filled(int state) const;  // and that it holds something
  uint8_t* page(int index) const;
  void check_loaded();
  void load_layer(Layer& layer, const std::string& part, const Source& source);
  void load_matrix(Matrix& matrix, const Source& source, int rows, int columns, bool paired = false);
  void load_experts(Layer& layer, Matrix FeedForward::*part, const Source& source, int rows, int columns, bool paired = false);
  void load_vector(const float*& vector, const Source& source, int size);
  void load_convolution(Layer& layer, const Source& source);
  void replay(int slot, int count);
  void list_columns(const std::vector<Row>& rows, Work& work);
  void reserve(Work& work);

  const Shape shape_;
  const Options options_;
  const Kernels& kernels_;
  const CacheLayout cache_;
  Arena arena_;
  Matrix embedding_, head_;
  const float* final_norm_ = nullptr;
  bool loaded_ = false;  // whether every tensor is known to be there
  std::vector<Layer> layers_;
  Rotation rotation_, local_;
  Mapping pool_;
  std::unique_ptr<RecurrentStates> states_;
  std::vector<int> kept_;  // [options.states] positions of the kept states, or kNothing
  std::vector<Slot> slots_;
  std::unique_ptr<Work> work_;

 public:
  ~Core();
};

}  // namespace paceline
