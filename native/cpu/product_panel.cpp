// Products of a panel: the formats share them, once their codes are bytes and their scales f32.
#include "integer_product.h"

#if defined(__AMX_INT8__)
#include "panel_amx.h"
#endif

namespace paceline::PACELINE_ISA {

void panel_columns(CodeRange codes, bool minimum, int scales, int columns, const uint8_t* panel, int blocks, const QuantizedBlock* x, bool begins, float* sums,
                   const Ahead& ahead) {
  const auto run = [&]<CodeRange range, bool with_minimum, int of_row>() {
    using F = Panel<range, with_minimum, of_row>;
#if defined(__AMX_INT8__)
    if constexpr (has_amx(of_row)) amx_columns<F>(columns, panel, blocks, x, begins, sums, ahead);
    else
#endif
      integer_columns<F>(columns, panel, blocks, x, begins, sums, ahead);
  };
  if (scales == 1) {
    if constexpr (has_amx(1)) {
      return minimum ? run.template operator()<CodeRange{0, 255}, true, 1>() : run.template operator()<CodeRange{0, 255}, false, 1>();
    } else {
      if constexpr (kNarrow) {
        if (codes == CodeRange{0, 15}) return run.template operator()<CodeRange{0, 15}, true, 1>();
        if (codes == CodeRange{8, 15}) return run.template operator()<CodeRange{8, 15}, false, 1>();
      }
      if (minimum) return run.template operator()<CodeRange{0, 31}, true, 1>();
      if (codes.bias == 128) return run.template operator()<CodeRange{128, 255}, false, 1>();
      if (codes.bias == 64) return run.template operator()<CodeRange{64, 127}, false, 1>();
      return run.template operator()<CodeRange{16, 31}, false, 1>();
    }
  }
  if (minimum) return run.template operator()<CodeRange{0, 31}, true, 2>();
  if (codes.bias == 64) return run.template operator()<CodeRange{64, 127}, false, 2>();
  if (codes.bias == 32) return run.template operator()<CodeRange{32, 63}, false, 2>();
  return run.template operator()<CodeRange{16, 31}, false, 2>();
}

}  // namespace paceline::PACELINE_ISA
