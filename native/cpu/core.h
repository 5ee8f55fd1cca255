// The CPU core: weights in tiles, a pool of cache pages, slots, and the ragged step (blueprint: one primitive).
//
// A step computes rows (slot, tokens, position) of any lengths in any number and predicts the next token after each of a
// row's last `outputs` tokens. It changes nothing that counts: keys and values go to positions that are scratch until
// commit(slot, position) moves the slot. A step can therefore be tried again, probed, or thrown away.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels.h"
#include "memory.h"
#include "sampling.h"

namespace paceline {

struct Shape {
  int layers, width, heads, kv_heads, head_size, ffn, vocab, context;
  int rope_size;         // dimensions of a head that turn
  bool rope_pairs;       // neighbours turn together; otherwise the two halves
  float norm_epsilon;
  bool tied;             // the head is the embedding
  bool qkv_bias;         // queries, keys and values have a bias
  bool qk_norm;          // each head of queries and keys is normed before it turns
};

struct Options {
  int slots = 1;
  int pages = 1;
  int threads = 1;
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
  const float* logits = nullptr;  // [sum of outputs][logits_stride], valid until the next step; before penalties
  uint64_t weight_bytes = 0;      // counted where tiles are unpacked
};

struct Layer {
  Matrix q, k, v, output, gate, up, down;
  const float* attention_norm = nullptr;
  const float* ffn_norm = nullptr;
  const float *q_bias = nullptr, *k_bias = nullptr, *v_bias = nullptr;  // [heads * head_size], [kv_heads * head_size] twice
  const float *q_norm = nullptr, *k_norm = nullptr;                    // [head_size]
};

// The weight types of a GGUF file that have tiles, by name; throws std::invalid_argument naming them all.
Format format_named(const std::string& tensor, const std::string& type);
// Throws std::invalid_argument unless `columns` is a whole number of the format's blocks.
void check_columns(const std::string& tensor, Format format, const std::string& type, int columns);

class Core {
 public:
  // cosine, sine: [context][rope_size / 2]. Throws std::invalid_argument, std::bad_alloc.
  Core(const Shape& shape, const Options& options, const float* cosine, const float* sine);

  // One tensor by its GGUF name; data in the file's layout. Throws std::invalid_argument when name, shape or size is off.
  void load(const std::string& name, const std::string& type, int rows, int columns, const uint8_t* data, size_t size);

  // Rows are checked first; std::invalid_argument leaves everything as it was.
  StepResult step(const std::vector<Row>& rows, bool keep_logits);

  // Moves the slot to `position`: where it stands, anywhere its last step reached, or 0. Absolute, so it can be repeated.
  void commit(int slot, int position);

  static CacheLayout cache_layout(const Shape& shape, CacheType key_type, CacheType value_type);
  const Shape& shape() const { return shape_; }
  const char* isa() const { return kernels_.name; }
  size_t logits_stride() const;
  uint64_t weight_bytes() const;  // of one step in which some row wants a prediction
  uint64_t head_bytes() const { return head().bytes(); }

 private:
  struct Slot {
    int position = 0;    // committed
    int reached = 0;     // end of the last step's row
    std::vector<int32_t> ids;  // [context]: ids fed, by position
  };
  struct Work;

  const Matrix& head() const { return shape_.tied ? embedding_ : head_; }
  void check(const std::vector<Row>& rows) const;
  void load_matrix(Matrix& matrix, const std::string& name, const std::string& type, int rows, int columns, bool paired, const uint8_t* data, size_t size);
  const float* load_vector(const std::string& name, const std::string& type, int rows, int columns, const uint8_t* data, size_t size);
  void prepare(const std::vector<Row>& rows, Work& work);

  const Shape shape_;
  const Options options_;
  const Kernels& kernels_;
  const CacheLayout cache_;
  Arena arena_;
  Matrix embedding_, head_;
  const float* final_norm_ = nullptr;
  std::vector<Layer> layers_;
  std::vector<float> cosine_, sine_;
  Mapping pool_;
  std::vector<Slot> slots_;
  std::unique_ptr<Work> work_;

 public:
  ~Core();
};

}  // namespace paceline
