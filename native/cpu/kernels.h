// What an instruction set provides: one table of kernels each for plain, avx2 and avx512, chosen when the core is made.
// Every kernel gives the same bits in all three, for any number of columns and any split among threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cache.h"
#include "tile.h"

namespace paceline {

// What becomes of the sums of a product: written over, or added to, out[column][row].
enum class Epilogue { Store, Add };

struct Kernels {
  const char* name;

  // Row tile `tile` of `weights` times `columns` columns: sums of 16 outputs each, stored in or added to out + c * stride + 16 * tile.
  void (*product)(const Matrix& weights, int tile, const Activations& input, int columns, Epilogue epilogue, float* out, size_t stride,
                  Scratch& scratch);

  // Row tiles 2*pair and 2*pair+1 of gate and up together: silu(gate) * up, 32 outputs, written as block `pair` of `output`.
  void (*gated_product)(const Matrix& gate, const Matrix& up, int pair, const Activations& input, int columns, const Activations& output,
                        int output_blocks, Scratch& scratch);

  // x [size] / rms(x) * weight [size] -> y [padded to 32, zeros past size]. 16 lanes folded 8-4-2-1.
  void (*rms_norm)(const float* x, const float* weight, float epsilon, int size, float* y);

  // y [blocks * 32] as blocks first .. first+blocks-1 of column `column` of `output`, in the forms that it has.
  void (*quantize)(const float* y, int first, int blocks, int column, int output_blocks, const Activations& output);

  // Rotates heads of x [heads][head_size] in place; cosine, sine [rope_size / 2] of the position. The rest of a head stays.
  void (*rotate)(float* x, int heads, int head_size, int rope_size, bool pairs, const float* cosine, const float* sine);

  // k, v [head_size] into key `position % 64` of the page.
  void (*write_cache)(const CacheView& cache, int page, int position, const float* k, const float* v);

  // `queries` queries q[i] [head_size], already scaled, at positions[i], over keys 0..positions[i] -> out[i] [head_size].
  // scratch: kAttentionScratch(value_stride) floats per query.
  void (*attend)(const CacheView& cache, const int32_t* table, int queries, const float* const* q, const int* positions, float* const* out,
                 float* scratch);

  // Index of the largest of x [size]; the lower index on ties.
  int (*largest)(const float* x, int size);

  // e^((x[i] - peak) * factor) -> y [size]; x may be y.
  void (*weigh)(const float* x, float peak, float factor, int size, float* y);
};

constexpr int kQueryTile = 16;   // most queries to one attend call
constexpr size_t attention_scratch(int value_stride) { return kPage + 2 * static_cast<size_t>(value_stride) + 16; }

namespace plain { const Kernels& kernels(); }
namespace avx2 { const Kernels& kernels(); }
namespace avx512 { const Kernels& kernels(); }

// "auto", "plain", "avx2" or "avx512"; throws std::invalid_argument for a name that is unknown or that this processor lacks.
const Kernels& choose_kernels(const char* name);

}  // namespace paceline
