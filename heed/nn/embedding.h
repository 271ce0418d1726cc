// Embedding: rows of a table by token id, as torch.nn.Embedding.
#pragma once

#include <cstdint>
#include <optional>

#include "heed/autograd/parameter.h"
#include "heed/autograd/tape.h"
#include "heed/core/tensor.h"
#include "heed/nn/initialiser.h"

namespace heed::nn {

struct EmbeddingOptions {
  std::optional<int64_t> padding_idx{};  // this row starts at 0 and gets no gradient
};

struct Embedding {
  Embedding(int64_t rows, int64_t width, const EmbeddingOptions& given = {});

  Parameter weight;  // [rows, width]
  EmbeddingOptions options;

  // ids of any shape [...] → [..., width]. The ids are copied.
  Var operator()(Tape& tape, const TensorOf<int64_t>& ids) const;

  void parts(auto&& visit) { visit("weight", weight); }
  void initialise(Initialiser& draw);
};

}  // namespace heed::nn
