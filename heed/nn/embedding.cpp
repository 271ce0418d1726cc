#include "heed/nn/embedding.h"

#include <algorithm>

#include "heed/autograd/layer_ops.h"
#include "heed/core/error.h"

namespace heed::nn {

Embedding::Embedding(int64_t rows, int64_t width, const EmbeddingOptions& given) : options(given) {
  check(rows > 0 && width > 0, "nn::Embedding", rows, " rows of width ", width, "; both must be above 0");
  check(!options.padding_idx || (*options.padding_idx >= 0 && *options.padding_idx < rows), "nn::Embedding",
        "padding_idx ", options.padding_idx.value_or(0), " is not one of the ", rows, " rows");
  weight = Parameter({rows, width});
}

Var Embedding::operator()(Tape& tape, const TensorOf<int64_t>& ids) const {
  return embedding(ids, tape.parameter(weight), {.padding_idx = options.padding_idx});
}

// Normal, and 0 for the padding.
void Embedding::initialise(Initialiser& draw) {
  draw.normal(weight, 1.0F);
  if (!options.padding_idx) return;
  const View<float, 2> table = weight.value<2>();
  std::fill_n(&table(*options.padding_idx, 0), table.size(1), 0.0F);
}

}  // namespace heed::nn
