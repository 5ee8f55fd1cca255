// The CUDA core: the ragged step of native/cpu/core.h on a device. Weights, slots and rows are those of the CPU core; this adds the memory layout
// on the device and the order of kernels. Host code: it declares no kernel.
//
// A step: prepare(rows) checks them and fills one buffer with what the kernels need to know; the caller uploads it to input_place(); enqueue(sizes) launches
// the kernels, or the caller replays a graph captured from it; finish() turns what was downloaded into the step's result.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../cpu/core.h"
#include "step_input.h"

namespace paceline::cuda {

using Stream = void*;
struct ExpertWeights;

// Device memory, which is the caller's: Python's, through CuPy or the emulator.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual uint8_t* allocate(size_t bytes) = 0;  // aligned to 256; throws
  virtual void release(uint8_t* place) = 0;
  virtual void upload(uint8_t* to, const void* from, size_t bytes) = 0;
  virtual void copy(const uint8_t* from, uint8_t* to, size_t bytes) = 0;  // on the device
};

struct Activations;
struct ExpertTables;
struct Product;
struct GatedConvolution;
struct Recurrent;
struct RecurrentState;

struct DeviceOptions {
  int slots = 1, pages = 1;
  int states = 0;  // kept copies of a slot's recurrent state
  int replay = 0;  // tokens of the longest row that may be committed in part where layers are recurrent
  CacheType key_type = CacheType::F16, value_type = CacheType::F16;
};

// The sizes that a sequence of launches is made for; columns, outputs and splits are rounded up to powers of two. Steps of equal sizes share a graph.
struct Sizes {
  int columns = 0;  // tokens of all rows
  int outputs = 0;
  int splits = 0;   // of the longest history
  int tokens = 0;   // 1: no row has more; otherwise those of a row that attend together, at most, but at least 2
  int sampled = 0;  // whether some output wants more than the largest logit's id
  bool operator==(const Sizes&) const = default;
};

// The input of a replay, on the device.
struct ReplayInput {
  RowInput row;
  int rows;
};

// A step that the device has begun, as far as its results are concerned.
struct Begun {
  Sizes sizes;
  int outputs = 0;            // one for each of its rows
  size_t told_bytes = 0;
  std::vector<int> places;    // of each row that was asked for: which output is its
  std::vector<size_t> told;   // of each output: where in the bytes told its own begin
};

// A copy to be made on the device; from null: to be filled with zeros.
struct Copy {
  uint8_t *from = nullptr, *to = nullptr;
};

// Selects the device for this thread's launches from now on. Throws if it cannot run this build's kernels.
void choose_device(int number);
int most_columns_of_step(const Shape& shape);  // tokens, which the grids of its kernels have room for

class DeviceCore {
 public:
  // Throws std::invalid_argument. If the options name no pages, take_pages() must follow.
  DeviceCore(const Shape& shape, const DeviceOptions& options, const Tables& tables, Memory& memory);
  ~DeviceCore();

  void load(const Source& source);
  bool one_piece = false;  // for benchmarks of speed: only the first piece of a large matrix is packed and uploaded, and copied for the rest

  // Once, if the options name no pages: after the weights, when the remaining memory is known.
  void take_pages(int pages);
  // Called after the weights: reserves memory for steps of up to so many tokens and outputs, with any history.
  void make_room(int columns, int outputs);

  // Throws std::invalid_argument, and then nothing has changed. Reserves memory for the step: generation() changes when
  // earlier captures point to freed memory.
  Sizes prepare(const std::vector<Row>& rows);
  const std::vector<uint8_t>& input() const { return input_; }
  uint8_t* input_place() const { return input_place_; }
  int generation() const { return generation_; }

  void enqueue(const Sizes& sizes, Stream stream);
  uint64_t weight_bytes(const Sizes& sizes, bool drafts = false) const;  // that enqueue, or enqueue_draft, reads and unpacks

  const uint8_t* tokens_place() const;  // int32 [outputs]
  const uint8_t* told_place() const;    // [told_bytes(rows)]: of those that ask for log-probabilities
  const uint8_t* logits_place() const;  // float [outputs][logits_stride()]
  size_t logits_stride() const { return weights_.logits_stride(); }
  size_t told_bytes(const std::vector<Row>& rows) const;
  // All as it came from the device; logits may be null where no row wants them.
  StepResult finish(const std::vector<Row>& rows, const int32_t* tokens, const uint8_t* told, const float* logits);

  // next.cpp: the step behind the one under way, begun before what that predicts is known, so that the device need not wait for the host. prepare_next() fills the
  // input for those of its rows that continue, and reserves nothing; `outputs` says which of the outputs under way each row's is. Nothing if none continues, or one
  // can't, or there is no room. know_tokens(), once behind each prepare_next(), tells what was predicted. take_next(): what has been begun, if all of `rows` are in it.
  // A row that was begun is dropped when its slot moves anywhere but to where its row under way ends; until it moves, a recurrent one can't be in a step again.
  std::optional<Sizes> prepare_next(const std::vector<Row>& rows, const std::vector<int>& outputs);
  void know_tokens(const int32_t* tokens);
  std::optional<Begun> take_next(const std::vector<Row>& rows);  // throws std::invalid_argument, and then nothing has changed but that nothing is begun
  void forget_next() { next_ = {}; }

  // draft.cpp: behind a step, the layer that drafts. begin_drafts() takes what the step predicted; while prepare_draft() gives sizes, the caller uploads the
  // input, launches enqueue_draft() and has take_drafts() take the tokens. finish() has what was drafted.
  void begin_drafts(const std::vector<Row>& rows, const int32_t* tokens);
  std::optional<Sizes> prepare_draft();
  static constexpr int kDraftPasses = 3;  // kinds of passes, each with launches of its own
  int draft_pass_kind() const { return draft_pass_ < 2 ? draft_pass_ : 2 - draft_pass_ % 2; }  // of the one that was prepared last
  void enqueue_draft(const Sizes& sizes, int pass_kind, Stream stream);  // step_draft.cu
  void take_drafts(const int32_t* tokens);

  // states.cpp: all throw std::invalid_argument, and then nothing has changed.
  // Returns how many updates must be replayed, mostly 0. If not, the caller uploads replay_input() to replay_place() and calls replay().
  int commit(int slot, int position);
  Copy seat(int slot, const std::vector<int32_t>& ids, std::optional<int> state);  // to: null where nothing is to be copied
  Copy keep(int slot, int state);
  void check_state(int state) const { slots_.check_state(state); }
  uint8_t* filled_state(int state) const;
  int kept_position(int state) const { return slots_.check_filled(state); }
  uint8_t* fill_state(int state, int64_t position);  // returns where to write it
  size_t state_bytes() const { return states_ ? recurrent_.state_bytes() : 0; }

  const ReplayInput& replay_input() const { return replay_input_; }
  uint8_t* replay_place() const { return replay_place_; }
  void replay(int most, Stream stream);  // of so many updates at most

  uint8_t* page(int index) const;  // throws std::invalid_argument
  size_t page_bytes() const { return cache_.page_bytes(); }
  const Shape& shape() const { return weights_.shape; }
  uint64_t loaded_bytes() const { return loaded_bytes_; }
  uint64_t token_bytes() const { return weights_.token_bytes(); }
  uint64_t draft_bytes() const { return weights_.draft_bytes(); }

 private:
  struct Work;
  struct Pass;
  class PackStore;

  void reserve(const Sizes& sizes);
  // streams: of the layer that drafts, of which columns have streams. behind: the rows' slots will have been committed to where their rows under way end.
  Sizes fill_input(const std::vector<Row>& rows, const std::vector<int>& streams, bool behind = false);
  Sizes room_for(const std::vector<Row>& rows, Sizes sizes) const;
  bool has_room(const Sizes& sizes) const;  // for it and for the input
  void drop_next(int slot, std::optional<int> position);  // unless it is begun at that position
  void list_samples(const std::vector<Row>& rows, const Sizes& sizes, int ahead);  // sampling.cpp; ahead: of a column's token, that of its output is
  int likeliest_of(const Row& row) const;
  // step*.cu
  void embed_tokens(const Pass& pass);
  void predict(const float* norm, const Pass& pass);
  void join_streams(int pass_kind, const Pass& pass);
  void mix(const Layer& layer, const Pass& pass);  // what the layer has before its feed-forward part
  void attention(const Layer& layer, const Pass& pass);
  void latent_attention(const Layer& layer, const Pass& pass);
  void list_heads(const Pass& pass);
  void head_products(const std::vector<Matrix>& heads, const ExpertWeights* weights, const Activations& input, float* out, int stride, const Pass& pass);
  static int padded_columns(int most);
  const ExpertWeights* upload_weights(const std::vector<ExpertWeights>& weights);
  void feed_forward(const Layer& layer, const Pass& pass);
  Activations dense(const Product& product, const FeedForward& ffn, int size, const Pass& pass);
  static bool runs_gated(const FeedForward& ffn);
  void run_pair(const Product& product, const FeedForward& ffn, const ExpertTables* tables, float* out, const Pass& pass);
  void run_gated(Product product, const FeedForward& ffn, const ExpertTables* tables, const Activations& out, const Pass& pass);
  void run_experts(const Layer& layer, const Pass& pass);
  void read_stream(const float* weight, const Pass& pass);
  Product product_of_stream(const float* weight, std::initializer_list<const Matrix*> matrices, const Pass& pass);
  void join(const Matrix& weights, const Activations& inputs, const float* post_norm, const float* scale, const Pass& pass);
  void read_token_inputs(const Pass& pass);
  void add_token_inputs(const Layer& layer, const Pass& pass);
  void add_shared_expert(const Layer& layer, const Pass& pass);
  const float* last_scale(const Layer& layer) const { return shape().token_inputs ? nullptr : layer.scale; }  // of the feed-forward part, where it is the last
  int tokens_of(LayerKind kind) const;  // that attend together
  InputLayout layout_of(int columns, bool sampled) const;
  void list_experts();
  void recurrent(const Layer& layer, const Pass& pass);
  void gated_convolution(const Layer& layer, const Pass& pass);
  GatedConvolution convolution_of(const Layer& layer) const;
  void make_states();
  Recurrent recurrent_of(const Layer& layer) const;
  RecurrentState state_of(const Layer& layer) const;

  uint8_t* kept_place(int state) const;
  uint8_t* committed_place(int slot) const;
  float* upload_table(const std::vector<float>& table);
  uint8_t* allocate(size_t bytes);

  DeviceOptions options_;
  const CacheLayout cache_;
  Memory& memory_;
  Weights weights_;
  std::vector<uint8_t*> places_;  // all allocations but the work's and the input's
  uint64_t loaded_bytes_ = 0;
  float *cosine_ = nullptr, *sine_ = nullptr, *local_cosine_ = nullptr, *local_sine_ = nullptr, *temperatures_ = nullptr;
  uint8_t *pool_ = nullptr, *input_place_ = nullptr;
  std::vector<uint8_t> input_;
  SlotTable slots_;
  RecurrentLayout recurrent_;
  float *states_ = nullptr, *updates_ = nullptr, *replayed_ = nullptr;  // of recurrent layers; replayed: [replay][channel_stride]
  uint8_t* replay_place_ = nullptr;
  ReplayInput replay_input_{};
  struct Next {
    std::vector<Row> rows;                // with an output each; its token is -1 less the output under way that gives it, until it is known
    std::vector<std::vector<int>> pages;  // of each row's table, those that it reads
    Sizes sizes;
  };
  Next next_;
  std::vector<DraftRow> drafting_;   // of the next pass
  std::vector<int> draft_streams_;   // [its columns]
  int draft_pass_ = 0;
  std::vector<std::vector<int32_t>> drafted_;  // [rows of the step]
  std::vector<int> wanted_drafts_;             // [rows of the step]
  uint64_t read_by_drafts_ = 0;                // of the weights, in bytes
  std::unique_ptr<Work> work_;
  int generation_ = 0;
  std::vector<int32_t> tokens_;
  std::vector<Likeliest> likeliest_;
  size_t input_room_ = 0;
  std::vector<int32_t> counts_;  // [vocab], zero between calls: for ids of a history, 1 + their appearances in the output
};

}  // namespace paceline::cuda
