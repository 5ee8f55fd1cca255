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

#include "draft.h"
#include "memory.h"
#include "model.h"
#include "recurrent.h"
#include "sampling.h"
#include "slots.h"

namespace paceline {

// Each [context][rope_size / 2].
struct Rotation {
  std::vector<float> cosine, sine;
};
// What depends on a position alone.
struct Tables {
  Rotation rotation, local;         // local: of sliding layers, empty where they turn like the others
  std::vector<float> temperatures;  // [context] factors of queries, or empty: 1
};
// Throws std::invalid_argument for tables of other sizes.
void check_tables(const Shape& shape, const Tables& tables);

struct Options {
  int slots = 1;
  int pages = 1;
  int threads = 1;
  int states = 0;  // kept copies of a slot's recurrent state
  int replay = 0;  // tokens of the longest row that may be committed in part where layers are recurrent
  std::string isa = "auto";
  CacheType key_type = CacheType::F16, value_type = CacheType::F16;
};

struct AttentionList;
struct Kernels;

struct StepResult {
  std::vector<int32_t> tokens;    // [sum of outputs], row after row
  const float* logits = nullptr;  // [sum of outputs][logits_stride], valid until the next step; before bias and penalties
  const Likeliest* likeliest = nullptr;  // [sum of outputs], those whose rows ask for logprobs; valid until the next step
  uint64_t weight_bytes = 0;      // counted where tiles are unpacked
  std::vector<std::vector<int32_t>> drafted;  // [rows], behind each one's right outputs; none where no layer drafts
};

class Core {
 public:
  // Throws std::invalid_argument, std::bad_alloc.
  Core(const Shape& shape, const Options& options, Tables tables);

  // Throws std::invalid_argument when name, shape or size is off.
  void load(const Source& source);

  // Rows are checked first; std::invalid_argument leaves everything as it was.
  StepResult step(const std::vector<Row>& rows, bool keep_logits);

  // Moves the slot to `position`: where it stands, anywhere its last step reached, or 0. Absolute, so it can be repeated.
  // Where layers are recurrent, a row of more than Options::replay tokens is committed whole.
  void commit(int slot, int position);

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
  static RecurrentLayout recurrent_layout(const Shape& shape);  // without slots, kept states and updates
  static CacheLayout cache_layout(const Shape& shape, CacheType key_type, CacheType value_type);
  const Shape& shape() const { return shape_; }
  const char* isa() const;
  size_t logits_stride() const { return weights_.logits_stride(); }
  uint64_t weight_bytes() const;  // of one step in which some row wants a prediction and every expert is chosen
  uint64_t token_bytes() const { return weights_.token_bytes(); }
  uint64_t draft_bytes() const { return weights_.draft_bytes(); }
  uint64_t head_bytes() const { return weights_.head().bytes(); }
  uint64_t loaded_bytes() const { return arena_.bytes(); }  // all weights, as they lie in memory

 private:
  struct Work;
  class Step;

  uint8_t* page(int index) const;
  void replay(int slot, int count);
  void list_columns(const std::vector<Row>& rows, Work& work);
  void list_items(const std::vector<Row>& rows, const Heads& heads, const Work& work, AttentionList& list) const;
  void reserve(const std::vector<Row>& rows, Work& work);
  void draft(const std::vector<Row>& rows, StepResult& result);
  void pass_drafts(const std::vector<Row>& rows, const std::vector<const float*>& streams, const float* norm, StepResult& result);

  const Shape shape_;
  const Options options_;
  const Kernels& kernels_;
  const CacheLayout cache_;
  Arena arena_;
  Weights weights_;
  Tables tables_;
  Mapping pool_;
  std::unique_ptr<RecurrentStates> states_;
  SlotTable slots_;
  std::unique_ptr<Work> work_, draft_work_;
  Buffer<float> chained_streams_;  // [rows][stride_x], of drafted tokens

 public:
  ~Core();
};

}  // namespace paceline
