#include "bench/train_models.h"

#include "bench/attention_cases.h"
#include "heed/autograd/basic_ops.h"
#include "heed/autograd/layer_ops.h"
#include "heed/autograd/loss_ops.h"
#include "heed/core/error.h"
#include "heed/core/rng.h"
#include "heed/nn/module.h"

namespace heed::bench {
namespace {

constexpr int64_t kFeedForward = 4;  // times the width

TensorOf<int64_t> random_ids(uint64_t seed, std::vector<int64_t> shape, int64_t below) {
  TensorOf<int64_t> ids(std::move(shape));
  const Rng rng(seed);
  uint64_t counter = 0;
  for (int64_t& id : ids.values()) id = static_cast<int64_t>(rng.bits(counter++) % static_cast<uint64_t>(below));
  return ids;
}

// Of the original transformer, with final norms where there is a Transformer.
nn::TransformerOptions post_norm_options(const TrainSizes& sizes) {
  nn::TransformerOptions options;
  options.width = sizes.width;
  options.heads = sizes.heads;
  options.feed_forward = kFeedForward * sizes.width;
  options.layers = options.decoder_layers = sizes.layers;
  options.dropout = 0.0F;
  return options;
}

nn::TransformerOptions pre_norm_options(const TrainSizes& sizes, bool final_norm) {
  nn::TransformerOptions options = post_norm_options(sizes);
  options.norm_first = true;
  options.activation = Activation::gelu;
  options.final_norm = final_norm;
  return options;
}

// The self or cross attention of a layer, forward and backward, with its projections.
double layer_attention_flops(const TrainSizes& sizes, const char* mask) {
  AttentionSizes attention;
  attention.mask = mask;
  attention.batch = sizes.batch;
  attention.heads = attention.kv_heads = sizes.heads;
  attention.dim = sizes.width / sizes.heads;
  attention.t_q = attention.t_k = sizes.length;
  attention.width = sizes.width;
  return attention_flops("both", attention);
}

// Forward, the gradient of the input and that of the weight.
double linear_flops(int64_t rows, int64_t inputs, int64_t outputs) {
  return 6.0 * static_cast<double>(rows) * static_cast<double>(inputs * outputs);
}

}  // namespace

Batch random_batch(const TrainSizes& sizes) {
  const std::vector<int64_t> tokens = {sizes.batch, sizes.length};
  Batch batch;
  batch.source = random_ids(1, tokens, sizes.vocabulary);
  if (sizes.model == "translator") batch.target = random_ids(2, tokens, sizes.vocabulary);
  batch.labels = sizes.model == "classifier" ? random_ids(3, {sizes.batch}, Classifier::kClasses)
                                             : random_ids(3, tokens, sizes.vocabulary);
  return batch;
}

Classifier::Classifier(const TrainSizes& sizes)
    : words(sizes.vocabulary, sizes.width),
      positions(sizes.length, sizes.width),
      encoder(pre_norm_options(sizes, false)),
      classes(sizes.width, kClasses) {}

Var Classifier::loss(Tape& tape, const Batch& batch) const {
  Var x = embedding(batch.source, tape.parameter(words.weight), {.positions = tape.parameter(positions.weight)});
  x = encoder(x);  // [B, T, C]
  return cross_entropy(classes(mean(x, 1)), batch.labels.values());
}

LanguageModel::LanguageModel(const TrainSizes& sizes)
    : words(sizes.vocabulary, sizes.width),
      positions(sizes.length, sizes.width),
      layers(pre_norm_options(sizes, true)) {}

Var LanguageModel::loss(Tape& tape, const Batch& batch) const {
  const Var table = tape.parameter(words.weight);
  Var x = embedding(batch.source, table, {.positions = tape.parameter(positions.weight)});
  x = layers(x, mask);  // [B, T, C]
  return linear_cross_entropy(x, table, {}, batch.labels.values());
}

Translator::Translator(const TrainSizes& sizes)
    : words(sizes.vocabulary, sizes.width),
      transformer(post_norm_options(sizes)),
      output(sizes.width, sizes.vocabulary) {}

Var Translator::loss(Tape& tape, const Batch& batch) const {
  const Var x = transformer(words(tape, batch.source), words(tape, batch.target), masks);  // [B, T, C]
  return linear_cross_entropy(x, tape.parameter(output.weight), tape.parameter(output.bias), batch.labels.values());
}

TrainModel make_model(const TrainSizes& sizes) {
  const auto initialised = [](auto model) {
    nn::initialise(model, Rng(1));
    return TrainModel(std::move(model));
  };
  if (sizes.model == "classifier") return initialised(Classifier(sizes));
  if (sizes.model == "language-model") return initialised(LanguageModel(sizes));
  check(sizes.model == "translator", "make_model", "unknown model ", sizes.model,
        "; give classifier, language-model or translator");
  return initialised(Translator(sizes));
}

double train_flops(const TrainSizes& sizes) {
  const int64_t tokens = sizes.batch * sizes.length;
  const auto layers = static_cast<double>(sizes.layers);
  const double dense = layer_attention_flops(sizes, "dense");
  const double causal = layer_attention_flops(sizes, "causal");
  const double feed_forward = 2 * linear_flops(tokens, sizes.width, kFeedForward * sizes.width);
  const double to_tokens = linear_flops(tokens, sizes.width, sizes.vocabulary);
  if (sizes.model == "classifier") {
    return layers * (dense + feed_forward) + linear_flops(sizes.batch, sizes.width, Classifier::kClasses);
  }
  if (sizes.model == "language-model") return layers * (causal + feed_forward) + to_tokens;
  // An encoder layer, and a decoder layer with its two attentions.
  return layers * (dense + feed_forward) + layers * (causal + dense + feed_forward) + to_tokens;
}

}  // namespace heed::bench
