// A small encoder-decoder over token ids, as tools/goldens/make_training.py has it: one embedding for source and
// target, a Transformer, an output map; no positions.
#pragma once

#include <cstdint>

#include "heed/nn/embedding.h"
#include "heed/nn/linear.h"
#include "heed/nn/module.h"
#include "heed/nn/transformer.h"

namespace heed::test {

struct SequenceModel {
  SequenceModel(int64_t vocabulary, const nn::TransformerOptions& options)
      : embedding(vocabulary, options.width), transformer(options), output(options.width, vocabulary) {}

  nn::Embedding embedding;
  nn::Transformer transformer;
  nn::Linear output;

  // source [B, S], target [B, T] → logits [B, T, vocabulary].
  Var operator()(Tape& tape, const TensorOf<int64_t>& source, const TensorOf<int64_t>& target,
                 nn::TransformerMasks masks = {.target = Mask::causal()}) const {
    return output(transformer(embedding(tape, source), embedding(tape, target), masks));
  }

  void parts(auto&& visit) {
    visit("embedding", embedding), visit("transformer", transformer), visit("output", output);
  }
};

}  // namespace heed::test
