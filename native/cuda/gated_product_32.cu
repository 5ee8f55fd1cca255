// Gated products of the formats without super-blocks, whose blocks have their own scales.
#include "gated_product.h"

namespace paceline::cuda {

void gated_product_32(Format format, const Product& product, int most_columns, Stream stream) {
  switch (format) {
    case Format::Q8_0: return gated_product_of<Format::Q8_0>(product, most_columns, stream);
    case Format::Q5_1: return gated_product_of<Format::Q5_1>(product, most_columns, stream);
    case Format::Q5_0: return gated_product_of<Format::Q5_0>(product, most_columns, stream);
    case Format::Q4_1: return gated_product_of<Format::Q4_1>(product, most_columns, stream);
    case Format::Q4_0: return gated_product_of<Format::Q4_0>(product, most_columns, stream);
    case Format::IQ4_NL: return gated_product_of<Format::IQ4_NL>(product, most_columns, stream);
    case Format::MXFP4: return gated_product_of<Format::MXFP4>(product, most_columns, stream);
    case Format::NVFP4: return gated_product_of<Format::NVFP4>(product, most_columns, stream);
    default: return;
  }
}

}  // namespace paceline::cuda
