// Products of a panel: the formats share them, once their codes are bytes and their scales f32.
#include "integer_product.h"

#if defined(__AMX_INT8__)
#include "panel_amx.h"
#endif

namespace paceline::PACELINE_ISA {

void panel_columns(int bias, bool minimum, int scales, int columns, const uint8_t* panel, int blocks, const QuantizedBlock* x, bool begins, float* sums,
                   const Ahead& ahead) {
  const auto run = [&]<class F>() {
#if defined(__AMX_INT8__)
    if constexpr (has_amx(F::kScales)) amx_columns<F>(columns, panel, blocks, x, begins, sums, ahead);
    else
#endif
      integer_columns<F>(columns, panel, blocks, x, begins, sums, ahead);
  };
  if (minimum && scales == 1) return run.template operator()<Panel<0, true, 1>>();
  if (minimum) return run.template operator()<Panel<0, true, 2>>();
  if constexpr (has_amx(1)) {
    if (scales == 1) return run.template operator()<Panel<0, false, 1>>();
  } else {
    if (bias == 128) return run.template operator()<Panel<128, false, 1>>();
    if (bias == 64 && scales == 1) return run.template operator()<Panel<64, false, 1>>();
    if (scales == 1) return run.template operator()<Panel<16, false, 1>>();
  }
  if (bias == 64) return run.template operator()<Panel<64, false, 2>>();
  if (bias == 32) return run.template operator()<Panel<32, false, 2>>();
  return run.template operator()<Panel<16, false, 2>>();
}

}  // namespace paceline::PACELINE_ISA
