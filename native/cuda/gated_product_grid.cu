// Gated products of the formats whose weights are chosen from a grid of patterns.
#include "gated_product.h"

namespace paceline::cuda {

void gated_product_grid(Format format, const Product& product, int most_columns, Stream stream) {
  switch (format) {
    case Format::IQ3_S: return gated_product_of<Format::IQ3_S>(product, most_columns, stream);
    case Format::IQ3_XXS: return gated_product_of<Format::IQ3_XXS>(product, most_columns, stream);
    case Format::IQ2_S: return gated_product_of<Format::IQ2_S>(product, most_columns, stream);
    case Format::IQ2_XS: return gated_product_of<Format::IQ2_XS>(product, most_columns, stream);
    case Format::IQ2_XXS: return gated_product_of<Format::IQ2_XXS>(product, most_columns, stream);
    case Format::IQ1_M: return gated_product_of<Format::IQ1_M>(product, most_columns, stream);
    case Format::IQ1_S: return gated_product_of<Format::IQ1_S>(product, most_columns, stream);
    default: return;
  }
}

}  // namespace paceline::cuda
