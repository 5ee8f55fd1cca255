// Gated products of the formats with super-blocks of 256 inputs and a header for each, but for those with a grid.
#include "gated_product.h"

namespace paceline::cuda {

void gated_product_256(Format format, const Product& product, int most_columns, Stream stream) {
  switch (format) {
    case Format::Q6_K: return gated_product_of<Format::Q6_K>(product, most_columns, stream);
    case Format::Q5_K: return gated_product_of<Format::Q5_K>(product, most_columns, stream);
    case Format::Q4_K: return gated_product_of<Format::Q4_K>(product, most_columns, stream);
    case Format::IQ4_XS: return gated_product_of<Format::IQ4_XS>(product, most_columns, stream);
    case Format::Q3_K: return gated_product_of<Format::Q3_K>(product, most_columns, stream);
    case Format::Q2_K: return gated_product_of<Format::Q2_K>(product, most_columns, stream);
    default: return;
  }
}

}  // namespace paceline::cuda
