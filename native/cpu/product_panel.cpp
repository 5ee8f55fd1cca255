// Products of a panel: the formats share them, once their codes are bytes and their scales f32.
#include "integer_product.h"

#if defined(__AMX_INT8__)
#include "panel_amx.h"
#endif

namespace paceline::PACELINE_ISA {

void panel_columns(CodeRange range, bool minimum, int scales, int columns, const uint8_t* panel, int blocks, const QuantizedBlock* x, bool begins, float* sums,
                   const Ahead& ahead) {
  const auto run = [&]<CodeRange codes, bool with_minimum, int scales_of_row>() -> void {
    using F = Panel<codes, with_minimum, scales_of_row>;
#if defined(__AMX_INT8__)
    if constexpr (has_amx(scales_of_row)) amx_columns<F>(columns, panel, blocks, x, begins, sums, ahead);
    else
#endif
      integer_columns<F>(columns, panel, blocks, x, begins, sums, ahead);
  };
  // Templates, so that of what is not chosen nothing is compiled.
  const auto run_one = [&]<bool amx, bool narrow>() -> void {
    if constexpr (amx) return minimum ? run.template operator()<kSignedCodes, true, 1>() : run.template operator()<kSignedCodes, false, 1>();
    if constexpr (narrow) {
      if (range == CodeRange{0, 15}) return run.template operator()<CodeRange{0, 15}, true, 1>();
      if (range == CodeRange{8, 15}) return run.template operator()<CodeRange{8, 15}, false, 1>();
    }
    if constexpr (!amx) {
      if (minimum) return run.template operator()<CodeRange{0, 31}, true, 1>();
      if (range.bias == 128) return run.template operator()<CodeRange{128, 255}, false, 1>();
      if (range.bias == 64) return run.template operator()<CodeRange{64, 127}, false, 1>();
      return run.template operator()<CodeRange{16, 31}, false, 1>();
    }
  };
  if (scales == 1) return run_one.template operator()<has_amx(1), kNarrow>();
  if (minimum) return run.template operator()<CodeRange{0, 31}, true, 2>();
  if (range.bias == 64) return run.template operator()<CodeRange{64, 127}, false, 2>();
  if (range.bias == 32) return run.template operator()<CodeRange{32, 63}, false, 2>();
  return run.template operator()<CodeRange{16, 31}, false, 2>();
}

}  // namespace paceline::PACELINE_ISA
