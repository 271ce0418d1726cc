// The models that `heed bench train` trains, written as a user would write them. tools/peers/torch_training.py has the
// same in PyTorch.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "heed/autograd/tape.h"
#include "heed/autograd/var.h"
#include "heed/core/tensor.h"
#include "heed/nn/embedding.h"
#include "heed/nn/linear.h"
#include "heed/nn/positions.h"
#include "heed/nn/transformer.h"

namespace heed::bench {

// The feed-forward blocks are 4 times as wide as the model.
struct TrainSizes {
  std::string model;  // classifier, language-model or translator
  int64_t batch = 1;
  int64_t length = 1;  // tokens of an item; a translator has as many on each side
  int64_t width = 1;
  int64_t heads = 1;
  int64_t layers = 1;  // a translator has as many on each side
  int64_t vocabulary = 1;
};

// What one step learns from.
struct Batch {
  TensorOf<int64_t> source;  // [B, T]: what a classifier or language model reads
  TensorOf<int64_t> target;  // [B, T]: what a translator has written so far; else empty
  TensorOf<int64_t> labels;  // [B] classes, or [B, T] tokens
};

// Random tokens and labels.
Batch random_batch(const TrainSizes& sizes);

// Texts to one of 2 classes: pre-norm layers, the mean over the tokens, a linear map.
struct Classifier {
  static constexpr int64_t kClasses = 2;

  explicit Classifier(const TrainSizes& sizes);

  nn::Embedding words;
  nn::LearnedPositions positions;
  nn::TransformerEncoder encoder;
  nn::Linear classes;

  Var loss(Tape& tape, const Batch& batch) const;

  void parts(auto&& visit) {
    visit("words", words), visit("positions", positions), visit("encoder", encoder), visit("classes", classes);
  }
};

// The next token, like GPT-2: pre-norm layers that see what came before, a final norm, and the embedding once more as
// the output map.
struct LanguageModel {
  explicit LanguageModel(const TrainSizes& sizes);

  nn::Embedding words;
  nn::LearnedPositions positions;
  nn::TransformerEncoder layers;
  Mask mask = Mask::causal();

  Var loss(Tape& tape, const Batch& batch) const;

  void parts(auto&& visit) { visit("words", words), visit("positions", positions), visit("layers", layers); }
  // As an output map, an embedding of deviation 1 would begin with huge logits.
  void initialise(nn::Initialiser& draw) { draw.normal(words.weight, 0.02F); }
};

// Encoder and decoder of the original transformer, between one embedding for both sides and an output map.
struct Translator {
  explicit Translator(const TrainSizes& sizes);

  nn::Embedding words;
  nn::Transformer transformer;
  nn::Linear output;
  nn::TransformerMasks masks{.target = Mask::causal()};

  Var loss(Tape& tape, const Batch& batch) const;

  void parts(auto&& visit) { visit("words", words), visit("transformer", transformer), visit("output", output); }
};

using TrainModel = std::variant<Classifier, LanguageModel, Translator>;

// The model that the sizes name, with initial values.
TrainModel make_model(const TrainSizes& sizes);

// Useful floating-point operations of a step, forward and backward: those of the matrix products, 6 for each weight and
// token, and of attention, which counts visible pairs (attention_flops).
double train_flops(const TrainSizes& sizes);

}  // namespace heed::bench
