// The working memory of a step, and what its parts share. For step*.cu.
#pragma once

#include "core.h"
#include "layout.h"
#include "operations.h"

namespace paceline::cuda {

// Device tables of a layer's expert matrices, for their products.
struct ExpertTables {
  const ExpertWeights *gate = nullptr, *up = nullptr, *down = nullptr;
};

// Of a layer's heads, of latent attention.
struct HeadTables {
  const ExpertWeights *keys = nullptr, *values = nullptr;
};

// One allocation, for steps of up to the sizes `room`.
struct DeviceCore::Work {
  Sizes room;
  uint8_t* place = nullptr;
  size_t bytes = 0;
  bool integer = false, halves = false, brains = false, floating = false;  // forms of activations that the weights' formats need
  int stride_x = 0, stride_mixed = 0, stride_router = 0, stride_expert = 0, stride_tokens = 0, attention = 0;
  float *x = nullptr, *earlier_x = nullptr, *branch = nullptr, *mixed = nullptr, *queries = nullptr, *gates = nullptr, *attended = nullptr, *partial = nullptr, *logits = nullptr;
  Activations width_input, attention_input, ffn_input, head_input;
  Largest* parts = nullptr;
  int *tokens = nullptr, *candidates = nullptr;
  uint8_t* told = nullptr;

  float *token_products = nullptr, *token_inputs = nullptr;  // [columns][stride_tokens]
  std::vector<HeadTables> heads;  // [layers], of latent attention
  int stride_latent = 0;
  float *latent_queries = nullptr, *head_outputs = nullptr;  // [columns][stride_latent], [places][latent or latent_values]
  ExpertColumns* head_lists = nullptr;
  int* head_list_count = nullptr;
  Activations rank_input, key_input, value_input;
  float *convolved = nullptr, *delta_gates = nullptr;  // of recurrent layers
  Activations recurrent_input;

  int stride_joined = 0;
  float* joined = nullptr;  // [columns][stride_joined], of the layer that drafts
  Activations join_input;

  std::vector<ExpertTables> experts;       // [layers]
  float *router = nullptr, *expert_mixed = nullptr, *answers = nullptr, *combined = nullptr;
  Choice* choices = nullptr;
  ExpertColumns* lists = nullptr;
  int* list_count = nullptr;
  Activations expert_input, expert_ffn;

  // Whether each split of attention has a block of its own. blocks: of one column's heads, without splits; together: how many are faster in one.
  bool splits_apart(const Sizes& sizes, int blocks, int together) const;
};

// A step that is being enqueued.
struct DeviceCore::Pass {
  const Sizes& sizes;
  StepInput input;
  Stream stream;
  int most;            // columns that grids are sized for
  const int* columns;  // how many there are, on the device
};

// Products of matrices with the same inputs, their outputs side by side in each column; one launch per format. product: all but the items.
// experts: used in place of the matrices' data; the matrices are then those of any one expert.
void run_products(Product product, const Matrix* const* matrices, const ExpertWeights* const* experts, int count, float* out, int most, Stream stream);
void run_product_of(const Matrix& m, const Activations& input, const int* columns, float* out, int stride, bool add, int most, Stream stream);

inline Product product_of(const Activations& input, const int* columns, int stride) {
  Product product;
  product.input = input;
  product.columns = columns;
  product.stride = stride;
  return product;
}

}  // namespace paceline::cuda
